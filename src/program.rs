//! What a program would be bound to, and whether the library can come between it and its MPI. For `run` and `doctor`.
//!
//! Invariant: the program is read, never run; its libraries are looked for by the dynamic linker itself, asked to list
//! them.

use crate::ask::{Linking, ask};
use crate::elf::{Elf, ElfError};
use crate::library;
use base::Family;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getgid, getuid};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// Whether a library is ours, whatever version its name says.
pub fn is_ours(name: &str) -> bool {
    name.starts_with("libmpi_connect.so")
}

/// Why the library cannot be preloaded into a program, or not come between it and its MPI.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Obstacle {
    /// MPI is within the executable.
    StaticMpi,
    /// It gains rights when it starts, and is not linked with the library.
    Rights,
}

impl Obstacle {
    pub fn mend(self) -> String {
        match self {
            Obstacle::StaticMpi => "link it with the MPI's shared library".into(),
            Obstacle::Rights => format!("link it with -lmpi_connect, before its MPI, and {}", library::rpath()),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::StaticMpi => {
                "MPI is linked statically into this program, so its calls cannot pass through libmpi_connect.so"
            }
            Obstacle::Rights => {
                "this program gains rights when it starts (setuid, setgid or capabilities), so the dynamic linker preloads \
                 nothing into it"
            }
        })
    }
}

/// What surely stands in the way, if anything.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    let elf = Elf::read(path).ok()?;
    if elf.contains_mpi && elf.soname.is_none() {
        Some(Obstacle::StaticMpi)
    } else if gains_rights(path) && !elf.needed.iter().any(|n| is_ours(n)) {
        Some(Obstacle::Rights)
    } else {
        None
    }
}

/// Whether the kernel gives it more rights than its user has, so that the dynamic linker is on its guard.
fn gains_rights(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let may_not = status.lines().any(|l| l.split_whitespace().eq(["NoNewPrivs:", "1"]));
    if may_not || statvfs(path).is_ok_and(|s| s.flags().contains(FsFlags::ST_NOSUID)) {
        return false;
    }
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let setuid = file.mode() & 0o4000 != 0 && file.uid() != uid;
    // Without the group's right to execute it means something else.
    let setgid = file.mode() & 0o2010 == 0o2010 && file.gid() != gid;
    setuid || setgid || (uid != 0 && has_capabilities(path))
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0; 24];
    let Some(n) = base::file::attribute(path, c"security.capability", &mut value) else { return false };
    // A word of version and flags, then masks: permitted, inheritable, and the upper halves of both.
    let word = |i: usize| value[..n].chunks_exact(4).nth(i).map_or(0, |w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    word(0) & 1 != 0 || word(1) != 0 || word(3) != 0
}

/// One of the program's libraries.
#[derive(Debug, PartialEq, Eq)]
pub enum Bound {
    Mpi(PathBuf, Option<Family>),
    Ours(PathBuf),
    /// It has some functions of MPI.
    Part(PathBuf),
    /// It is asked for and not there.
    Missing(String),
}

/// All that matters of a program's libraries, in the order in which they are searched.
#[derive(Debug)]
pub struct Program {
    pub elf: Elf,
    pub bound: Vec<Bound>,
    /// Whether our library, which it needs, is found only because `run` preloads it.
    pub by_run: bool,
    pub gains_rights: bool,
}

impl Program {
    pub fn read(path: &Path) -> Result<Program, ElfError> {
        let elf = Elf::read(path)?;
        // A library names no linker; ours is as good.
        let linker = elf.interpreter.clone().or_else(|| Elf::read(Path::new("/proc/self/exe")).ok()?.interpreter);
        let listed = |linking| bound(&linker.as_ref().and_then(|l| list(l, path, linking)).unwrap_or_default());
        let gains_rights = gains_rights(path);
        let mut it = Program {
            bound: listed(if gains_rights { Linking::Guarded } else { Linking::Bare }),
            elf,
            by_run: false,
            gains_rights,
        };
        let ours_is_missing = it.bound.iter().any(|b| matches!(b, Bound::Missing(name) if is_ours(name)));
        if ours_is_missing
            && !gains_rights
            && let Ok(library) = library::find()
        {
            it.bound = listed(Linking::Preload(&library));
            it.by_run = true;
        }
        Ok(it)
    }

