//! A claim on a record's file. Made by the file store.
//!
//! Invariant: the exclusive lock on the file is held from before it has its name until after it lost it.

use super::entry;
use crate::claim::Holding;
use crate::error::RenewError;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::path::PathBuf;

/// The locked file of a claim.
pub(super) struct FileHolding {
    /// `None` once the claim has ended.
    file: Option<File>,
    fd: RawFd,
    path: PathBuf,
}

impl FileHolding {
    pub(super) fn new(file: File, path: PathBuf) -> FileHolding {
        FileHolding { fd: file.as_raw_fd(), file: Some(file), path }
    }

    /// Whether the record was emptied, unlinked or replaced: another process took this one for dead.
    fn is_lost(&self, file: &File) -> bool {
        !entry::is_at(file, &self.path) || file.metadata().is_ok_and(|m| m.len() == 0)
    }
}

impl Holding for FileHolding {
    fn renew(&self) -> Result<(), RenewError> {
        let Some(file) = &self.file else { return Err(RenewError::Lost(self.path.display().to_string())) };
        // UTIME_NOW is the time of the file server, not of this host.
        futimens(file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)
            .map_err(|e| RenewError::Io(self.path.clone(), e.into()))?;
        if self.is_lost(file) { Err(RenewError::Lost(self.path.display().to_string())) } else { Ok(()) }
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd)
    }

    fn release(&mut self) {
        let Some(file) = self.file.take() else { return };
        if self.is_lost(&file) {
            base::log!(Info, "{} is no longer ours", self.path.display());
        } else if let Err(e) = fs::remove_file(&self.path) {
            base::log!(Error, "removing {}: {e}", self.path.display());
        }
        // Closing the file would not free the lock if a forked child still has it open.
        let _ = file.unlock();
    }

    fn abandon(&mut self) {
        // The child may have closed the descriptor, and the number may be that of another file by now.
        if let Some(file) = self.file.take() {
            let _ = file.into_raw_fd();
        }
    }
}
