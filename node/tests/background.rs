//! Transfers that nobody waits for at one end run at full speed: the thread never sleeps over something to do.

mod common;
use common::*;
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
    assert!(slow < 10, "{slow} of 60 rounds took too long");
    assert!(space == data);
}
