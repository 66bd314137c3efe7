//! A transport that neither the node nor the session has heard of carries what any other does: see `transports/src/toy`.

use crate::common::*;
use node::{Config, Fault, Gone, Node, Outcome, Settings};
use std::time::Instant;

fn over_toy() {
    over("toy");
}

fn pair() -> (Job, Job) {
    over_toy();
    let (a, b) = (Job::new(), Job::new());
    for job in [&a, &b] {
        let used: Vec<_> = job.node.contact().entries().map(|(transport, _)| transport).collect();
        let toy = transports::registry::ALL.iter().find(|about| about.word == "toy").expect("it is registered");
        assert_eq!(used, [toy.id], "and nothing else");
    }
    (a, b)
}

#[test]
fn nobody_uses_it_unasked() {
    assert!(
        Node::start(Config { transports: Settings::default(), ..config() })
            .unwrap()
            .contact()
            .entries()
            .all(|(transport, _)| !transport.is_on_trial())
    );
}

#[test]
fn messages_of_all_sizes_go_both_ways() {
    let (a, b) = pair();
    let (to_b, to_a) = couple(&a, &b);
    let sizes = (3..=22).flat_map(|n| [1 << n, (1 << n) + 1]).filter(|size| *size <= 4 << 20);
    let data: Vec<_> = sizes.map(|size| pattern(size, size as u64)).collect();
    let jobs = swap([(a, to_b), (b, to_a)], &data);
    assert_eq!(jobs[0].node.inspect(|core| core.lanes_had(jobs[0].id(), jobs[1].id())), 1);
    assert_eq!(jobs.iter().map(|j| j.node.drain(LONG)).sum::<usize>(), 0);
}

#[test]
fn a_lane_that_is_cut_comes_again() {
    let (a, b) = pair();
    let (to_b, to_a) = couple(&a, &b);
    let exchange = |seed: u64| {
        for (from, to, way, back) in [(&a, &b, to_b, to_a), (&b, &a, to_a, to_b)] {
            let data = pattern(300_000, seed);
            let mut space = vec![0; data.len()];
            let (send, recv) = (from.send(way, 1, &data), to.recv(back, 1, &mut space));
            assert_eq!(to.wait(recv), got(data.len(), 1));
            assert_eq!(from.wait(send), Outcome::Sent);
            assert!(space == data);
        }
    };
    exchange(1);
    for n in 0..10 {
        // By either side, with nothing under way.
        let (one, other) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let had = one.node.inspect(|core| core.lanes_had(one.id(), other.id()));
        assert!(one.node.inspect(|core| core.cut(one.id(), other.id())), "cut {n}");
        exchange(n);
        assert!(one.node.inspect(|core| core.lanes_had(one.id(), other.id())) > had, "cut {n}");
    }
}

#[test]
fn cut_at_random_times_with_nothing_lost() {
    let (a, b) = pair();
    let (to_b, to_a) = couple(&a, &b);
    let mut rng = Rng(121);
    let size = |rng: &mut Rng| {
        let most = if rng.roll(20) == 0 { 4 << 20 } else { 30_000 };
        8 + rng.roll(most) as usize
    };
    let data: Vec<_> = (0..400).map(|i| pattern(size(&mut rng), i)).collect();
    swap_while_cut([(a, to_b), (b, to_a)], &data, 21);
}

#[test]
fn a_death_is_told() {
    let (a, b) = pair();
    let (to_b, to_a) = couple(&a, &b);
    let mut space = vec![0; 8];
    let (send, recv) = (a.send(to_b, 1, &[7; 8]), b.recv(to_a, 1, &mut space));
    assert_eq!(b.wait(recv), got(8, 1));
    a.wait(send);
    let there = b.node.open_control(b.id(), a.id(), a.group.cookie, &a.node.contact());
    let recv = b.recv(to_a, 2, &mut space);
    a.node.kill();
    assert_eq!(b.wait_for(recv, LONG), Some(Outcome::Failed(Fault::PeerDead)));
    let deadline = Some(Instant::now() + LONG);
    let gone = b.node.wait_until(&mut || false, |core| core.path_gone(there), deadline);
    assert_eq!(gone, Some(Gone::Dead));
}
