//! Which launcher a word on the command line means. For `run` and `doctor`.
//!
//! Invariant: only programs that are called like a launcher are ever run to be recognised, never the user's.

use crate::ask::{Linking, ask};
use base::Family;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// How a launcher wants to be told of variables for its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI up to 4: `-x`, the last of several counts, and none counts for an application file.
    Orte,
    /// Open MPI from 5: `-x`, the first of several counts.
    Prte,
    /// MPICH, Intel MPI and others: `-genv`.
    Hydra,
    /// LAM: `-x` with commas between, the first of several counts; its daemon's environment goes to the ranks.
    Lam,
    /// `srun`: `--export`.
    Slurm,
    /// Called like a launcher, but unknown: gets the environment.
    Unknown,
    /// A program: gets the environment.
    Plain,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Orte => "Open MPI (orte)",
            Kind::Prte => "Open MPI (prrte)",
            Kind::Hydra => "hydra",
            Kind::Lam => Family::Lam.name(),
            Kind::Slurm => "Slurm",
            Kind::Unknown => "unknown launcher",
            Kind::Plain => "program",
        })
    }
}

/// A word that starts no program.
#[derive(Debug, PartialEq, Eq)]
pub enum FindError {
    Missing(OsString),
    NotExecutable(PathBuf),
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindError::Missing(w) if w.as_bytes().contains(&b'/') => write!(f, "there is no program {}", w.display()),
            FindError::Missing(w) => write!(f, "no program '{}' in PATH", w.display()),
            FindError::NotExecutable(p) => write!(f, "{} is not executable", p.display()),
        }
    }
}

/// The program that a shell would start.
pub fn find(word: &OsStr) -> Result<PathBuf, FindError> {
    find_in(word, &path())
}

/// Where programs are looked for.
pub fn path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// The same with another PATH.
pub fn find_in(word: &OsStr, path: &OsStr) -> Result<PathBuf, FindError> {
    if word.as_bytes().contains(&b'/') {
        let p = PathBuf::from(word);
        return match fs::metadata(&p) {
            Ok(_) if is_executable(&p) => Ok(p),
            Ok(_) => Err(FindError::NotExecutable(p)),
            Err(_) => Err(FindError::Missing(word.into())),
        };
    }
    let all = || env::split_paths(path).map(|d| d.join(word));
    let there = all().find(|p| is_executable(p));
    there.ok_or_else(|| match all().find(|p| p.is_file()) {
        Some(p) => FindError::NotExecutable(p),
        None => FindError::Missing(word.into()),
    })
}

fn is_executable(p: &Path) -> bool {
    fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// What kind of launcher an executable is: by the name of the file behind all links, else by what it says.
pub fn recognise(program: &Path) -> Kind {
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.into());
    let name_of = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let kind = by_name(&name_of(&real)).or_else(|| by_name(&name_of(program)));
    let kind = kind.unwrap_or_else(|| {
        if [&real, program].into_iter().any(|p| is_launcher_name(&name_of(p))) {
            ask(program, &["--version"], Linking::Bare).map_or(Kind::Unknown, |text| by_version(&text))
        } else {
            Kind::Plain
        }
    });
    base::log!(Info, "{} ({}): {kind}", program.display(), real.display());
    kind
}

fn by_name(name: &str) -> Option<Kind> {
    match name {
        "orterun" => Some(Kind::Orte),
        "prterun" | "prun" => Some(Kind::Prte),
        "srun" => Some(Kind::Slurm),
        // As root it says nothing of its version, only that root is not welcome.
        _ if name.ends_with(".lam") => Some(Kind::Lam),
        _ if name.ends_with(".hydra") || name.ends_with(".mpich") => Some(Kind::Hydra),
        _ => None,
    }
}

/// Whether a program of this name starts ranks.
pub fn is_launcher_name(name: &str) -> bool {
    const OTHERS: [&str; 9] = ["aprun", "jsrun", "lrun", "ibrun", "ccc_mprun", "orterun", "prterun", "prun", "srun"];
    name.starts_with("mpirun") || name.starts_with("mpiexec") || OTHERS.contains(&name)
}

