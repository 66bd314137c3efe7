//! Compiles the programs of `c-tests/c` and `c-tests/fortran`, on demand.

use crate::places::{release, root, target};
use crate::{Mpi, places};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// How a program comes by the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// Not at all.
    None,
    /// `-lmpi_connect`, before the MPI.
    Linked,
    /// `LD_PRELOAD`: its references to the added calls are weak.
    Preloaded,
}

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    // MPICH's MPI_STATUSES_IGNORE looks like an array of no statuses to gcc 12.
    "-Wno-stringop-overflow",
    "-Wno-format-truncation",
];

/// Compiles `c-tests/c/NAME.c` unless that has been done since it last changed.
pub fn compile(mpi: &Mpi, name: &str, library: Library) -> PathBuf {
    compile_with(mpi, name, library, &[])
}

/// The same with flags of one's own, for the linker above all.
pub fn compile_with(mpi: &Mpi, name: &str, library: Library, own: &[&str]) -> PathBuf {
    let mut flags: Vec<String> = vec![format!("-I{}", root().join("include").display())];
    flags.extend(own.iter().map(|f| f.to_string()));
    let suffix = match library {
        Library::None => {
            flags.push("-DKIT_NATIVE".into());
            "native"
        }
        Library::Linked => "linked",
        Library::Preloaded => {
            flags.push("-DKIT_WEAK".into());
            "preloaded"
        }
    };
    let after = if library == Library::Linked { linked() } else { Vec::new() };
    let own: String = own.concat().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    build(mpi, name, &format!("{name}-{suffix}{own}"), &flags, &after)
}

/// What links a program with the library, before its MPI.
fn linked() -> Vec<String> {
    places::library();
    let folder = release();
    vec![format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display()), "-lmpi_connect".into()]
}

/// How a Fortran program has MPI.
#[derive(Debug)]
pub struct Way {
    pub name: &'static str,
    define: &'static str,
    /// Our modules for it.
    modules: &'static [&'static str],
    /// The MPIs that have it for gfortran.
    mpis: &'static [&'static str],
}

pub static WAYS: [Way; 3] = [
    Way { name: "mpif.h", define: "-DWAY_MPIF", modules: &[], mpis: &["openmpi4", "mpich4", "lam", "impi"] },
    Way { name: "use mpi", define: "-DWAY_MPI", modules: &["mpi_connect.f90"], mpis: &["openmpi4", "mpich4", "impi"] },
    Way {
        name: "use mpi_f08",
        define: "-DWAY_F08",
        modules: &["mpi_connect.f90", "mpi_connect_f08.f90"],
        mpis: &["openmpi4", "mpich4"],
    },
];

impl Way {
    /// Whether an MPI has it.
    pub fn is_in(&self, mpi: &Mpi) -> bool {
        self.mpis.contains(&mpi.name)
    }
}

/// Compiles `c-tests/fortran/NAME.F90` in one way, with our modules if it is to be linked with the library. Where the MPI
/// has no Fortran of this kind, the compiler says what is missing. What a program needs in C lies beside it, as NAME_marks.c.
pub fn compile_fortran(mpi: &Mpi, way: &Way, name: &str, library: Library) -> Result<PathBuf, String> {
    let sources = root().join("c-tests/fortran");
    let include = root().join("include");
    let word = way.define.trim_start_matches("-D");
    // A folder of its own: a module file of one compiler says nothing to another.
    let folder = target().join("c-tests").join(mpi.name).join(word);
    std::fs::create_dir_all(&folder).expect("target/c-tests");
    let mut flags = ["-O1", "-g", "-fallow-argument-mismatch", way.define].map(String::from).to_vec();
    flags.extend([format!("-I{}", sources.display()), format!("-I{}", include.display())]);
    flags.push(format!("-J{}", folder.display()));
    if mpi.name == "lam" {
        flags.push("-DLAM".into());
    }
    let modules = if library == Library::Linked { way.modules } else { &[] };
    let mut all: Vec<_> = modules.iter().map(|m| include.join(m)).collect();
    all.push(sources.join(format!("{name}.F90")));
    let mut headers = ["way.h", "check.h", "../c/kit.h", "../c/cost.h"].map(|h| sources.join(h)).to_vec();
    headers.push(include.join("mpif_connect.h"));
    let marks = sources.join(format!("{name}_marks.c"));
    if marks.exists() {
        flags.push("-DKIT_WEAK".into());
        all.push(marks);
    }
    let after = if library == Library::Linked { linked() } else { Vec::new() };
    try_make(mpi.fortran(), &flags, &all, &folder.join(name), &headers, &after)
}

