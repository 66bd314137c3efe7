//! The file as the database uses it. The store alone calls this.
//!
//! Invariant: room on the disk is taken when the file grows, so a disk that is full is noticed before anything is written.

use nix::fcntl::posix_fallocate;
use redb::StorageBackend;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A change of the file that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These bytes go to this place.
    Write(u64, Vec<u8>),
    /// The file gets this length.
    Length(u64),
    /// What was written goes to the disk.
    Sync,
}

/// Is asked before each step, for tests: may end the process, keep the step, or have it fail.
pub trait Watch: Debug + Send + Sync {
    /// An error is what the step returns, without being done.
    fn before(&self, step: Step) -> io::Result<()>;
}

/// It has no locks of its own: the store holds one on the file for as long as it lives.
#[derive(Debug)]
pub(super) struct Backend {
    file: File,
    watch: Option<Arc<dyn Watch>>,
}

impl Backend {
    pub(super) fn new(file: &File, watch: &Option<Arc<dyn Watch>>) -> io::Result<Backend> {
        Ok(Backend { file: file.try_clone()?, watch: watch.clone() })
    }

    fn ask(&self, step: impl FnOnce() -> Step) -> io::Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.before(step()))
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.ask(|| Step::Length(length))?;
        let now = self.file.metadata()?.len();
        match length.checked_sub(now) {
            Some(0) => Ok(()),
            Some(more) => Ok(posix_fallocate(&self.file, now as i64, more as i64)?),
            None => self.file.set_len(length),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.ask(|| Step::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.ask(|| Step::Write(offset, data.to_vec()))?;
        self.file.write_all_at(data, offset)
    }
}
