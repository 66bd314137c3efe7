//! The user's private folder for names.

pub(crate) use base::file::private_folder as folder;
use std::path::Path;

/// Whether this is the private folder, to which no other user may be able to write.
pub(crate) fn is(dir: &Path) -> bool {
    dir == folder()
}
