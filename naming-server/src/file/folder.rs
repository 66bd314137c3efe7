//! The folder itself: it is made and checked, and its file server's clock is read. The file store alone calls this.
//!
//! Invariant: the private folder is used only while it is a real folder of this user's to which no other user can write.

use super::names;
use crate::error::StoreError;
use nix::unistd::geteuid;
use std::cell::OnceCell;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const OTHERS_WRITE: u32 = 0o022;

/// Makes the folder if it is missing, and checks it.
pub(super) fn ready(dir: &Path, private: bool) -> Result<Metadata, StoreError> {
    if let Some(m) = seen(dir, private)? {
        return Ok(m);
    }
    match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        Err(e) if !matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            return Err(StoreError::Io("creating the folder", dir.into(), e));
        }
        _ => {}
    }
    // It is checked even if it was just made, since another process may have been faster.
    seen(dir, private)?.ok_or_else(|| StoreError::NotAFolder(dir.into()))
}

/// Checks the folder; `None` if there is none.
pub(super) fn seen(dir: &Path, private: bool) -> Result<Option<Metadata>, StoreError> {
    let meta = match if private { fs::symlink_metadata(dir) } else { fs::metadata(dir) } {
        Ok(m) => m,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == ErrorKind::NotADirectory => return Err(StoreError::NotAFolder(dir.into())),
        Err(e) => return Err(StoreError::Io("looking at", dir.into(), e)),
    };
    if meta.is_symlink() {
        return Err(StoreError::Symlink(dir.into()));
    }
    if !meta.is_dir() {
        return Err(StoreError::NotAFolder(dir.into()));
    }
    if private && meta.uid() != geteuid().as_raw() {
        return Err(StoreError::Foreign(dir.into(), meta.uid()));
    }
    if private && others_write(&meta) {
        return Err(StoreError::Writable(dir.into(), meta.mode() & 0o7777));
    }
    Ok(Some(meta))
}

pub(super) fn others_write(meta: &Metadata) -> bool {
    meta.mode() & OTHERS_WRITE != 0
}

/// A file of ours under a temporary name, which is removed when this is dropped.
pub(super) struct Temporary {
    pub file: File,
    pub path: PathBuf,
}

impl Temporary {
    pub(super) fn create(dir: &Path) -> Result<Temporary, StoreError> {
        let path = dir.join(names::temporary());
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => Ok(Temporary { file, path }),
            Err(e) => Err(StoreError::Io("creating a file in", dir.into(), e)),
        }
    }

    /// Keeps the file, under its other name, and its lock, which a duplicate of a descriptor shares.
    pub(super) fn into_file(self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The file server's clock, by which leases are measured, since the clocks of two hosts may differ. It is read at most once.
pub(super) struct Clock<'a> {
    dir: &'a Path,
    now: OnceCell<Option<SystemTime>>,
}

impl<'a> Clock<'a> {
    pub(super) fn new(dir: &'a Path) -> Clock<'a> {
        Clock { dir, now: OnceCell::new() }
    }

    /// The time; `None` if this process may not write to the folder.
    pub(super) fn now(&self) -> Option<SystemTime> {
        *self.now.get_or_init(|| {
            let fresh = Temporary::create(self.dir).ok()?;
            fresh.file.metadata().and_then(|m| m.modified()).ok()
        })
    }
}