    /// Whether no dynamic linker takes part.
    pub fn is_static(&self) -> bool {
        self.elf.interpreter.is_none() && self.elf.needed.is_empty()
    }

    fn has(&self, what: impl Fn(&Bound) -> bool) -> bool {
        self.bound.iter().any(what)
    }

    /// Whether all its libraries are known, and there is no MPI among them or within it, as far as can be seen.
    pub fn sees_no_mpi(&self) -> bool {
        !self.elf.contains_mpi && !self.has(|b| matches!(b, Bound::Mpi(..) | Bound::Missing(_)))
    }

    /// Whether it surely fails for want of an MPI library: it calls MPI, or is linked with our library, which does
    /// nothing without one. A library may be loaded into a program that has one.
    pub fn lacks_mpi(&self) -> bool {
        let fails = self.elf.needs_mpi || (self.has(|b| matches!(b, Bound::Ours(_))) && !self.elf.loads);
        self.elf.interpreter.is_some() && self.sees_no_mpi() && !self.has(|b| matches!(b, Bound::Part(_))) && fails
    }
}

/// The dynamic linker's list of libraries.
fn list(linker: &str, program: &Path, linking: Linking) -> Option<String> {
    // The program names its linker: none but the system's own is run.
    let linker = fs::canonicalize(linker).ok()?;
    let of_system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].iter().any(|d| linker.starts_with(d));
    let program = fs::canonicalize(program).ok()?;
    if of_system { ask(&linker, &["--list", program.to_str()?], linking) } else { None }
}

fn bound(listed: &str) -> Vec<Bound> {
    let mut all = Vec::new();
    for line in listed.lines() {
        // With a library missing there is no list, but this.
        if let Some((_, failure)) = line.split_once("error while loading shared libraries: ") {
            all.push(Bound::Missing(failure.split(':').next().unwrap_or(failure).into()));
        }
        // What is found by its path, as all that is preloaded, has no name before it.
        let Some((name, place)) = line.trim().split_once(" => ").or_else(|| {
            let path = line.trim();
            Some((Path::new(path.rsplit_once(" (")?.0).file_name()?.to_str()?, path))
        }) else {
            continue;
        };
        // Without the address at the end.
        let place = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        if is_ours(name) {
            all.push(Bound::Ours(place.into()));
        } else if let Ok(elf) = Elf::read(Path::new(place)) {
            if elf.exports_mpi {
                all.push(Bound::Mpi(place.into(), elf.family));
            } else if elf.exports_part {
                all.push(Bound::Part(place.into()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lists_are_read() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd1)\n\tlibmpi_connect.so.0 => /o p/libmpi_connect.so.0 (0x1)\n\
                      \tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        assert_eq!(bound(listed), [Bound::Ours("/o p/libmpi_connect.so.0".into())]);
        assert_eq!(bound("\t/o p/libmpi_connect.so (0x1)\n"), [Bound::Ours("/o p/libmpi_connect.so".into())]);
        let failed = "./a: error while loading shared libraries: libmpi.so.40: cannot open shared object file: No such \
                      file or directory\n";
        assert_eq!(bound(failed), [Bound::Missing("libmpi.so.40".into())]);
    }

    #[test]
    fn this_program_is_listed() {
        let it = Program::read(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(it.bound, []);
        assert_eq!(obstacle(Path::new("/proc/self/exe")), None);
        let linker = it.elf.interpreter.unwrap();
        assert!(list(&linker, Path::new("/proc/self/exe"), Linking::Bare).unwrap().contains("libc.so.6 => /"));
        assert_eq!(list("/proc/self/exe", Path::new("/proc/self/exe"), Linking::Bare), None, "no linker of the system");
    }

    /// One's own file gives no rights that one has not.
    #[test]
    fn rights_are_gained_from_others_only() {
        let copy = std::env::temp_dir().join(format!("rights-{:016x}", u64::from_le_bytes(base::ident::random())));
        fs::copy("/proc/self/exe", &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o6755)).unwrap();
        assert_eq!(obstacle(&copy), None);
        if getuid().is_root() {
            std::os::unix::fs::chown(&copy, Some(1), None).unwrap();
            // Changing the owner has taken the bits away.
            assert_eq!(obstacle(&copy), None);
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(obstacle(&copy), Some(Obstacle::Rights));
        } else {
            println!("NOT CHECKED: only root can make a program of another user's");
        }
        fs::remove_file(copy).unwrap();
    }
}
