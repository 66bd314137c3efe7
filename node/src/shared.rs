//! The state that calling threads and the background thread share: the core behind its lock, and which threads sleep.

use crate::lock::{Guard, Lock};
use crate::state::Core;
use crate::sys::forked;
use crate::watch::Watch;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The state that calling threads and the background thread share.
pub(crate) struct Shared {
    pub(crate) core: Lock<Core>,
    pub watch: Arc<Watch>,
    /// How many threads are in [`crate::Node::wait_until`]. While there are any, they make the progress. Written under
    /// the lock.
    pub waiting: AtomicUsize,
    /// Counts the calls in which callers made progress. Written under the lock.
    pub calls: AtomicU64,
    /// Counts the rounds that callers made. Written under the lock.
    pub rounds: AtomicU64,
    /// Whether one of the waiting threads sleeps in poll(2) on the descriptors. The others, the followers, sleep on
    /// `news`. Set under the lock.
    pub polling: AtomicBool,
    /// Counts the rounds that have found something. Written under the lock.
    pub(crate) found: AtomicU64,
    /// How many threads sleep on `news`.
    pub(crate) followers: AtomicUsize,
    /// Wakes the followers when a round has found something. A follower holds its mutex from before it gives the lock back until it
    /// sleeps.
    pub(crate) news: (Mutex<()>, Condvar),
    /// The background thread sleeps longer than the session's tick, so it has to be woken when a time limit begins.
    pub sleeps_long: AtomicBool,
    /// The background thread is parked until no thread waits any more. Set under the lock.
    pub naps_long: AtomicBool,
    /// The background thread.
    pub thread: OnceLock<Thread>,
    /// Tells the background thread to end.
    pub stop: AtomicBool,
    /// A function that the background thread calls besides, and how often: see [`crate::Node::every`].
    pub chore: OnceLock<(Duration, fn())>,
}

impl Shared {
    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, Core> {
        assert!(!forked(), "mpi_connect: a forked child cannot use the connections of its parent");
        self.core.lock()
    }

    /// Wakes a thread that sleeps, if a call has left work or a time limit to it. Called under the lock.
    #[inline]
    pub(crate) fn wake_if_needed(&self, core: &Core) {
        let sleeps_long = self.sleeps_long.load(Ordering::Relaxed);
        let has_left = sleeps_long && core.is_timed() || core.is_dirty();
        if has_left && (sleeps_long || self.polling.load(Ordering::Relaxed)) {
            self.watch.wake();
        }
    }
}

impl Shared {
    /// Runs `f` under the lock, and carries out what it leads to.
    #[inline(always)]
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.lock();
        let out = f(&mut core);
        self.carry_out(&mut core);
        out
    }

    /// Carries out what a call has led to, before the lock is given back.
    #[inline(always)]
    pub(crate) fn carry_out(&self, core: &mut Core) {
        if core.session.has_actions() {
            core.act();
        }
        self.wake_if_needed(core);
    }
}

/// Counts under the lock, so that no atomic read-modify-write is needed.
#[inline(always)]
fn add(count: &AtomicU64, _lock: &Core) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl Shared {
    /// A thread begins to wait.
    pub(crate) fn enter(&self, _lock: &Core) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A thread ends its wait.
    pub(crate) fn leave(&self, lock: &Core) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        add(&self.calls, lock);
        if self.naps_long.load(Ordering::Relaxed) {
            self.naps_long.store(false, Ordering::Relaxed);
            self.thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// For a thread that waits: whether others do.
    pub(crate) fn others_wait(&self, _lock: &Core) -> bool {
        self.waiting.load(Ordering::Relaxed) > 1
    }

    /// For the background thread: whether a thread waits, which will then wake it at the end of its wait.
    pub(crate) fn nap_while_waiting(&self) -> bool {
        let core = self.lock();
        let waits = self.waiting.load(Ordering::Relaxed) > 0;
        self.naps_long.store(waits, Ordering::Relaxed);
        drop(core);
        waits
    }

    /// A caller makes progress, so the background thread need not.
    #[inline(always)]
    pub(crate) fn count_call(&self, lock: &Core) {
        add(&self.calls, lock);
    }

    /// A round of a caller's.
    pub(crate) fn round(&self, core: &mut Core, now: Instant) -> bool {
        add(&self.rounds, core);
        core.round(now)
    }

    /// The count of [`Shared::tell`], which a thread reads before it sleeps.
    pub(crate) fn found(&self, _lock: &Core) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    /// Wakes the other waiting threads. A round has found something, which may be what they wait for; or a thread ends
    /// its wait, and another one has to sleep on the descriptors in its place.
    pub(crate) fn tell(&self, lock: &Core) {
        // Who follows waits, and waits from before it reads the count.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        add(&self.found, lock);
        if self.followers.load(Ordering::Relaxed) > 0 {
            // A follower that has not gone to sleep yet is waited for.
            drop(self.news());
            self.news.1.notify_all();
        }
        if self.polling.load(Ordering::Relaxed) {
            self.watch.wake();
        }
    }

    /// Sleeps until [`Shared::tell`] was called since `seen` was read, or `limit` has passed.
    pub(crate) fn follow(&self, seen: u64, limit: Duration) {
        let core = self.lock();
        if self.found(&core) == seen {
            self.followers.fetch_add(1, Ordering::Relaxed);
            let news = self.news();
            drop(core);
            // A spurious wake-up does no harm.
            let news = self.news.1.wait_timeout(news, limit);
            self.followers.fetch_sub(1, Ordering::Relaxed);
            drop(news);
        }
    }

    fn news(&self) -> MutexGuard<'_, ()> {
        self.news.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
