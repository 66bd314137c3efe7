//! `mpi-connect run`: becomes the launcher, told to preload the library into its ranks.
//!
//! Invariant: the launcher is started by exec, so signals, terminal and exit status are its own.

use crate::arguments::{BuildError, Built, PRELOAD, Wanted, build};
use crate::elf::{Elf, ElfError};
use crate::elsewhere;
use crate::key::KeyOption;
use crate::launch::cores;
use crate::launcher::{self, FindError, Kind};
use crate::library::{self, LibraryError};
use crate::output;
use crate::program::obstacle;
use base::settings::{self, KEY, LIB, LOG, NAMING, PREFIX, RUN};
use naming::{NameError, OpenError};
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt};
use trust::FileError;

#[derive(clap::Args)]
pub struct Args {
    /// Where the jobs find each other, e.g. file:/shared/folder
    #[arg(long, value_name = "URL")]
    naming: Option<String>,
    #[command(flatten)]
    key: KeyOption,
    /// The run that the job belongs to, whose names are apart from those of other runs: a member of an ensemble, say
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// What the library tells on stderr
    #[arg(long, value_name = "LEVEL", value_parser = ["off", "quiet", "error", "info", "debug"])]
    log: Option<String>,
    /// A variable for the ranks, given to them in the launcher's own way: of this environment, or with a value; may be given several
    /// times
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Run on these cores only, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Preload this MPI library too, behind ours: for programs that load theirs late, such as mpi4py
    #[arg(long, value_name = "FILE")]
    mpi_library: Option<PathBuf>,
    /// Show the command line instead of running it
    #[arg(long)]
    print: bool,
    /// The launcher and all its words, or a program
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

#[derive(Debug)]
pub enum RunError {
    Find(FindError),
    Library(LibraryError),
    Build(BuildError),
    Naming(OpenError),
    Run(NameError),
    Key(FileError),
    NotUtf8(String),
    NoMpi(LibraryError),
    /// The list, and what is wrong with it.
    Cores(String, Option<Errno>),
    Exec(PathBuf, io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Find(e) => e.fmt(f),
            RunError::Library(e) => e.fmt(f),
            RunError::Build(e) => e.fmt(f),
            RunError::Naming(e) => e.fmt(f),
            RunError::Run(e) => write!(f, "the run of this job (--run, or {RUN}): {e}"),
            RunError::Key(e) => write!(f, "--key: {e}"),
            RunError::NotUtf8(name) => write!(f, "the value of {name} is not valid UTF-8"),
            RunError::NoMpi(LibraryError::Told(p)) => write!(f, "--mpi-library: there is no file {}", p.display()),
            RunError::NoMpi(e) => write!(f, "--mpi-library: {e}"),
            RunError::Cores(list, None) => write!(f, "--cores {list}: a list is expected, such as 0-3,8"),
            RunError::Cores(list, Some(e)) => write!(f, "--cores {list}: {e}: these cores may not be used here"),
            RunError::Exec(p, e) => write!(f, "starting {}: {e}", p.display()),
        }
    }
}

impl RunError {
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Find(FindError::Missing(_)) => 127,
            RunError::Find(FindError::NotExecutable(_)) | RunError::Exec(..) => 126,
            RunError::Naming(e) if !e.is_setting() => 1,
            RunError::Build(_)
            | RunError::Naming(_)
            | RunError::Run(_)
            | RunError::Key(_)
            | RunError::NotUtf8(_)
            | RunError::Cores(..)
            | RunError::NoMpi(_) => 2,
            RunError::Library(_) => 1,
        }
    }
}

/// Returns only on errors, or after printing.
pub fn run(args: &Args) -> Result<(), RunError> {
    let (word, rest) = args.command.split_first().expect("clap demands a word");
    let program = launcher::find(word).map_err(RunError::Find)?;
    let mut preload = vec![library::find().map_err(RunError::Library)?];
    if let Some(mpi) = &args.mpi_library {
        preload.push(library::usable(mpi).map_err(RunError::NoMpi)?);
    }
    let wanted = wanted(args, &preload)?;
    for complaint in settings::complaints() {
        output::say(complaint);
    }
    let kind = launcher::recognise(&program);
    if kind == Kind::Unknown {
        output::say(format_args!(
            "{} is a launcher that this command does not know; the library is put into its environment",
            program.display()
        ));
    }
    // One file serves LAM's mpiexec and its own; only mpirun passes variables on.
    if kind == Kind::Lam && program.file_name().is_some_and(|n| n.to_string_lossy().starts_with("mpiexec")) {
        return Err(RunError::Build(BuildError::LamMpiexec));
    }
    let elsewhere = elsewhere::warning(word, rest, launcher_within(rest));
    if kind == Kind::Plain
        && let Some(warning) = elsewhere
    {
        output::say(warning);
    } else if kind == Kind::Plain
        && let Some(launcher) = launcher_within(rest)
    {
        output::say(format_args!(
            "{0} is preloaded into like its ranks, since {1} comes before it: put 'mpi-connect run --' directly \
             before {0}",
            launcher.display(),
            word.display()
        ));
    }
    for program in programs(kind, &program, rest) {
        if let Some(obstacle) = obstacle(&program) {
            output::say(format_args!("{}: {obstacle}; {}", program.display(), obstacle.mend()));
        }
    }
    let built = build(kind, rest, &wanted).map_err(RunError::Build)?;
    if args.print {
        output::write(&format!("{}\n", shell_line(word, &built)));
        return Ok(());
    }
    if let Some(list) = &args.cores {
        let cores = cores::list(list).ok_or_else(|| RunError::Cores(list.clone(), None))?;
        cores::stay_on(&cores).map_err(|e| RunError::Cores(list.clone(), Some(e)))?;
    }
    let mut command = Command::new(&program);
    // Open MPI acts on whether it was called by an absolute path.
    command.arg0(word).args(&built.args).envs(built.env.iter().map(|(n, v)| (n, v)));
    Err(RunError::Exec(program, command.exec()))
}

