//! What jobs that come and go take, they give back. Alone in its process, since it counts descriptors.

mod common;
use common::*;
use node::{Fault, Group, Outcome};
use std::time::{Duration, Instant};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The job registers anew.
fn renew(job: &mut Job, incarnation: u64) {
    job.group = Group { incarnation, ..job.group };
    job.node.add_group(job.group);
}

fn talk(a: &Job, b: &Job, context: u64) {
    let (to_b, to_a) = (a.open(b, context), b.open(a, context));
    let mut space = vec![0; 8];
    let recv = b.recv(to_a, 1, &mut space);
    let send = a.send(to_b, 1, b"12345678");
    assert_eq!(b.wait_for(recv, LONG), Some(got(8, 1)), "{:?}", a.id());
    assert_eq!(a.wait(send), Outcome::Sent);
    a.node.close(to_b);
    b.node.close(to_a);
}

fn until_no_pairs(job: &Job) {
    let deadline = Some(Instant::now() + LONG);
    let done = job.node.wait_until(&mut || false, |core| (core.pairs_in_use() == 0).then_some(()), deadline);
    assert!(done.is_some(), "{} pairs are left", job.node.inspect(|core| core.pairs_in_use()));
}

#[test]
fn everything_after_each_of_1000_rounds() {
    for lanes in [TCP, SHM] {
        over(lanes);
        everything_is_given_back();
    }
}

fn everything_is_given_back() {
    let (mut a, mut b) = (Job::new(), Job::new());
    // Also one whose name stands all the time.
    let c = Job::new();
    let mut at_100 = (0, 0);
    for round in 1..=1000u64 {
        for (job, base) in [(&mut a, 1 << 32), (&mut b, 2 << 32)] {
            job.node.remove_group(job.group.incarnation);
            renew(job, base + round);
        }
        talk(&a, &b, 1);
        talk(&a, &c, 1);
        if round == 100 || round == 1000 {
            a.node.remove_group(a.group.incarnation);
            b.node.remove_group(b.group.incarnation);
            for job in [&a, &b, &c] {
                until_no_pairs(job);
            }
            let known = c.node.inspect(|core| core.groups_known());
            assert!((1..=4).contains(&known), "{known} groups are remembered");
            match round {
                100 => at_100 = (descriptors(), resident_kb()),
                _ => {
                    println!("after 100 rounds {at_100:?}, after 1000 {:?}", (descriptors(), resident_kb()));
                    assert_eq!(descriptors(), at_100.0);
                    assert!(resident_kb() < at_100.1 + 8 * 1024);
                }
            }
        }
    }
    // Whoever still names one that has left is told so, and what was said before is not lost.
    renew(&mut a, 3 << 32);
    let (to_c, back) = (a.open(&c, 1), c.open(&a, 1));
    let mut space = vec![0; 3];
    let recv = c.recv(back, 1, &mut space);
    let send = a.send(to_c, 1, b"abc");
    assert_eq!(c.wait(recv), got(3, 1));
    a.wait(send);
    let last = a.send(to_c, 2, b"def");
    a.wait(last);
    a.node.close(to_c);
    a.node.remove_group(a.group.incarnation);
    until_no_pairs(&a);
    let recv = c.recv(back, 2, &mut space);
    assert_eq!(c.wait(recv), got(3, 2));
    let recv = c.recv(back, 3, &mut space);
    let noticed = Duration::from_secs(5);
    assert_eq!(c.wait_for(recv, noticed), Some(Outcome::Failed(Fault::PeerFinished)));
    c.node.close(back);
    until_no_pairs(&c);
    // The pair has ended, and is still known to have.
    let again = c.open(&a, 2);
    let recv = c.recv(again, 1, &mut space);
    assert_eq!(c.wait_for(recv, noticed), Some(Outcome::Failed(Fault::PeerFinished)));
}
