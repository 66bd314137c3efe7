//! The file of one record: it is opened without blocking, read within bounds, and found live or dead. The file store alone
//! calls this.
//!
//! Liveness rests on two rules:
//! - A record gets its name only by `link`, complete and with its writer's exclusive lock held. From then on, only a process
//!   that removes the record takes that lock on this inode. So once the lock is free, the owner is dead.
//! - A process that removes a dead record first truncates it, then takes the exclusive lock, then unlinks the path if it still
//!   leads to this inode. So a record that can be read under an exclusive lock has a live owner, and a newer record under the
//!   same name is never removed. Readers try the lock first, and then read.

use super::folder::Clock;
use crate::error::StoreError;
use crate::record::RecordError;
use crate::record::{MAX_RECORD, Record};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a process that removes a record waits for readers, each of which holds a shared lock for an instant.
const PATIENCE: Duration = Duration::from_millis(200);
pub(super) const NAP: Duration = Duration::from_millis(2);

/// The state of a record's file.
#[derive(Debug)]
pub(super) enum Seen {
    Live(Record),
    /// Its owner is dead. The record is `None` if it cannot be read.
    LeftOver(Option<Record>),
    /// Another process is removing it at this moment.
    Cleaning,
}

/// Opens a regular file of this user's; `None` if there is none.
pub(super) fn open(path: &Path, write: bool) -> Result<Option<File>, StoreError> {
    let io = |what| move |e| StoreError::Io(what, path.into(), e);
    // The type is checked before the file is opened, since opening a device or a pipe may have effects.
    let meta = match fs::symlink_metadata(path) {
        Ok(m) => m,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io("looking at")(e)),
    };
    judge(path, &meta)?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    match OpenOptions::new().read(true).write(write).custom_flags(flags.bits()).open(path) {
        Ok(file) => {
            // Another one may have got the name meanwhile.
            judge(path, &file.metadata().map_err(io("looking at"))?)?;
            Ok(Some(file))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io("opening")(e)),
    }
}

/// The state of the file at this path; `None` if there is none.
pub(super) fn seen(path: &Path, boot: &[u8; 16], clock: &Clock<'_>) -> Result<Option<Seen>, StoreError> {
    match open(path, false)? {
        Some(file) => look(&file, path, boot, clock).map(Some),
        None => Ok(None),
    }
}

/// Only a regular file of this user's is used.
fn judge(path: &Path, meta: &Metadata) -> Result<(), StoreError> {
    let what = match meta.file_type() {
        t if t.is_file() && meta.uid() != geteuid().as_raw() => {
            return Err(StoreError::Foreign(path.into(), meta.uid()));
        }
        t if t.is_file() => return Ok(()),
        t if t.is_dir() => "a folder",
        t if t.is_symlink() => "a symbolic link",
        t if t.is_fifo() => "a pipe",
        t if t.is_socket() => "a socket",
        _ => "a device",
    };
    Err(StoreError::Blocked(path.into(), what))
}

/// The state of an open record; `boot` is the boot id of this host.
pub(super) fn look(file: &File, path: &Path, boot: &[u8; 16], clock: &Clock<'_>) -> Result<Seen, StoreError> {
    let held = match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(e)) => return Err(StoreError::NoLocks(path.into(), e)),
    };
    let bytes = read(file).map_err(|e| StoreError::Io("reading", path.into(), e))?;
    match Record::decode(&bytes) {
        Ok(rec) if held => Ok(Seen::Live(rec)),
        // This host's kernel shows the locks of its own processes. Those of other hosts may not show: then the lease decides.
        Ok(rec) if rec.boot == *boot || lapsed(file, path, clock)? => Ok(Seen::LeftOver(Some(rec))),
        Ok(rec) => Ok(Seen::Live(rec)),
        Err(RecordError::OtherVersion(v)) if held || !lapsed(file, path, clock)? => {
            Err(StoreError::Version(path.into(), v))
        }
        Err(_) if held => Ok(Seen::Cleaning),
        Err(_) => Ok(Seen::LeftOver(None)),
    }
}

fn read(mut file: &File) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MAX_RECORD as u64 + 1).read_to_end(&mut out)?;
    Ok(out)
}

/// Whether this claim was not renewed for longer than the lease.
fn lapsed(file: &File, path: &Path, clock: &Clock<'_>) -> Result<bool, StoreError> {
    let written =
        file.metadata().and_then(|m| m.modified()).map_err(|e| StoreError::Io("looking at", path.into(), e))?;
    let Some(now) = clock.now() else {
        base::log!(Info, "{}: cannot tell its age, so it counts as live", path.display());
        return Ok(false);
    };
    // A time far in the future is over too: the file server's clock was set back, and the claim was not renewed since.
    let apart = now.duration_since(written).unwrap_or_else(|e| e.duration());
    Ok(apart > crate::LEASE)
}

/// Removes a dead record, or finds it removed. Returns false if other processes held its lock for too long.
pub(super) fn clean(file: &File, path: &Path) -> Result<bool, StoreError> {
    let io = |what| move |e| StoreError::Io(what, path.into(), e);
    file.set_len(0).map_err(io("emptying"))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(e)) => return Err(StoreError::NoLocks(path.into(), e)),
            Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return Ok(false),
            Err(TryLockError::WouldBlock) => sleep(NAP),
        }
    }
    if is_at(file, path) {
        base::log!(Info, "removing {}, left by a dead job", path.display());
        match fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(io("removing")(e)),
            _ => {}
        }
    }
    Ok(true)
}

/// Whether `path` leads to this very file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
