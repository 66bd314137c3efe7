//! Compiles the programs of `c-tests/c`, on demand.

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
    let mut flags: Vec<String> = vec![format!("-I{}", root().join("include").display())];
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
    let mut after = Vec::new();
    if library == Library::Linked {
        places::library();
        let folder = release();
        after.extend([format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())]);
        after.push("-lmpi_connect".into());
    }
    build(mpi, name, &format!("{name}-{suffix}"), &flags, &after)
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
    let sources = [source.clone(), folder.join("kit.h"), root().join("include/mpi_connect.h")];
    if is_newer(&output, &sources) {
        return output;
    }
    std::fs::create_dir_all(output.parent().expect("a folder")).expect("target/c-tests");
    // Renamed when whole: a compiler that was stopped leaves nothing that looks done.
    let draft = output.with_extension(format!("draft-{}", std::process::id()));
    let done = Command::new(mpi.compiler)
        .args(FLAGS)
        .args(before)
        .arg(&source)
        .arg("-o")
        .arg(&draft)
        .args(after)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}: run `scripts/provision`", mpi.compiler));
    assert!(done.status.success(), "{} {}:\n{}", mpi.compiler, source.display(), String::from_utf8_lossy(&done.stderr));
    std::fs::rename(&draft, &output).expect("rename within a folder");
    output
}

fn is_newer(output: &Path, sources: &[PathBuf]) -> bool {
    let changed = |p: &Path| p.metadata().and_then(|m| m.modified()).ok();
    let Some(built) = changed(output) else {
        return false;
    };
    sources.iter().all(|s| changed(s).unwrap_or(SystemTime::UNIX_EPOCH) < built)
}
