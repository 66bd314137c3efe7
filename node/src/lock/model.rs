//! The bias under a model checker (loom), which tries all interleavings and all reorderings that the memory model permits. It knows no
//! barrier that one thread makes for another, so it is a fence in each; without fences it finds two threads under the lock.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

const NONE: usize = 0;
const OWNER: usize = 1;
const OTHER: usize = 2;

/// [`super::Lock`], in which the owner has the bias again as soon as it takes the mutex; where it `passes_on`, the other one gets it too.
struct Modelled {
    owner: AtomicUsize,
    inside: AtomicBool,
    mutex: Mutex<()>,
    value: UnsafeCell<u32>,
    fences: bool,
    passes_on: bool,
}

// SAFETY: the checker sees every access to the cell, and ends the test where two are not ordered.
unsafe impl Sync for Modelled {}
// SAFETY: as above.
unsafe impl Send for Modelled {}

impl Modelled {
    fn add(&self) {
        // SAFETY: the checker makes sure that nothing else touches it.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn barrier(&self) {
        if self.fences {
            fence(Ordering::SeqCst);
        }
    }

    fn under_lock(&self, me: usize) {
        if self.owner.load(Ordering::Relaxed) == me {
            self.inside.store(true, Ordering::Relaxed);
            self.barrier();
            let is_mine = self.owner.load(Ordering::Relaxed) == me;
            if is_mine {
                self.add();
            }
            self.inside.store(false, Ordering::Release);
            if is_mine {
                return;
            }
        }
        let mutex = self.mutex.lock().unwrap();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NONE && owner != me {
            self.owner.store(NONE, Ordering::SeqCst);
            self.barrier();
            while self.inside.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        self.add();
        if me == OWNER || self.passes_on {
            self.owner.store(me, Ordering::Relaxed);
        }
        drop(mutex);
    }
}

fn check(fences: bool, passes_on: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let lock = Arc::new(Modelled {
            owner: AtomicUsize::new(OWNER),
            inside: AtomicBool::new(false),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(0),
            fences,
            passes_on,
        });
        let there = lock.clone();
        let other = thread::spawn(move || {
            there.under_lock(OTHER);
            there.under_lock(OTHER);
        });
        lock.under_lock(OWNER);
        lock.under_lock(OWNER);
        other.join().unwrap();
        // SAFETY: no other thread is left.
        assert_eq!(lock.value.with(|value| unsafe { *value }), 4);
    });
}

#[test]
fn one_thread_at_a_time_has_it() {
    check(true, false);
}

#[test]
#[should_panic]
fn it_needs_the_barriers() {
    check(false, false);
}

/// A thread from which the bias was taken before it came in says that it is not inside, and hides the new owner.
#[test]
#[should_panic]
fn a_bias_that_passes_on_lets_two_in() {
    check(true, true);
}
