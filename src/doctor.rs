//! `mpi-connect doctor`: what the command sees, and what is wrong with it.
//!
//! Invariant: every finding that is wrong says how to mend it; nothing is left behind but
//! the folder for names, which the first job would make too.

use crate::ask::{Linking, ask, version_line};
use crate::elf::ElfError;
use crate::launcher::FindError;
use crate::names::columns;
use crate::program::{Bound, OURS, Program, obstacle};
use crate::{launcher, library, mpis};
use base::NO_LIBRARY;
use base::settings::{self, ADOPT, FAST_AFTER, FAST_MAX, IFACE, LANES, LOG, METADATA, PORTRANGE, TCP_SOCKETS, TIMEOUT};
use naming::StoreError;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::canonicalize;
use std::path::PathBuf;
use transports::lane::Lanes;
use transports::stream::MAX_STRIPES;
use transports::tcp::{PortRange, choose};

#[derive(clap::Args)]
pub struct Args {
    /// Folders of MPIs that are not in PATH
    #[arg(long, value_name = "DIR")]
    prefix: Vec<PathBuf>,
    /// For other programs to read
    #[arg(long)]
    json: bool,
    /// A program: what it is bound to, and whether it can be served
    program: Option<OsString>,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grade {
    Good,
    Odd,
    Broken,
}

struct Finding {
    section: &'static str,
    grade: Grade,
    text: String,
    mend: Option<String>,
}

#[derive(Default)]
struct Report {
    section: &'static str,
    findings: Vec<Finding>,
}

impl Report {
    fn title(&mut self, text: &'static str) {
        self.section = text;
    }
    fn line(&mut self, grade: Grade, text: &str) {
        self.findings.push(Finding { section: self.section, grade, text: text.into(), mend: None });
    }
    /// How to mend what the last line says.
    fn mend(&mut self, text: &str) {
        if let Some(last) = self.findings.last_mut() {
            last.mend = Some(text.into());
        }
    }
    fn is_broken(&self) -> bool {
        self.findings.iter().any(|f| f.grade == Grade::Broken)
    }

    fn print(&self) {
        let mut section = "";
        for f in &self.findings {
            if f.section != section {
                section = f.section;
                println!("{section}");
            }
            let sign = match f.grade {
                Grade::Good => "   ",
                Grade::Odd => " ? ",
                Grade::Broken => " ! ",
            };
            println!("{sign}{}", f.text);
            if let Some(mend) = &f.mend {
                println!("     to mend it: {mend}");
            }
        }
        println!(
            "{}",
            if self.is_broken() { "something is broken, see the lines with '!'" } else { "nothing is broken" }
        );
    }

