//! Compiles the programs of `c-tests/c` and `c-tests/fortran`, on demand.

use crate::places::{release, root, target};
use crate::{Mpi, places};
use std::path::{Path, PathBuf};
use std::process::Command;
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
    "-O1",
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

/// Compiles `c-tests/fortran/NAME.f90` with our module, and links it with the library.
pub fn compile_fortran(mpi: &Mpi, name: &str) -> PathBuf {
    let module = root().join("include/mpi_connect.f90");
    let source = root().join(format!("c-tests/fortran/{name}.f90"));
    let folder = target().join("c-tests").join(mpi.name);
    // The folder of this MPI: a module file of one compiler says nothing to another.
    let modules = format!("-J{}", folder.display());
    let flags = [&modules, "-O1", "-g", "-Wall"].map(String::from);
    let sources = [module.clone(), source];
    make(mpi.fortran(), &flags, &sources, &folder.join(format!("{name}-fortran")), &[], &linked())
}

/// Compiles the counting tool as a library that calls itself `title`.
pub fn compile_tool(mpi: &Mpi, name: &str, title: &str) -> PathBuf {
    let flags = ["-shared".into(), "-fPIC".into(), format!("-DTOOL=\"{title}\"")];
    build(mpi, name, &format!("lib{name}-{title}.so"), &flags, &[])
}

fn build(mpi: &Mpi, source: &str, output: &str, before: &[String], after: &[String]) -> PathBuf {
    let folder = root().join("c-tests/c");
    let source = folder.join(format!("{source}.c"));
    let output = target().join("c-tests").join(mpi.name).join(output);
    let headers = [folder.join("kit.h"), folder.join("lam.h"), root().join("include/mpi_connect.h")];
    let flags: Vec<String> = FLAGS.iter().map(|f| f.to_string()).chain(before.iter().cloned()).collect();
    make(mpi.compiler(), &flags, &[source], &output, &headers, after)
}

/// Runs a compiler, unless the output is younger than all that it is made of.
fn make(
    [compiler, last]: [Vec<String>; 2],
    flags: &[String],
    sources: &[PathBuf],
    output: &Path,
    headers: &[PathBuf],
    after: &[String],
) -> PathBuf {
    if is_newer(output, sources) && is_newer(output, headers) {
        return output.to_owned();
    }
    std::fs::create_dir_all(output.parent().expect("a folder")).expect("target/c-tests");
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
    assert!(done.status.success(), "{compiler:?} {sources:?}:\n{}", String::from_utf8_lossy(&done.stderr));
    std::fs::rename(&draft, output).expect("rename within a folder");
    output.to_owned()
}

fn is_newer(output: &Path, sources: &[PathBuf]) -> bool {
    let changed = |p: &Path| p.metadata().and_then(|m| m.modified()).ok();
    let Some(built) = changed(output) else {
        return false;
    };
    sources.iter().all(|s| changed(s).unwrap_or(SystemTime::UNIX_EPOCH) < built)
}
