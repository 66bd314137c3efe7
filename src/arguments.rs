//! From the user's command line to the one that is run: every launcher is told of the ranks' variables in its way.
//! For `run`; no I/O.
//!
//! Invariants: what the user says of a variable himself stands, only `LD_PRELOAD` gets ours put in front; words that
//! are not understood go through as they are; nothing reaches the launcher's own `LD_PRELOAD`.

use crate::launcher::Kind;
use base::settings::{METADATA, NAMING, RELAY};
use std::ffi::OsString;
use std::fmt;

pub const PRELOAD: &str = "LD_PRELOAD";

/// What the ranks are to find in their environment.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The libraries to preload, ours first, with colons between.
    pub preload: String,
    /// `LD_PRELOAD` as this command found it.
    pub inherited: String,
    pub settings: Vec<(String, String)>,
    /// `SLURM_EXPORT_ENV`, which stands in for `--export`.
    pub slurm_export: Option<String>,
    /// Whether the environment sets Open MPI's `mca_base_env_list`.
    pub env_list: bool,
}

/// The launcher's words, and what is added to its own environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Built {
    pub args: Vec<OsString>,
    pub env: Vec<(String, String)>,
}

/// A command line that leaves no way to the ranks.
#[derive(Debug, PartialEq, Eq)]
pub enum BuildError {
    EnvList,
    AppFile,
    Comma,
    /// LAM's `-x` takes no comma in this variable's value.
    LamComma(String),
    /// LAM's `mpiexec` makes an `mpirun` command line of its own, without the variables.
    LamMpiexec,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::LamComma(name) => {
                write!(f, "LAM's mpirun takes no comma in the value of {name}; ")?;
                if name == PRELOAD {
                    return f.write_str("use a path without");
                }
                return f.write_str("unset it here, and set it for lamboot, whose daemon hands it to the ranks");
            }
            BuildError::LamMpiexec => "LAM's mpiexec does not pass variables on; use mpirun",
            BuildError::EnvList => {
                "Open MPI takes variables from mca_base_env_list or from -x, not from both, and this command needs -x; \
                 give yours with -x too"
            }
            BuildError::AppFile => {
                "this Open MPI ignores -x beside --app; write the programs on the command line, with ':' between"
            }
            BuildError::Comma => "srun takes no comma in the value of LD_PRELOAD; use a path without",
        })
    }
}

pub fn build(kind: Kind, args: &[OsString], wanted: &Wanted) -> Result<Built, BuildError> {
    match kind {
        Kind::Orte | Kind::Prte => open_mpi(kind, args, wanted),
        Kind::Hydra => Ok(hydra(args, wanted)),
        Kind::Lam => lam(args, wanted),
        Kind::Slurm => slurm(args, wanted),
        Kind::Plain | Kind::Unknown => {
            let mut env = wanted.settings.clone();
            env.push((PRELOAD.into(), in_front(wanted, &wanted.inherited)));
            Ok(Built { args: args.to_vec(), env })
        }
    }
}

/// Our libraries before those of `others`, each once.
fn in_front(wanted: &Wanted, others: &str) -> String {
    let ours: Vec<&str> = wanted.preload.split(':').collect();
    let others = others.split([':', ' ']).filter(|p| !p.is_empty() && !ours.contains(p));
    ours.iter().copied().chain(others).collect::<Vec<_>>().join(":")
}

/// `NAME=value` or `NAME`.
fn assignment(word: Option<&OsString>) -> Option<(&str, Option<&str>)> {
    let word = word?.to_str()?;
    Some(word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v))))
}

/// Whether the word is this option, with one dash or two.
fn is_option(word: &OsString, option: &str) -> bool {
    word.to_str().and_then(|w| w.strip_prefix("--").or_else(|| w.strip_prefix('-'))) == Some(option)
}

/// `-x` counts only for the program before the next ':', so every one gets ours.
fn open_mpi(kind: Kind, args: &[OsString], wanted: &Wanted) -> Result<Built, BuildError> {
    if wanted.env_list || args.iter().any(|a| a == "mca_base_env_list") {
        return Err(BuildError::EnvList);
    }
    if kind == Kind::Orte && args.iter().any(|a| is_option(a, "app")) {
        return Err(BuildError::AppFile);
    }
    let mut out: Vec<OsString> = Vec::new();
    for (i, context) in args.split(|a| a == ":").enumerate() {
        if i > 0 {
            out.push(":".into());
        }
        let mut words = context.to_vec();
        let mut said: Vec<String> = Vec::new();
        for at in 1..words.len() {
            if !is_option(&words[at - 1], "x") {
                continue;
            }
            let Some((name, value)) = assignment(words.get(at)) else { continue };
            said.push(name.into());
            if name == PRELOAD {
                words[at] = format!("{PRELOAD}={}", in_front(wanted, value.unwrap_or(&wanted.inherited))).into();
            }
        }
        let preload = (PRELOAD.to_string(), in_front(wanted, &wanted.inherited));
        for (name, value) in std::iter::once(&preload).chain(&wanted.settings) {
            if !said.contains(name) {
                out.extend(["-x".into(), format!("{name}={value}").into()]);
            }
        }
        out.extend(words);
    }
    Ok(Built { args: out, env: Vec::new() })
}

