//! The MPI libraries of this machine, as far as they are where a program would find them. For `doctor`.

use crate::ask::{Linking, ask};
use crate::elf::Elf;
use crate::launcher;
use base::Family;
use base::families::is_library;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[derive(Debug, PartialEq, Eq)]
pub struct Library {
    pub path: PathBuf,
    /// None: an MPI that is not known.
    pub family: Option<Family>,
}

/// Those beside launchers in PATH, in LD_LIBRARY_PATH, known to the dynamic linker, and in the folders of MPIs given.
pub fn libraries(prefixes: &[PathBuf]) -> Vec<Library> {
    let within = |prefix: &Path| ["lib", "lib64"].map(|d| prefix.join(d));
    let mut folders: Vec<PathBuf> = prefixes.iter().flat_map(|p| within(p)).collect();
    for word in ["mpirun", "mpiexec"] {
        let Ok(launcher) = launcher::find(OsStr::new(word)) else { continue };
        // Of /opt/mpi/bin/mpirun: /opt/mpi.
        let real = fs::canonicalize(launcher).ok();
        folders.extend(real.iter().filter_map(|p| p.parent()?.parent()).flat_map(within));
    }
    folders.extend(env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()));
    let entries = folders.iter().filter_map(|f| fs::read_dir(f).ok()).flatten();
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.extend(known_to_linker());
    // One library has several names, as links or as copies.
    let mut all = BTreeMap::new();
    for file in files {
        let is_mpi = file.file_name().is_some_and(|n| is_library(&n.to_string_lossy()));
        let Some(real) = is_mpi.then(|| fs::canonicalize(&file).ok()).flatten() else { continue };
        if let Ok(elf) = Elf::read(&real)
            && elf.exports_mpi
        {
            let named = elf.soname.and_then(|n| Some(real.parent()?.join(n))).filter(|p| p.exists());
            all.insert(named.unwrap_or(real), elf.family);
        }
    }
    all.into_iter().map(|(path, family)| Library { path, family }).collect()
}

fn known_to_linker() -> Vec<PathBuf> {
    let ldconfig = [Path::new("/sbin/ldconfig"), Path::new("/usr/sbin/ldconfig")].into_iter().find(|p| p.is_file());
    let text = ldconfig.and_then(|ldconfig| ask(ldconfig, &["-p"], Linking::Bare)).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once(" => ")).map(|(_, path)| path.trim().into()).collect()
}