    fn print_json(&self) {
        let of = |f: &Finding| {
            let grade = match f.grade {
                Grade::Good => "good",
                Grade::Odd => "odd",
                Grade::Broken => "broken",
            };
            serde_json::json!({ "section": f.section, "grade": grade, "text": f.text, "mend": f.mend })
        };
        println!("{}", serde_json::Value::Array(self.findings.iter().map(of).collect()));
    }
}

/// Whether nothing is broken.
pub fn doctor(args: &Args) -> bool {
    let mut r = Report::default();
    if let Some(word) = &args.program {
        program_section(&mut r, word);
    }
    library_section(&mut r);
    naming_section(&mut r);
    launcher_section(&mut r);
    mpi_section(&mut r, &args.prefix);
    interface_section(&mut r);
    variable_section(&mut r);
    if args.json {
        r.print_json()
    } else {
        r.print()
    }
    !r.is_broken()
}

fn program_section(r: &mut Report, word: &OsStr) {
    r.title("program");
    let (path, executable) = match launcher::find(word) {
        Ok(path) => (path, true),
        // A library that a program loads may be asked about too.
        Err(FindError::NotExecutable(path)) => (path, false),
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("give its path");
        }
    };
    r.line(Grade::Good, &path.display().to_string());
    let it = match Program::read(&path) {
        Ok(it) => it,
        Err(e @ (ElfError::Io(_) | ElfError::Damaged(_))) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("see that it can be read, and starts");
        }
        Err(e @ ElfError::Script(_)) => {
            return r.line(Grade::Odd, &format!("{e}: what that starts has to be asked about"));
        }
        // A shell may make something of it.
        Err(e) if executable => return r.line(Grade::Odd, &e.to_string()),
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("ask about a program, or about a library that one loads");
        }
    };
    if let Some(obstacle) = obstacle(&path) {
        r.line(Grade::Broken, &obstacle.to_string());
        r.mend(&obstacle.mend());
    }
    if it.is_static() && !it.elf.contains_mpi {
        r.line(Grade::Odd, "linked statically: nothing can be preloaded into it, only into what it starts");
    }
    let mut mpi = None;
    for bound in &it.bound {
        match bound {
            Bound::Mpi(library, family) => {
                let family = family.map_or("unknown".into(), |f| f.to_string());
                let also = if mpi.is_some() { "also loads" } else { "bound to" };
                let grade = if mpi.is_some() || family == "unknown" { Grade::Odd } else { Grade::Good };
                r.line(grade, &format!("{also} {}, ABI: {family}", library.display()));
                mpi = Some(library);
            }
            Bound::Ours(library) if it.by_run => {
                r.line(Grade::Odd, &format!("linked with {}, found by 'mpi-connect run' only", library.display()));
                r.mend(&format!("to start it without, link it with {} too", library::rpath()));
            }
            Bound::Ours(library) if mpi.is_none() => {
                r.line(Grade::Good, &format!("linked with {}", library.display()));
            }
            Bound::Ours(_) => {
                r.line(
                    Grade::Odd,
                    "linked with libmpi_connect.so behind its MPI: that works by 'mpi-connect run' only",
                );
                r.mend("link with -lmpi_connect before the MPI");
            }
            Bound::Part(library) if it.sees_no_mpi() => {
                let text = "is no MPI, or a part of one: a stand-in for serial programs, or a tool";
                r.line(Grade::Odd, &format!("{} {text}", library.display()));
            }
            Bound::Part(_) => {}
            Bound::Missing(library) => {
                r.line(Grade::Broken, &format!("its library {library} is not found"));
                r.mend(&match it.gains_rights {
                    true if library == OURS => format!("{NO_VARIABLES}: link it with {} too", library::rpath()),
                    true => format!("{NO_VARIABLES}: link it with -Wl,-rpath,DIR too, DIR being that library's folder"),
                    false => "set LD_LIBRARY_PATH as for running the program".into(),
                });
            }
        }
    }
    if it.lacks_mpi() {
        let (what, mend) = NO_LIBRARY.split_once(". ").unwrap_or((NO_LIBRARY, "link it with its MPI"));
        r.line(Grade::Broken, what);
        r.mend(mend);
    } else if it.sees_no_mpi() && !it.elf.uses_mpi {
        r.line(
            Grade::Odd,
            match (it.elf.stripped, it.is_static()) {
                (true, true) => "its symbols are stripped, so whether MPI is within cannot be seen",
                (true, false) => {
                    "calls no MPI of its libraries; it may load one that does. Its symbols are stripped, so whether MPI is \
                     within cannot be seen"
                }
                (false, _) => "calls no MPI itself; it may load a library that does",
            },
        );
    }
}

/// Why a program that gains rights finds no more than what it was linked with.
const NO_VARIABLES: &str = "LD_LIBRARY_PATH and LD_PRELOAD mean nothing to a program that gains rights";

fn library_section(r: &mut Report) {
    r.title("library");
    let path = match library::find() {
        Ok(p) => p,
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            r.mend("build it (cargo build --release), or set MPI_CONNECT_LIB to libmpi_connect.so");
            return;
        }
    };
    r.line(Grade::Good, &path.display().to_string());
    let Ok(probe) = launcher::find(OsStr::new("true")) else { return };
    // The loader complains on stderr of what it cannot preload, and goes on.
    match ask(&probe, &[], Linking::Preload(&path)) {
        Some(said) if said.trim().is_empty() => r.line(Grade::Good, "can be preloaded"),
        said => {
            r.line(Grade::Broken, &format!("cannot be preloaded: {}", said.unwrap_or_default().trim()));
            r.mend("build it on this machine, for this machine");
        }
    }
}

