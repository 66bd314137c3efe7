//! The lock of the core, biased to the thread that takes it nearly always: that one takes it by two plain stores, with no atomic
//! read-modify-write (two of them are a fifth of a small message). Everyone else takes a mutex, and the bias back.
//!
//! Invariants: `owner` is changed only by who holds the mutex. Only one thread, the same for good, is ever in `owner` and writes
//! `inside`: another one's write could come late, from before the bias was taken from it, and hide that the owner is inside. Who has
//! set `owner` to nobody waits until the former owner is not inside, so one thread at a time has the value.
//!
//! The owner says that it is inside, and then looks whether the bias is still its own; who takes the bias says so, and then looks
//! whether the owner is inside. Each of both needs a barrier between the two steps. That of the owner is made by the other one, with
//! membarrier(2), which has all running threads of this process pass one.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often in a row a thread takes the lock before it is biased to it: what the others pay to take it back is little beside that.
const AFTER: u32 = 64;
/// How often who takes the bias looks whether the owner is inside before it yields, and before it sleeps between two looks.
const LOOKS: u32 = 100;
const YIELDS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);

/// Nobody.
const NONE: usize = 0;

/// See the module.
pub(crate) struct Lock<T> {
    /// The thread that it is biased to.
    owner: AtomicUsize,
    /// The owner holds it, and has not taken the mutex.
    inside: AtomicBool,
    mutex: Mutex<Row>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value, see the module.
unsafe impl<T: Send> Sync for Lock<T> {}

/// What decides to whom it is biased.
#[derive(Default)]
struct Row {
    /// Who took the mutex last, and how often in a row.
    last: usize,
    times: u32,
    /// A thread that it is never biased to.
    never: usize,
    /// The only one that it is biased to, once there is one.
    only: usize,
}

/// The lock is held.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// `None`: by the bias.
    mutex: Option<MutexGuard<'a, Row>>,
    /// It stays with its thread, as what it leads to does.
    of_thread: PhantomData<*mut T>,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock {
            owner: AtomicUsize::new(NONE),
            inside: AtomicBool::new(false),
            mutex: Mutex::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// It is never biased to this thread, which takes it often only while nobody else does.
    pub(crate) fn never_for_this_thread(&self) {
        self.row().never = this_thread();
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let me = this_thread();
        if self.owner.load(Ordering::Relaxed) == me {
            debug_assert!(!self.inside.load(Ordering::Relaxed), "this thread holds the lock");
            self.inside.store(true, Ordering::Relaxed);
            // The processor's barrier is made by who takes the bias.
            compiler_fence(Ordering::SeqCst);
            if self.owner.load(Ordering::Relaxed) == me {
                return Guard { lock: self, mutex: None, of_thread: PhantomData };
            }
            self.inside.store(false, Ordering::Release);
        }
        self.lock_mutex(me)
    }

    #[cold]
    #[inline(never)]
    fn lock_mutex(&self, me: usize) -> Guard<'_, T> {
        let mut row = self.row();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NONE && owner != me {
            self.owner.store(NONE, Ordering::SeqCst);
            barrier::of_all_threads();
            self.until_left();
        }
        row.times = if row.last == me { row.times + 1 } else { 1 };
        row.last = me;
        if row.times == AFTER {
            row.times = 0;
            if barrier::is_ready() && row.never != me && (row.only == NONE || row.only == me) {
                row.only = me;
                self.owner.store(me, Ordering::Relaxed);
            }
        }
        Guard { lock: self, mutex: Some(row), of_thread: PhantomData }
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        // A panic under the lock ends the process, except in tests.
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the former owner is not inside. It cannot come in again.
    fn until_left(&self) {
        let mut looks = 0;
        while self.inside.load(Ordering::Acquire) {
            looks += 1;
            match looks {
                0..LOOKS => std::hint::spin_loop(),
                LOOKS..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }
}

impl<T> Guard<'_, T> {
    /// Gives the lock back. It is the same as a drop, which is not inlined where there are several.
    #[inline(always)]
    pub(crate) fn unlock(self) {
        if self.mutex.is_none() {
            let guard = std::mem::ManuallyDrop::new(self);
            guard.lock.inside.store(false, Ordering::Release);
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.mutex.is_none() {
            self.lock.inside.store(false, Ordering::Release);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// A number of this thread, which no other one has while it runs: the address of its control block. A thread that is begun later may
/// have it again, and then has the bias of the one before, which has ended outside.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    let me;
    // SAFETY: the ABI of x86-64 has this address in the first word of the block that fs points at.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) me, options(nostack, preserves_flags, readonly, pure)) };
    me
}

/// The barrier that one thread makes for all.
pub(crate) mod barrier {
    use base::fence::{OF_THREADS, slow};

    /// Asks the kernel for it. Until this is done, and where the kernel has none, no lock is biased.
    pub(crate) fn prepare() {
        OF_THREADS.register();
    }

    pub(crate) fn is_ready() -> bool {
        OF_THREADS.is_registered()
    }

    /// Each running thread of this process passes a barrier before this returns.
    pub(super) fn of_all_threads() {
        // A process that was restored from an image has to ask again.
        let made = OF_THREADS.make() || OF_THREADS.register() && OF_THREADS.make() || slow();
        assert!(made, "mpi_connect: the kernel makes no more barriers (membarrier)");
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
