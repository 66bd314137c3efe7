//! The folder with the checkpoints of a job, which its leader has locked while the job has its name.
//!
//! Invariant: a forked child does not keep the lock.

use super::fork;
use node::images::{Lock, Store, StoreError};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard};

/// The lock, once there is one. Dropping it gives the folder back.
#[derive(Default)]
pub struct HeldFolder(Mutex<Option<Lock>>);

impl HeldFolder {
    /// For a job that writes there.
    pub fn open(&self, store: &Store) -> Result<(), StoreError> {
        self.change(|held| store.open(held))
    }

    /// For a job that reads there.
    pub fn hold(&self, store: &Store) -> Result<(), StoreError> {
        self.change(|held| store.hold(held))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Option<Lock>) -> T) -> T {
        let mut held = self.lock();
        // Before its descriptor may be closed, and be that of something else.
        held.iter().for_each(|lock| fork::forget(lock.as_raw_fd()));
        let done = change(&mut held);
        held.iter().for_each(|lock| fork::remember(lock.as_raw_fd()));
        done
    }

    fn lock(&self) -> MutexGuard<'_, Option<Lock>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for HeldFolder {
    fn drop(&mut self) {
        self.lock().iter().for_each(|lock| fork::forget(lock.as_raw_fd()));
    }
}
