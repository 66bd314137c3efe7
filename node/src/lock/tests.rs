use super::{AFTER, Lock, NONE, barrier, this_thread};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A lock that is biased to this thread.
fn biased() -> Lock<u64> {
    barrier::prepare();
    assert!(barrier::is_ready(), "these tests need membarrier");
    let lock = Lock::new(0);
    (0..AFTER).for_each(|_| *lock.lock() += 1);
    assert_eq!(lock.owner.load(Ordering::Relaxed), this_thread());
    lock
}

#[test]
fn it_is_biased_to_who_takes_it_often_and_to_nobody_when_another_one_has_taken_it() {
    let lock = biased();
    assert!(lock.lock().mutex.is_none());
    thread::scope(|s| s.spawn(|| *lock.lock() += 1).join().unwrap());
    assert_eq!(lock.owner.load(Ordering::Relaxed), NONE);
    assert!(lock.lock().mutex.is_some());
    (1..AFTER).for_each(|_| *lock.lock() += 1);
    assert!(lock.lock().mutex.is_none());
    assert_eq!(*lock.lock(), u64::from(2 * AFTER));
}

#[test]
fn it_is_biased_to_the_same_thread_for_good() {
    let lock = biased();
    let often = || (0..3 * AFTER).for_each(|_| assert!(lock.lock().mutex.is_some()));
    thread::scope(|s| s.spawn(often).join().unwrap());
    (0..AFTER).for_each(|_| *lock.lock() += 1);
    assert!(lock.lock().mutex.is_none());
}

#[test]
fn it_is_never_biased_to_a_thread_that_says_so() {
    let lock = biased();
    thread::scope(|s| {
        let often = || {
            lock.never_for_this_thread();
            (0..3 * AFTER).for_each(|_| assert!(lock.lock().mutex.is_some()));
        };
        s.spawn(often).join().unwrap()
    });
}

#[test]
fn who_takes_the_bias_waits_until_the_owner_has_left() {
    let lock = biased();
    let (is_out, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|s| {
        let held = lock.lock();
        assert!(held.mutex.is_none());
        let other = s.spawn(|| {
            begun.store(true, Ordering::Relaxed);
            let _held = lock.lock();
            assert!(is_out.load(Ordering::Relaxed), "both have it");
        });
        // It waits in the lock, also beyond its first looks.
        while !begun.load(Ordering::Relaxed) || lock.owner.load(Ordering::Relaxed) != NONE {
            thread::yield_now();
        }
        (0..1000).for_each(|_| thread::yield_now());
        is_out.store(true, Ordering::Relaxed);
        drop(held);
        other.join().unwrap();
    });
}

/// Threads that take the bias from each other lose nothing that was written under the lock.
#[test]
fn one_thread_at_a_time_has_it() {
    const TURNS: u64 = 200;
    let lock = biased();
    let before = *lock.lock();
    let of = |seed: u64| {
        let (lock, mut n) = (&lock, seed);
        move || {
            let mut added = 0;
            for _ in 0..TURNS {
                n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // Some of these rows are long enough for the bias.
                for _ in 0..n >> 56 {
                    *lock.lock() += 1;
                    added += 1;
                }
                if n & 1 == 0 {
                    thread::yield_now();
                }
            }
            added
        }
    };
    let sum: u64 = thread::scope(|s| {
        let all: Vec<_> = (1..=3).map(|seed| s.spawn(of(seed))).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(*lock.lock(), before + sum);
}
