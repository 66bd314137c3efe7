//! The user's own folder for names.

use nix::unistd::geteuid;
use std::path::{Path, PathBuf};

/// The folder that holds names when nothing else is said. Not in XDG_RUNTIME_DIR: that is removed at logout under a
/// job that lives on, and a batch job does not have it while a login shell does.
pub fn folder() -> PathBuf {
    PathBuf::from(format!("/tmp/mpi-connect-{}", geteuid().as_raw()))
}

/// Whether this is a folder that we would choose: then nobody else may be able to write to it.
pub fn is(dir: &Path) -> bool {
    dir == folder()
}