/// `-genv` counts for all programs; a later one, or `-env`, counts more, so the user's own only need ours in front.
fn hydra(args: &[OsString], wanted: &Wanted) -> Built {
    let mut words = args.to_vec();
    for at in 1..words.len() {
        if !is_option(&words[at - 1], "genv") && !is_option(&words[at - 1], "env") {
            continue;
        }
        match assignment(words.get(at)) {
            Some((PRELOAD, Some(value))) => words[at] = format!("{PRELOAD}={}", in_front(wanted, value)).into(),
            Some((PRELOAD, None)) => {
                if let Some(value) = words.get(at + 1).and_then(|v| v.to_str()) {
                    words[at + 1] = in_front(wanted, value).into();
                }
            }
            _ => {}
        }
    }
    let mut out: Vec<OsString> = Vec::new();
    let preload = (PRELOAD.to_string(), in_front(wanted, &wanted.inherited));
    for (name, value) in std::iter::once(&preload).chain(&wanted.settings) {
        out.extend(["-genv".into(), name.into(), value.into()]);
    }
    out.extend(words);
    Built { args: out, env: Vec::new() }
}

/// One `-x` holds all: of several the first counts. LAM binds lazily to itself, and fails in MPI_Init when a preloaded
/// library is bound so too.
fn lam(args: &[OsString], wanted: &Wanted) -> Result<Built, BuildError> {
    let mut words = args.to_vec();
    let mut theirs = String::new();
    if let Some(at) = words.iter().position(|w| is_option(w, "x"))
        && let Some(list) = words.get(at + 1).and_then(|w| w.to_str())
    {
        theirs = list.to_owned();
        words.drain(at..at + 2);
    }
    let mut preload = in_front(wanted, &wanted.inherited);
    let mut items: Vec<String> = Vec::new();
    for item in theirs.split(',').filter(|i| !i.is_empty()) {
        match item.split_once('=') {
            Some((PRELOAD, value)) => preload = in_front(wanted, value),
            _ if item == PRELOAD => {}
            _ => items.push(item.into()),
        }
    }
    let said: Vec<String> = items.iter().map(|i| i.split('=').next().unwrap_or_default().to_owned()).collect();
    let bind = ("LD_BIND_NOW".to_owned(), "1".to_owned());
    for (name, value) in [&(PRELOAD.to_owned(), preload), &bind].into_iter().chain(&wanted.settings) {
        // A folder may have a semicolon in its name; nothing else of these does.
        let is_list = name == METADATA || name == RELAY || name == NAMING && value.starts_with("tcp:");
        let value = if is_list { value.replace(',', ";") } else { value.clone() };
        if value.contains(',') {
            return Err(BuildError::LamComma(name.clone()));
        }
        if !said.contains(name) {
            items.push(format!("{name}={value}"));
        }
    }
    let mut out: Vec<OsString> = vec!["-x".into(), items.join(",").into()];
    out.extend(words);
    Ok(Built { args: out, env: Vec::new() })
}

/// `--export` holds names and assignments with commas between, so values that may hold a comma go by name, through
/// srun's own environment; `LD_PRELOAD` must not, or srun itself would be preloaded.
fn slurm(args: &[OsString], wanted: &Wanted) -> Result<Built, BuildError> {
    let mut out: Vec<OsString> = Vec::new();
    for (i, context) in args.split(|a| a == ":").enumerate() {
        if i > 0 {
            out.push(":".into());
        }
        let mut words = context.to_vec();
        let mut said = false;
        for at in 0..words.len() {
            if let Some(list) = words[at].to_str().and_then(|w| w.strip_prefix("--export=")) {
                words[at] = format!("--export={}", export(wanted, list)?).into();
                said = true;
            } else if words[at] == "--export"
                && let Some(list) = words.get(at + 1).and_then(|w| w.to_str())
            {
                words[at + 1] = export(wanted, list)?.into();
                said = true;
            }
        }
        if !said {
            let list = wanted.slurm_export.as_deref().unwrap_or("ALL");
            out.push(format!("--export={}", export(wanted, list)?).into());
        }
        out.extend(words);
    }
    Ok(Built { args: out, env: wanted.settings.clone() })
}

fn export(wanted: &Wanted, list: &str) -> Result<String, BuildError> {
    let mut preload = in_front(wanted, &wanted.inherited);
    let mut items: Vec<String> = Vec::new();
    // NONE and NIL stand alone in a list; without them a list without ALL means the same.
    for item in list.split(',').filter(|i| !i.is_empty() && !["NONE", "NIL"].contains(i)) {
        match item.split_once('=') {
            Some((PRELOAD, value)) => preload = in_front(wanted, value),
            _ if item == PRELOAD => {}
            _ => items.push(item.into()),
        }
    }
    if preload.contains(',') {
        return Err(BuildError::Comma);
    }
    if !items.iter().any(|i| i == "ALL") {
        for (name, _) in &wanted.settings {
            if !items.iter().any(|i| i.split('=').next() == Some(name)) {
                items.push(name.clone());
            }
        }
    }
    items.push(format!("{PRELOAD}={preload}"));
    Ok(items.join(","))
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
