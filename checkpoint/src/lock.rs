//! The lock on a job's folder, which the leader holds for as long as the job may write there.
//!
//! Invariant: where the file system has locks, no two jobs of one name use a folder at the same time; the lock of a process that
//! was killed is free.

use crate::disk::{Disk, Output};
use crate::error::StoreError;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the lock of a process that is just being ended is waited for: its name may be free a moment earlier.
const PATIENCE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(10);

/// A lock that is held. A forked child holds it too, and has to close its descriptor.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    pub(crate) fn take(disk: &Disk, path: &Path) -> Result<Lock, StoreError> {
        let mut output = disk.open(path)?;
        let begun = Instant::now();
        loop {
            match output.file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => sleep(NAP),
                Err(TryLockError::WouldBlock) => {
                    let who = fs::read_to_string(path).unwrap_or_default();
                    let who = if who.is_empty() { "a process".into() } else { who.trim().to_owned() };
                    return Err(StoreError::Busy(path.into(), who));
                }
                Err(TryLockError::Error(e)) => {
                    base::log!(
                        Info,
                        "no lock on {}: {e}; two jobs of one name there would not be noticed",
                        path.display()
                    );
                    break;
                }
            }
        }
        // Only told: on a full disk there is no room for it.
        let _ = sign(&mut output);
        let lock = Lock { path: path.into(), file: output.file };
        if lock.is_there() { Ok(lock) } else { Err(StoreError::Gone(path.into())) }
    }

    /// Whether this is the lock of this file, and the file is still there.
    pub(crate) fn is_of(&self, path: &Path) -> bool {
        self.path == path
    }

    pub(crate) fn is_there(&self) -> bool {
        let same = |of: io::Result<fs::Metadata>| of.map(|of| (of.dev(), of.ino())).ok();
        let there = same(fs::metadata(&self.path));
        there.is_some() && there == same(self.file.metadata())
    }
}

/// Says in the file who has it.
fn sign(output: &mut Output<'_>) -> io::Result<()> {
    output.set_length(0).map_err(io::Error::other)?;
    output.write_all(format!("process {} on {}\n", std::process::id(), base::ident::host()).as_bytes())
}

impl AsRawFd for Lock {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
