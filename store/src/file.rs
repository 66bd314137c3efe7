//! Finding, making and locking the file. The store alone calls this.

use crate::error::OpenError;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Only the user may read what leads to jobs.
const MODE: u32 = 0o600;

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Opening a pipe must not wait.
    options.read(true).write(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits());
    options
}

/// The file of this name, locked; `None` if there is none.
pub(super) fn existing(path: &Path) -> Result<Option<File>, OpenError> {
    let file = match options().open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if e.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            return Err(OpenError::NoFile(path.into(), "a symbolic link"));
        }
        Err(e) if e.kind() == ErrorKind::IsADirectory => return Err(OpenError::NoFile(path.into(), "a folder")),
        Err(e) => return Err(OpenError::Io("opening", path.into(), e)),
    };
    check(path, &file)?;
    lock(path, &file)?;
    // Its length may only be asked for under the lock.
    match file.metadata() {
        Ok(about) if about.len() == 0 => Err(OpenError::Damaged(path.into(), "it is empty".into())),
        Ok(_) => Ok(Some(file)),
        Err(e) => Err(OpenError::Io("reading", path.into(), e)),
    }
}

/// Where a new file is made. One that a killed server has left there is made anew.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

/// A new file of this name, empty and locked.
pub(super) fn new(path: &Path) -> Result<File, OpenError> {
    let failed = |what| move |e| OpenError::Io(what, path.into(), e);
    let file = options().create(true).mode(MODE).open(path).map_err(failed("making"))?;
    check(path, &file)?;
    lock(path, &file)?;
    file.set_len(0).map_err(failed("writing"))?;
    Ok(file)
}

/// Gives a file its name, unless the name is taken: then false.
pub(super) fn name(from: &Path, to: &Path) -> Result<bool, OpenError> {
    match fs::hard_link(from, to) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return Err(OpenError::Io("making", to.into(), e)),
    }
    // The name is to outlive the host's death, as what is in the file.
    let folder = to.parent().unwrap_or(Path::new("/"));
    let kept = File::open(folder).and_then(|folder| folder.sync_all());
    kept.map_err(|e| OpenError::Io("writing", folder.into(), e))?;
    Ok(true)
}

fn check(path: &Path, file: &File) -> Result<(), OpenError> {
    let about = file.metadata().map_err(|e| OpenError::Io("reading", path.into(), e))?;
    let mode = about.mode() & 0o7777;
    if !about.is_file() {
        Err(OpenError::NoFile(path.into(), "something else"))
    } else if about.uid() != geteuid().as_raw() {
        Err(OpenError::Foreign(path.into(), about.uid()))
    } else if mode & 0o077 != 0 {
        Err(OpenError::Readable(path.into(), mode))
    } else {
        Ok(())
    }
}

fn lock(path: &Path, file: &File) -> Result<(), OpenError> {
    file.try_lock().map_err(|e| match e {
        TryLockError::WouldBlock => OpenError::Busy(path.into()),
        TryLockError::Error(e) => OpenError::Io("locking", path.into(), e),
    })
}
