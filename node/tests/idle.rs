//! Who waits for long sleeps: the caller in slices, so that the MPI below gets its turns, and the thread until it is needed.

mod common;
use common::*;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use node::{Fault, Outcome};
use std::time::{Duration, Instant};

/// Microseconds of processor time of the whole process, and how often one of its threads has gone to sleep.
fn spent() -> (i64, i64) {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let time = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    (time, usage.voluntary_context_switches())
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
        let after = spent();
        let (time, sleeps) = (after.0 - before.0, after.1 - before.1);
        // What a sleep costs depends on the machine, so they are counted; time shows whoever does not sleep at all.
        let (most, longest) = (200 * LASTS.as_secs() as i64, LASTS.as_micros() as i64 / 20);
        assert!(sleeps < most && time < longest, "{sleeps} sleeps and {time} us in {LASTS:?}");
        a.wait(a.send(to_b, 1, &[2; 8]));
        b.wait(recv);
        assert_eq!(later, [2; 8]);
        // The last lane is lost, with whatever its other end had announced.
        let recv = b.recv(to_a, 1, &mut later);
        a.node.kill();
        assert_eq!(b.wait_for(recv, LASTS), Some(Outcome::Failed(Fault::PeerDead)));
        let before = spent();
        std::thread::sleep(LASTS / 4);
        let time = spent().0 - before.0;
        assert!(time < longest / 4, "{time} us in {:?} without a lane", LASTS / 4);
    }
}

#[test]
fn one_who_waits_for_what_comes_late_does_not_spin_first() {
    const ROUNDS: u32 = 20;
    const LASTS: Duration = Duration::from_millis(5);
    let spent = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
    };
    over(SHM);
    let job = Job::new();
    let before = spent();
    for _ in 0..ROUNDS {
        let slept = job.node.sleep_until(&mut || false, |_| None::<()>, Some(Instant::now() + LASTS));
        assert!(slept.is_none());
    }
    // Whoever yields first does so for most of each round, on a machine that has nothing else to do.
    let (time, most) = (spent() - before, (ROUNDS * LASTS).as_micros() as i64 / 4);
    assert!(time < most, "{time} us in {:?}", ROUNDS * LASTS);
}