fn wanted(args: &Args, preload: &[PathBuf]) -> Result<Wanted, RunError> {
    let text = |name: &str, value: OsString| value.into_string().map_err(|_| RunError::NotUtf8(name.into()));
    let mut settings = Vec::new();
    for (name, value) in env::vars_os() {
        let Some(name) = name.to_str().filter(|n| n.starts_with(PREFIX) && *n != LIB) else { continue };
        settings.push((name.to_string(), text(name, value)?));
    }
    let mut set = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            settings.retain(|(n, _)| n != name);
            settings.push((name.into(), value.clone()));
        }
    };
    set(NAMING, &args.naming);
    set(KEY, &args.key.value().map_err(RunError::Key)?);
    set(RUN, &args.run);
    set(LOG, &args.log);
    for said in &args.env {
        match said.split_once('=') {
            Some((name, value)) => set(name, &Some(value.to_owned())),
            // One that is not set stays so.
            None => set(said, &env::var_os(said).map(|value| text(said, value)).transpose()?),
        }
    }
    // Opened here, so that a wrong URL fails now, and a relative folder is taken from where the user stands.
    for (_, url) in settings.iter_mut().filter(|(n, v)| n == NAMING && !v.is_empty()) {
        *url = args.key.open(url).map_err(RunError::Naming)?.url();
    }
    for (_, run) in settings.iter_mut().filter(|(n, _)| n == RUN) {
        *run = naming::run_of(run).map_err(RunError::Run)?.to_owned();
    }
    settings.sort();
    let preload: Vec<String> =
        preload.iter().map(|p| text("the library's path", p.clone().into_os_string())).collect::<Result<_, _>>()?;
    Ok(Wanted {
        preload: preload.join(":"),
        inherited: text(PRELOAD, env::var_os(PRELOAD).unwrap_or_default())?,
        settings,
        slurm_export: env::var("SLURM_EXPORT_ENV").ok(),
        env_list: env::var_os("OMPI_MCA_mca_base_env_list").is_some(),
    })
}

/// The launcher that a program is to start.
fn launcher_within(words: &[OsString]) -> Option<&OsString> {
    let name = |word: &OsString| Path::new(word).file_name().map(|n| n.to_string_lossy().into_owned());
    words.iter().find(|w| name(w).is_some_and(|n| launcher::is_launcher_name(&n)))
}

/// The programs that are started, as far as they can be told from the launcher's options and their values.
fn programs(kind: Kind, program: &Path, words: &[OsString]) -> Vec<PathBuf> {
    // Their values are programs too, but not the ranks.
    const STARTERS: [&str; 5] = ["launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "launch-agent"];
    if kind == Kind::Plain {
        return vec![program.into()];
    }
    let option = |word: &OsString| Some(word.to_str()?.strip_prefix('-')?.trim_start_matches('-').to_owned());
    let first = |words: &[OsString]| {
        words.iter().enumerate().find_map(|(i, word)| {
            let before = i.checked_sub(1).and_then(|i| option(&words[i]));
            let is_value = match &before {
                Some(name) => STARTERS.contains(&name.as_str()) || !word.as_bytes().contains(&b'/'),
                None => false,
            };
            let found = launcher::find(word).ok().filter(|_| !is_value && option(word).is_none())?;
            matches!(Elf::read(&found), Ok(_) | Err(ElfError::Script(_))).then_some(found)
        })
    };
    words.split(|w| w == ":").filter_map(first).collect()
}

/// The command line as a shell would read it.
fn shell_line(word: &OsStr, built: &Built) -> String {
    let mut words = Vec::new();
    if !built.env.is_empty() {
        words.push("env".to_string());
        words.extend(built.env.iter().map(|(n, v)| quote(&format!("{n}={v}"))));
    }
    words.push(quote(&word.to_string_lossy()));
    words.extend(built.args.iter().map(|a| quote(&a.to_string_lossy())));
    words.join(" ")
}

pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_options() {
        let programs = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            programs(Kind::Hydra, Path::new("/mpiexec"), &words)
        };
        let (sh, env) = (launcher::find(OsStr::new("sh")).unwrap(), launcher::find(OsStr::new("env")).unwrap());
        let [shell, environment] = [&sh, &env].map(|p| p.to_str().unwrap());
        assert!(programs("-n 4 sh -c env").iter().eq([&sh]));
        assert!(programs(&format!("-l {shell} x")).iter().eq([&sh]));
        assert!(programs(&format!("-launcher env --launcher-exec {environment} -n 1 sh")).iter().eq([&sh]));
        assert!(super::programs(Kind::Plain, &sh, &["-c".into(), "env".into()]).iter().eq([&sh]));
        assert_eq!(programs("-wdir /usr -f /etc/passwd -n 1 sh : -n 2 env"), [sh, env]);
        assert_eq!(programs("-n 1 no-such-program"), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_launcher_behind_another_program_is_seen() {
        let within = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            launcher_within(&words).map(|w| w.to_str().unwrap().to_owned())
        };
        assert_eq!(within("20 /usr/bin/mpirun.lam -np 2 ./a").as_deref(), Some("/usr/bin/mpirun.lam"));
        assert_eq!(within("-o log orterun -n 1 ./a").as_deref(), Some("orterun"));
        assert_eq!(within("20 ./a /tmp/mpi srunning"), None);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, quoted) in [("a", "a"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$x", "'$x'")] {
            assert_eq!(quote(word), quoted);
        }
    }
}
