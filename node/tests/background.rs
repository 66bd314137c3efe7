//! Transfers that nobody waits for at one end run at full speed: the thread never sleeps over something to do.

mod common;
use common::*;
use node::{Outcome, Source, Tag};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn one_side_is_never_in_a_call() {
    for lanes in [TCP, SHM] {
        over(lanes);
        in_turns();
    }
}

fn in_turns() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(32 << 20, 1);
    let mut space = vec![1; 32 << 20];
    let mut slow = 0;
    for round in 0..60 {
        // In turns the sender's and the receiver's side is left to its thread.
        let start = Instant::now();
        let recv = b.recv(to_a, 1, &mut space);
        let send = a.send(to_b, 1, &data);
        if round % 2 == 0 {
            b.wait(recv);
            a.wait(send);
        } else {
            a.wait(send);
            b.wait(recv);
        }
        // A sleep that nobody ends lasts a second. A machine that has other things to do may take as long now and then.
        slow += u32::from(start.elapsed() > Duration::from_millis(900));
    }
    assert!(slow < 2, "{slow} of 60 rounds took too long");
    assert!(space == data);
}

/// A receive that is asked for a few times at once, which takes whole rounds, goes on when nobody asks any more.
#[test]
fn what_was_asked_for_in_vain_goes_on() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(64 << 20, 1);
    let mut space = vec![1; 64 << 20];
    let mut slow = 0;
    for _ in 0..15 {
        let send = a.send(to_b, 1, &data);
        // Its thread has the announcement, and has had time to fall asleep: whether it has only makes the test sharper.
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        let recv = b.recv(to_a, 1, &mut space);
        let over = (0..8).any(|_| b.node.look(&mut || false, |core| core.test(recv)).is_some());
        a.wait(send);
        slow += u32::from(start.elapsed() > Duration::from_millis(900));
        if !over {
            b.wait(recv);
        }
    }
    assert!(slow < 2, "{slow} of 15 took too long");
    assert!(space == data);
}

/// What a program receives before it computes is room for its sender soon, though the thread has fallen asleep: so the next message leaves
/// when it is sent, and its sender waits for nobody.
#[test]
fn room_is_given_before_the_program_computes() {
    over(TCP);
    let data = pattern(64 << 10, 1);
    let mut late = 0;
    for _ in 0..3 {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let send = a.send(to_b, 1, &[]);
        b.wait(b.recv(to_a, 1, &mut []));
        a.wait(send);
        // As many as there is room for.
        assert!((0..16).all(|_| a.node.send_now(to_b, 0, 1, &view(&data))));
        // A new connection keeps the thread awake for a while.
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..16 {
            let into = vec![0; 64 << 10];
            let taken = b.node.recv_now(|_| true, (to_a, Source::Rank(0), Tag::Is(1)), || view(&into), drop);
            assert!(taken == Ok(()) && into == data);
        }
        std::thread::sleep(Duration::from_millis(50));
        late += u32::from(!a.node.send_now(to_b, 0, 1, &view(&data)));
    }
    assert!(late < 2, "{late} of 3 messages had no room");
}

/// A caller that waits may get no processor, or be kept by the MPI below: the thread makes its rounds then.
#[test]
fn a_caller_that_is_kept_keeps_nobody() {
    for lanes in [TCP, SHM] {
        over(lanes);
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let (is_kept, may_go) = (AtomicBool::new(false), AtomicBool::new(false));
        let (data, mut space) = (pattern(8 << 20, 1), vec![1; 8 << 20]);
        let recv = a.recv(to_b, 1, &mut space);
        let limit = Instant::now() + LONG;
        let sent = std::thread::scope(|scope| {
            let mut keep = || {
                is_kept.store(true, Ordering::Relaxed);
                while !may_go.load(Ordering::Relaxed) && Instant::now() < limit {
                    std::thread::park_timeout(Duration::from_millis(1));
                }
                false
            };
            let a = &a;
            let may_end = || may_go.load(Ordering::Relaxed).then_some(());
            scope.spawn(move || a.node.wait_until(&mut keep, |_| may_end(), Some(limit)));
            while !is_kept.load(Ordering::Relaxed) && Instant::now() < limit {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            let sent = b.wait_for(b.send(to_a, 1, &data), LONG / 6);
            may_go.store(true, Ordering::Relaxed);
            sent
        });
        assert_eq!(sent, Some(Outcome::Sent), "over {lanes}");
        assert_eq!(a.wait(recv), got(data.len(), 1));
        assert!(space == data);
    }
}
