//! What callers and the background thread have in common: the core behind its lock, and who sleeps.

use crate::state::Core;
use crate::sys::forked;
use crate::watch::Watch;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// What callers and the background thread have in common.
pub(crate) struct Shared {
    pub(crate) core: Mutex<Core>,
    pub watch: Arc<Watch>,
    /// How many are in [`Node::wait_until`]: they make all the progress there is. Written under the lock, like the next
    /// two.
    pub waiting: AtomicUsize,
    /// Rounds made by callers, or calls in which they were made.
    pub rounds: AtomicU64,
    /// Of those who wait, one sleeps on the lanes; the others sleep here until a round has found something. Set under the
    /// lock.
    pub polling: AtomicBool,
    pub(crate) found: AtomicU64,
    pub(crate) followers: AtomicUsize,
    pub(crate) news: Condvar,
    /// The background thread sleeps without looking at the clock.
    pub sleeps_long: AtomicBool,
    /// It takes a nap that ends when nobody waits any more. Set under the lock.
    pub naps_long: AtomicBool,
    pub thread: OnceLock<Thread>,
    pub stop: AtomicBool,
    /// What the background thread does besides, and how often.
    pub chore: OnceLock<(Duration, fn())>,
}

impl Shared {
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        assert!(!forked(), "mpi_connect: a forked child cannot use the connections of its parent");
        // Whoever panicked has already stopped the process, except in tests.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the lock: wakes those who sleep, if what was begun is left to them.
    #[inline]
    pub fn rouse(&self, core: &Core) {
        let sleeps_long = self.sleeps_long.load(Ordering::Relaxed);
        let has_left = sleeps_long && core.is_timed() || core.is_dirty();
        if has_left && (sleeps_long || self.polling.load(Ordering::Relaxed)) {
            self.watch.wake();
        }
    }
}

/// What is counted under the lock takes no locked instruction.
fn add(count: &AtomicU64, _lock: &Core) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl Shared {
    /// One begins to wait.
    pub fn enter(&self, _lock: &Core) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One who waited goes on.
    pub fn leave(&self, lock: &Core) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        add(&self.rounds, lock);
        if self.naps_long.load(Ordering::Relaxed) {
            self.naps_long.store(false, Ordering::Relaxed);
            self.thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// For the background thread: whether somebody waits, who will wake it on leaving.
    pub fn nap_while_waiting(&self) -> bool {
        let core = self.lock();
        let waits = self.waiting.load(Ordering::Relaxed) > 0;
        self.naps_long.store(waits, Ordering::Relaxed);
        drop(core);
        waits
    }

    /// A caller makes progress.
    pub fn count_round(&self, lock: &Core) {
        add(&self.rounds, lock);
    }

    /// What a caller has seen, when it goes to sleep.
    pub fn found(&self, _lock: &Core) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    /// A round has found something, which may be what others wait for; or one who waited leaves, who may have been the
    /// one that looked after the lanes.
    pub fn tell(&self, lock: &Core) {
        add(&self.found, lock);
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.news.notify_all();
        }
        if self.polling.load(Ordering::Relaxed) {
            self.watch.wake();
        }
    }

    /// Sleeps until there is news since `seen`.
    pub fn follow(&self, seen: u64, limit: Duration) {
        let core = self.lock();
        if self.found(&core) == seen {
            self.followers.fetch_add(1, Ordering::Relaxed);
            // A wake-up for nothing does no harm.
            let core = self.news.wait_timeout(core, limit);
            self.followers.fetch_sub(1, Ordering::Relaxed);
            drop(core);
        }
    }
}