fn by_version(text: &str) -> Kind {
    let has = |s: &str| text.contains(s);
    if has("HYDRA") || has("Intel(R) MPI") {
        Kind::Hydra
    } else if has("OpenRTE") {
        Kind::Orte
    } else if has(Family::OpenMpi.name()) {
        // Until 4 it says "(OpenRTE)" or "(Open MPI)", by the name it was called.
        let major = text.split("Open MPI) ").nth(1).and_then(|v| v.split('.').next()).and_then(|v| v.parse().ok());
        if major.is_some_and(|m: u32| m < 5) { Kind::Orte } else { Kind::Prte }
    } else if has(Family::Lam.name()) {
        Kind::Lam
    } else if has("PRRTE") || has("prterun") {
        Kind::Prte
    } else if text.trim_start().starts_with("slurm ") {
        Kind::Slurm
    } else {
        Kind::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Folder(PathBuf);
    impl Folder {
        fn new() -> Folder {
            let dir = env::temp_dir().join(format!("launcher-{:016x}", u64::from_le_bytes(base::ident::random())));
            fs::create_dir(&dir).unwrap();
            Folder(dir)
        }
        fn script(&self, name: &str, says: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{says}'\ntouch '{}/ran'\n", self.0.display())).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }
        fn ran(&self) -> bool {
            self.0.join("ran").exists()
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn launchers_of_this_machine() {
        for (word, kind) in [
            ("mpirun.openmpi", Kind::Orte),
            ("mpiexec.openmpi", Kind::Orte),
            ("mpirun.mpich", Kind::Hydra),
            ("mpiexec.mpich", Kind::Hydra),
            ("mpiexec.hydra", Kind::Hydra),
            ("mpirun.lam", Kind::Lam),
            ("sh", Kind::Plain),
        ] {
            match find(OsStr::new(word)) {
                Ok(path) => assert_eq!(recognise(&path), kind, "{word}"),
                Err(_) => println!("no {word} here"),
            }
        }
    }

    #[test]
    fn links_are_followed() {
        let dir = Folder::new();
        dir.script("orterun", "nothing");
        symlink("orterun", dir.0.join("mpirun.x")).unwrap();
        symlink("mpirun.x", dir.0.join("go")).unwrap();
        assert_eq!(recognise(&dir.0.join("go")), Kind::Orte);
        assert!(!dir.ran());
    }

    #[test]
    fn versions_tell_when_names_do_not() {
        for (says, kind) in [
            ("mpirun (Open MPI) 5.0.11", Kind::Prte),
            ("mpirun (Open MPI) 4.1.4", Kind::Orte),
            ("mpiexec (OpenRTE) 4.1.4", Kind::Orte),
            ("HYDRA build details:", Kind::Hydra),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.19", Kind::Hydra),
            ("prterun (PRRTE) 3.0", Kind::Prte),
            ("LAM 7.1.4/MPI 2 C++/ROMIO - Indiana University", Kind::Lam),
            ("something else", Kind::Unknown),
            ("", Kind::Unknown),
        ] {
            let dir = Folder::new();
            assert_eq!(recognise(&dir.script("mpirun", says)), kind, "{says}");
        }
    }

    #[test]
    fn users_programs_are_never_run() {
        let dir = Folder::new();
        assert_eq!(recognise(&dir.script("model", "HYDRA build details:")), Kind::Plain);
        assert!(!dir.ran());
    }

    #[test]
    fn a_launcher_that_hangs_is_unknown() {
        let dir = Folder::new();
        let path = dir.script("mpirun", "x");
        fs::write(&path, "#!/bin/sh\nexec sleep 60\n").unwrap();
        assert_eq!(recognise(&path), Kind::Unknown);
    }

    #[test]
    fn finding_is_as_in_a_shell() {
        let dir = Folder::new();
        let script = dir.script("model", "");
        let path = OsString::from(format!("/nonexistent:{}", dir.0.display()));
        assert_eq!(find_in(OsStr::new("model"), &path), Ok(script.clone()));
        assert_eq!(find_in(script.as_os_str(), OsStr::new("")), Ok(script.clone()));
        assert_eq!(find_in(OsStr::new("modell"), &path), Err(FindError::Missing("modell".into())));
        assert!(matches!(find_in(OsStr::new("./none"), &path), Err(FindError::Missing(_))));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find_in(OsStr::new("model"), &path), Err(FindError::NotExecutable(script)));
        assert!(matches!(find_in(dir.0.as_os_str(), &path), Err(FindError::NotExecutable(_))));
    }
}
