//! One record's file: opened without ever blocking, read within bounds, judged live or dead. The file store alone
//! calls this.
//!
//! What liveness rests on:
//! - A record gets its name only by `link`, complete, with its writer's exclusive lock held; from then on nobody
//!   takes that lock on this inode but somebody who clears it away. So a free lock means death, for ever.
//! - Whoever clears a dead record away first cuts it to nothing, then takes the exclusive lock, then unlinks the
//!   path if it still leads to this inode. So a record that can be read under an exclusive lock has a live owner,
//!   and nobody removes the record that came after the one he judged. Readers look at the lock first, then read.

use super::folder::Clock;
use crate::error::StoreError;
use crate::record::RecordError;
use crate::record::{MAX_RECORD, Record};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{self, File, FileType, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long lookers, who hold a shared lock for an instant, may keep a cleaner waiting.
const PATIENCE: Duration = Duration::from_millis(200);
pub const NAP: Duration = Duration::from_millis(2);

/// What a record's file turned out to be.
#[derive(Debug)]
pub enum Seen {
    Live(Record),
    /// Its owner is dead; without a record if it cannot be read.
    LeftOver(Option<Record>),
    /// Somebody is removing it at this moment.
    Cleaning,
}

/// Opens a regular file of our own; `None` if there is nothing.
pub fn open(path: &Path, write: bool) -> Result<Option<File>, StoreError> {
    let io = |what| move |e| StoreError::Io(what, path.into(), e);
    // Looked at before it is opened: opening a device or a pipe may already do something.
    let meta = match fs::symlink_metadata(path) {
        Ok(m) => m,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io("looking at")(e)),
    };
    judge_type(path, meta.file_type())?;
    if meta.uid() != geteuid().as_raw() {
        return Err(StoreError::Foreign(path.into(), meta.uid()));
    }
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    match OpenOptions::new().read(true).write(write).custom_flags(flags.bits()).open(path) {
        Ok(file) => {
            judge_type(path, file.metadata().map_err(io("looking at"))?.file_type())?;
            Ok(Some(file))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io("opening")(e)),
    }
}

/// Judges what lies there, if anything does.
pub fn seen(path: &Path, boot: &[u8; 16], clock: &Clock<'_>) -> Result<Option<Seen>, StoreError> {
    match open(path, false)? {
        Some(file) => look(&file, path, boot, clock).map(Some),
        None => Ok(None),
    }
}

fn judge_type(path: &Path, t: FileType) -> Result<(), StoreError> {
    let what = match t {
        t if t.is_file() => return Ok(()),
        t if t.is_dir() => "a folder",
        t if t.is_symlink() => "a symbolic link",
        t if t.is_fifo() => "a pipe",
        t if t.is_socket() => "a socket",
        _ => "a device",
    };
    Err(StoreError::Blocked(path.into(), what))
}

/// Judges an open record. `boot`: the host we are on.
pub fn look(file: &File, path: &Path, boot: &[u8; 16], clock: &Clock<'_>) -> Result<Seen, StoreError> {
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
        // Our own kernel would show us the lock. Another host's may not: then the lease decides.
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

/// Whether nobody has renewed this claim for longer than the lease.
fn lapsed(file: &File, path: &Path, clock: &Clock<'_>) -> Result<bool, StoreError> {
    let written =
        file.metadata().and_then(|m| m.modified()).map_err(|e| StoreError::Io("looking at", path.into(), e))?;
    let Some(now) = clock.now() else {
        base::log!(Info, "{}: cannot tell its age, so it counts as live", path.display());
        return Ok(false);
    };
    // A claim from far in the future is as dead: the server's clock was set back under it, and nobody renewed it.
    let apart = now.duration_since(written).unwrap_or_else(|e| e.duration());
    Ok(apart > crate::LEASE)
}

/// Removes a dead record; false if others were in the way for too long. It may be gone by another's hand.
pub fn clean(file: &File, path: &Path) -> Result<bool, StoreError> {
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
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