fn naming_section(r: &mut Report) {
    r.title("naming");
    let store = match naming::default_url().and_then(|url| naming::open(&url)) {
        Ok(s) => s,
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("unset MPI_CONNECT_NAMING, or set it to file:DIR or tcp://HOST:PORT");
        }
    };
    r.line(Grade::Good, &store.describe());
    match store.check() {
        Ok(notes) => {
            let is_folder = store.describe().starts_with("file:");
            r.line(Grade::Good, if is_folder { "names can be claimed and are locked" } else { "names can be claimed" });
            notes.iter().for_each(|n| r.line(Grade::Odd, n));
        }
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            r.mend(match e {
                StoreError::Unreachable(_) | StoreError::Refused(..) => {
                    "start 'mpi-connect serve' there, or set MPI_CONNECT_NAMING to a server that runs"
                }
                _ => "set MPI_CONNECT_NAMING=file:DIR to a folder of yours that both jobs see",
            });
        }
    }
    match store.list() {
        Ok(all) => {
            let live = all.iter().filter(|(_, s)| *s == naming::State::Live).count();
            r.line(Grade::Good, &format!("{live} live names, {} left over", all.len() - live));
        }
        Err(e) => r.line(Grade::Odd, &e.to_string()),
    }
}

fn launcher_section(r: &mut Report) {
    const WORDS: [&str; 12] = [
        "mpirun",
        "mpiexec",
        "orterun",
        "prterun",
        "mpirun.openmpi",
        "mpirun.mpich",
        "mpiexec.mpich",
        "mpiexec.hydra",
        "mpirun.lam",
        "srun",
        "aprun",
        "jsrun",
    ];
    r.title("launchers");
    let mut rows: Vec<[String; 3]> = Vec::new();
    for word in WORDS {
        let Ok(path) = launcher::find(OsStr::new(word)) else { continue };
        let real = canonicalize(&path).unwrap_or_else(|_| path.clone());
        let text = ask(&path, &["--version"], Linking::Bare).unwrap_or_default();
        let said = format!("{}; {}", launcher::recognise(&path), version_line(&text));
        rows.push([path.display().to_string(), format!("-> {}", real.display()), said]);
    }
    match rows.is_empty() {
        true => r.line(Grade::Odd, "none in PATH; 'mpi-connect run' also starts plain programs"),
        false => columns(&rows).lines().for_each(|l| r.line(Grade::Good, l)),
    }
}

fn mpi_section(r: &mut Report, prefixes: &[PathBuf]) {
    r.title("MPIs");
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut unknown = Vec::new();
    for library in mpis::libraries(prefixes) {
        let path = library.path.display().to_string();
        match library.family {
            Some(family) => rows.push([path, format!("ABI: {family}")]),
            None => unknown.push(path),
        }
    }
    columns(&rows).lines().for_each(|l| r.line(Grade::Good, l));
    for path in &unknown {
        r.line(Grade::Odd, &format!("{path}: an ABI that this version does not know"));
    }
    if rows.is_empty() && unknown.is_empty() {
        r.line(Grade::Odd, "no library found; those of a folder DIR are shown by --prefix DIR");
    }
    // The program that only this MPI has, and what beside it tells the version.
    for (word, teller, args) in [
        ("ompi_info", "ompi_info", ["--version"].as_slice()),
        ("mpichversion", "mpichversion", &[]),
        ("impi_info", "mpiexec.hydra", &["--version"]),
    ] {
        let given = prefixes.iter().map(|p| p.join("bin").join(word));
        for path in launcher::find(OsStr::new(word)).into_iter().chain(given).filter(|p| p.is_file()) {
            let path = path.with_file_name(teller);
            let text = ask(&path, args, Linking::Bare).unwrap_or_default();
            r.line(Grade::Good, &format!("{}: {}", path.display(), version_line(&text)));
        }
    }
}

fn interface_section(r: &mut Report) {
    r.title("interfaces");
    let setting = env::var(IFACE).ok().filter(|v| !v.trim().is_empty());
    match choose(setting.as_deref()) {
        Ok(all) => {
            let all: Vec<String> = all.iter().map(|a| a.ip().to_string()).collect();
            r.line(Grade::Good, &format!("ranks listen on {}", all.join(", ")));
        }
        Err(e) => {
            r.line(Grade::Broken, &format!("{IFACE}: {e}"));
            r.mend(&format!("set {IFACE} to one of the interfaces that 'ip address' shows, or to all"));
        }
    }
    if setting.is_none() {
        r.line(Grade::Good, &format!("so only jobs on this host can join; for other hosts set {IFACE},"));
        r.line(Grade::Good, "to an interface (ib0), a network (10.1.0.0/16), or all, on both sides");
    }
}