/// Compiles the counting tool as a library that calls itself `title`.
pub fn compile_tool(mpi: &Mpi, name: &str, title: &str) -> PathBuf {
    let flags = ["-shared".into(), "-fPIC".into(), format!("-DTOOL=\"{title}\"")];
    build(mpi, name, &format!("lib{name}-{title}.so"), &flags, &[])
}

fn build(mpi: &Mpi, source: &str, output: &str, before: &[String], after: &[String]) -> PathBuf {
    let source = root().join("c-tests/c").join(format!("{source}.c"));
    let output = target().join("c-tests").join(mpi.name).join(output);
    let flags: Vec<String> = ["-O1".to_owned()].into_iter().chain(before.iter().cloned()).collect();
    try_build(mpi.compiler(), &source, &output, &flags, after)
        .unwrap_or_else(|said| panic!("{} {source:?}:\n{said}", mpi.name))
}

/// Compiles one C file, unless the output is younger than it, the headers beside it and ours. Fails with what the
/// compiler said.
pub fn try_build(
    compiler: [Vec<String>; 2],
    source: &Path,
    output: &Path,
    before: &[String],
    after: &[String],
) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(source.parent().expect("a file")).expect("a folder of sources");
    let mut headers: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    headers.retain(|path| path.extension().is_some_and(|e| e == "h"));
    headers.push(root().join("include/mpi_connect.h"));
    let flags: Vec<String> = FLAGS.iter().map(|f| f.to_string()).chain(before.iter().cloned()).collect();
    try_make(compiler, &flags, &[source.to_owned()], output, &headers, after)
}

/// Held while something is compiled into a folder.
static BUILDING: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());

/// Runs a compiler, unless the output is younger than all that it is made of. Fails with what the compiler said.
fn try_make(
    [compiler, last]: [Vec<String>; 2],
    flags: &[String],
    sources: &[PathBuf],
    output: &Path,
    headers: &[PathBuf],
    after: &[String],
) -> Result<PathBuf, String> {
    let folder = output.parent().expect("a folder");
    // Two tests may want the same program, and Fortran's modules lie beside what is made with them.
    let turn = BUILDING.lock().unwrap_or_else(PoisonError::into_inner).entry(folder.to_owned()).or_default().clone();
    let _held = turn.lock().unwrap_or_else(PoisonError::into_inner);
    if is_newer(output, sources) && is_newer(output, headers) {
        return Ok(output.to_owned());
    }
    std::fs::create_dir_all(folder).expect("target/c-tests");
    // Renamed when whole: a compiler that was stopped leaves nothing that looks done.
    let draft = output.with_extension(format!("draft-{}", std::process::id()));
    let done = Command::new(&compiler[0])
        .args(&compiler[1..])
        .args(flags)
        .args(sources)
        .arg("-o")
        .arg(&draft)
        .args(after)
        .args(last)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}: run `scripts/provision`", compiler[0]));
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    std::fs::rename(&draft, output).expect("rename within a folder");
    Ok(output.to_owned())
}

fn is_newer(output: &Path, sources: &[PathBuf]) -> bool {
    let changed = |p: &Path| p.metadata().and_then(|m| m.modified()).ok();
    let Some(built) = changed(output) else {
        return false;
    };
    sources.iter().all(|s| changed(s).unwrap_or(SystemTime::UNIX_EPOCH) < built)
}
