//! Who waits for long sleeps: the caller in slices, so that the MPI below gets its turns, and the thread until it is needed.

mod common;
use common::*;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::time::{Duration, Instant};

/// Processor time of the whole process.
fn spent() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
}

#[test]
fn one_who_waits_costs_next_to_nothing() {
    const LASTS: Duration = Duration::from_secs(4);
    for lanes in [SHM, TCP] {
        over(lanes);
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let (mut space, mut later) = ([0u8; 8], [0u8; 8]);
        let recv = b.recv(to_a, 1, &mut space);
        a.wait(a.send(to_b, 1, &[1; 8]));
        b.wait(recv);
        let recv = b.recv(to_a, 1, &mut later);
        let before = spent();
        let waited = b.node.wait_until(&mut || false, |core| core.test(recv), Some(Instant::now() + LASTS));
        assert!(waited.is_none());
        let spent = spent() - before;
        // Of both processes; the first half second is not asleep yet.
        assert!(spent < LASTS.as_micros() as i64 / 100, "{spent} us of {LASTS:?}");
        a.wait(a.send(to_b, 1, &[2; 8]));
        b.wait(recv);
        assert_eq!(later, [2; 8]);
    }
}