fn variable_section(r: &mut Report) {
    r.title("variables");
    let mut rows = vec![["NAME", "VALUE", "DEFAULT", "MEANING"].map(String::from)];
    for s in settings::ALL {
        let value = env::var_os(s.name).map_or("-".into(), |v| v.to_string_lossy().into_owned());
        rows.push([s.name.into(), value, s.default.into(), s.meaning.into()]);
    }
    columns(&rows).lines().for_each(|l| r.line(Grade::Good, l));
    for s in settings::ALL {
        let Ok(value) = env::var(s.name) else { continue };
        if let Some((grade, what)) = judge(s.name, value.trim()) {
            r.line(grade, &format!("{}={value}: {what}", s.name));
            r.mend(&format!("unset {}, or give it a value of that form", s.name));
        }
    }
    if let Err(e) = naming::metadata_from_env() {
        r.line(Grade::Broken, &format!("{METADATA}: {e}"));
        r.mend(&format!("unset {METADATA}, or set it to key=value, with commas between"));
    }
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str().filter(|n| settings::is_unknown(n)) else { continue };
        let meant = settings::nearest(name).map(|s| format!("; {} was perhaps meant", s.name)).unwrap_or_default();
        r.line(Grade::Odd, &format!("{name} means nothing{meant}"));
    }
}

/// What is wrong with a value; NAMING, METADATA, IFACE and LIB are judged by use.
fn judge(name: &str, value: &str) -> Option<(Grade, &'static str)> {
    match name {
        _ if value.is_empty() => None,
        TIMEOUT => value.parse::<u32>().is_err().then_some((Grade::Broken, "seconds are expected")),
        PORTRANGE => PortRange::parse(value).is_none().then_some((Grade::Broken, "FIRST-LAST is expected")),
        LANES => Lanes::parse(value).is_none().then_some((Grade::Broken, "shm, tcp, or both are expected")),
        FAST_AFTER | FAST_MAX => {
            value.parse::<u32>().is_err().then_some((Grade::Broken, "a number from 0 to 4294967295 is expected"))
        }
        TCP_SOCKETS if !value.parse().is_ok_and(|n| (1..=MAX_STRIPES).contains(&n)) => {
            Some((Grade::Broken, "a number from 1 to 16 is expected"))
        }
        // Any other value is taken for off.
        LOG if !["off", "error", "info", "debug", "0", "1", "2"].contains(&value) => {
            Some((Grade::Odd, "off, error, info or debug is expected, so nothing is told"))
        }
        ADOPT if !["0", "1"].contains(&value) => Some((Grade::Odd, "0 or 1 is expected, so nothing is adopted")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_judged() {
        assert_eq!(judge(TIMEOUT, "600"), None);
        assert_eq!(judge(TIMEOUT, "10m").unwrap().0, Grade::Broken);
        assert_eq!(judge(PORTRANGE, "4000-4100"), None);
        assert_eq!(judge(PORTRANGE, "4100-4000").unwrap().0, Grade::Broken);
        assert_eq!((judge(LANES, "shm"), judge(LANES, "tcp, shm")), (None, None));
        assert_eq!(judge(LANES, "shm;tcp").unwrap().0, Grade::Broken);
        assert_eq!((judge(FAST_MAX, "0"), judge(FAST_AFTER, "soon").unwrap().0), (None, Grade::Broken));
        assert_eq!((judge(TCP_SOCKETS, "16"), judge(TCP_SOCKETS, "17").unwrap().0), (None, Grade::Broken));
        assert_eq!(judge(LOG, "debug"), None);
        assert_eq!(judge(LOG, "verbose").unwrap().0, Grade::Odd);
        assert_eq!(judge(LOG, ""), None);
        assert_eq!((judge(ADOPT, "1"), judge(ADOPT, "yes").unwrap().0), (None, Grade::Odd));
    }
}
