//! Where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the source tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is a folder of the tree")
}

/// Where everything built or written goes.
pub fn target() -> PathBuf {
    root().join("target")
}

pub fn figures() -> PathBuf {
    target().join("figures")
}

/// The folder with the library, its plug-ins and the command: where `make` puts them, unless MPI_CONNECT_TEST_BUILDS names another.
pub fn release() -> PathBuf {
    if let Some(folder) = std::env::var_os("MPI_CONNECT_TEST_BUILDS") {
        return root().join(folder);
    }
    let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(target, |d| root().join(d));
    built.join("release")
}

/// The library under test.
pub fn library() -> PathBuf {
    built(release().join("libmpi_connect.so"))
}

/// The command under test.
pub fn command() -> PathBuf {
    built(release().join("mpi-connect"))
}

/// A script of this crate.
pub fn script(name: &str) -> String {
    root().join("c-tests").join(name).display().to_string()
}

fn built(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is not there: run `make` first", path.display());
    path
}

/// `make WORDS` in the tree, without cargo: what is built is taken as it is.
pub fn make(words: &[&str]) {
    let mut make = Command::new("make");
    // Of a `make` that runs the tests.
    let builds = format!("RELEASE={}", release().display());
    make.current_dir(root())
        .args(["-s", "CARGO=false", &builds])
        .args(words)
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL");
    let done = make.output().expect("make");
    assert!(done.status.success(), "{make:?}: {}", String::from_utf8_lossy(&done.stderr));
}
