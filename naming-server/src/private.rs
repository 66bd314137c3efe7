//! The user's private folder for names.

use nix::unistd::geteuid;
use std::path::{Path, PathBuf};

/// The folder of names without a setting. It is not in XDG_RUNTIME_DIR, which is removed at logout while jobs still run, and
/// which a login shell has and a batch job has not.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(format!("/tmp/mpi-connect-{}", geteuid().as_raw()))
}

/// Whether this is the private folder, to which no other user may be able to write.
pub(crate) fn is(dir: &Path) -> bool {
    dir == folder()
}
