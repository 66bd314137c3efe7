//! `mpi-connect doctor`: what the command sees, and what is wrong with it.
//!
//! Invariant: every finding that is wrong says how to mend it; nothing is left behind but
//! the folder for names, which the first job would make too.

use crate::ask::{ask, version_line};
use crate::names::columns;
use crate::{launcher, library};
use base::settings::{self, IFACE, LOG, PORTRANGE, TIMEOUT};
use std::env;
use std::ffi::OsStr;
use std::fs::canonicalize;
use transports::tcp::{PortRange, choose};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grade {
    Good,
    Odd,
    Broken,
}

struct Report {
    broken: bool,
}

impl Report {
    fn title(&self, text: &str) {
        println!("{text}");
    }
    fn line(&mut self, grade: Grade, text: &str) {
        let sign = match grade {
            Grade::Good => "   ",
            Grade::Odd => " ? ",
            Grade::Broken => " ! ",
        };
        self.broken |= grade == Grade::Broken;
        println!("{sign}{text}");
    }
    fn mend(&self, text: &str) {
        println!("     to mend it: {text}");
    }
}

/// Whether nothing is broken.
pub fn doctor() -> bool {
    let mut r = Report { broken: false };
    library_section(&mut r);
    naming_section(&mut r);
    launcher_section(&mut r);
    interface_section(&mut r);
    variable_section(&mut r);
    println!("{}", if r.broken { "something is broken, see the lines with '!'" } else { "nothing is broken" });
    !r.broken
}

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
    match ask(&probe, &[], Some(path.as_os_str())) {
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
            return r.mend("unset MPI_CONNECT_NAMING, or set it to file:DIR");
        }
    };
    r.line(Grade::Good, &store.describe());
    match store.check() {
        Ok(notes) => {
            r.line(Grade::Good, "names can be claimed and are locked");
            notes.iter().for_each(|n| r.line(Grade::Odd, n));
        }
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            r.mend("set MPI_CONNECT_NAMING=file:DIR to a folder of yours that both jobs see");
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
    const WORDS: [&str; 10] = [
        "mpirun",
        "mpiexec",
        "orterun",
        "prterun",
        "mpirun.openmpi",
        "mpirun.mpich",
        "mpiexec.hydra",
        "srun",
        "aprun",
        "jsrun",
    ];
    r.title("launchers");
    let mut rows: Vec<[String; 3]> = Vec::new();
    for word in WORDS {
        let Ok(path) = launcher::find(OsStr::new(word)) else { continue };
        let real = canonicalize(&path).unwrap_or_else(|_| path.clone());
        let text = ask(&path, &["--version"], None).unwrap_or_default();
        let said = format!("{}; {}", launcher::recognise(&path), version_line(&text));
        rows.push([path.display().to_string(), format!("-> {}", real.display()), said]);
    }
    match rows.is_empty() {
        true => r.line(Grade::Odd, "none in PATH; 'mpi-connect run' also starts plain programs"),
        false => columns(&rows).lines().for_each(|l| r.line(Grade::Good, l)),
    }
    r.title("MPIs");
    let mut any = false;
    for (word, args) in [("ompi_info", ["--version"].as_slice()), ("mpichversion", &[]), ("impi_info", &["-version"])] {
        let Ok(path) = launcher::find(OsStr::new(word)) else { continue };
        let text = ask(&path, args, None).unwrap_or_default();
        let words: Vec<String> = version_line(&text).split_whitespace().map(String::from).collect();
        r.line(Grade::Good, &format!("{}: {}", path.display(), words.join(" ")));
        any = true;
    }
    if !any {
        r.line(Grade::Odd, "none in PATH that tells its version");
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
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str().filter(|n| settings::is_unknown(n)) else { continue };
        let meant = settings::nearest(name).map(|s| format!("; {} was perhaps meant", s.name)).unwrap_or_default();
        r.line(Grade::Odd, &format!("{name} means nothing{meant}"));
    }
}

/// What is wrong with a value; NAMING, IFACE and LIB are judged by use.
fn judge(name: &str, value: &str) -> Option<(Grade, &'static str)> {
    match name {
        _ if value.is_empty() => None,
        TIMEOUT => value.parse::<u32>().is_err().then_some((Grade::Broken, "seconds are expected")),
        PORTRANGE => PortRange::parse(value).is_none().then_some((Grade::Broken, "FIRST-LAST is expected")),
        // Any other value is taken for off.
        LOG if !["off", "error", "info", "debug", "0", "1", "2"].contains(&value) => {
            Some((Grade::Odd, "off, error, info or debug is expected, so nothing is told"))
        }
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
        assert_eq!(judge(LOG, "debug"), None);
        assert_eq!(judge(LOG, "verbose").unwrap().0, Grade::Odd);
        assert_eq!(judge(LOG, ""), None);
    }
}
