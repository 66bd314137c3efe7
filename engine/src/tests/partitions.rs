//! Partitioned sends: only what is ready leaves, and all of it arrives.

use super::*;
use crate::{partitioned_tag, user_tag};

const TAG: i64 = partitioned_tag(5, 0);

fn post(b: &mut Side, capacity: usize) -> OpId {
    b.recv(Source::Rank(0), Tag::Is(TAG), capacity)
}

/// A send of `count` partitions of 10 bytes.
fn start(a: &mut Side, count: u32) -> OpId {
    let data: Vec<u8> = (0..10 * count).map(|i| i as u8).collect();
    a.send(TAG, &data, Mode::Partitioned(count))
}

fn ready(a: &mut Side, op: OpId, runs: &[(u32, u32)]) -> bool {
    a.engine.ready(&a.mem, op, runs)
}

#[test]
fn tags_of_its_own_that_give_the_users_back() {
    let mut seen = std::collections::BTreeSet::new();
    for tag in [0, 1, 77, i32::MAX as u32] {
        for count in [0, 1, 2, i32::MAX as u32] {
            let own = partitioned_tag(tag, count);
            assert!(own < -256 && seen.insert(own));
            assert_eq!(user_tag(own), i64::from(tag));
        }
    }
    assert!([0, 5, -1, -256].iter().all(|t| user_tag(*t) == *t));
}

#[test]
fn what_is_ready_leaves_and_nothing_else() {
    let (mut a, mut b) = pair(small());
    let s = start(&mut a, 6);
    assert!(ready(&mut a, s, &[(4, 5)]));
    let r = post(&mut b, 60);
    settle(&mut a, &mut b);
    let here = |b: &Side| -> Vec<bool> { (0..6).map(|i| b.engine.has_arrived(r, 10 * i, 10)).collect() };
    assert_eq!(here(&b), [false, false, false, false, true, false]);
    assert_eq!(b.data(r)[..40], [0; 40]);
    // The receiver's partitions have 15 bytes each, unlike the sender's.
    assert!(ready(&mut a, s, &[(0, 1), (2, 3)]));
    settle(&mut a, &mut b);
    assert!(!b.engine.has_arrived(r, 0, 15));
    assert!(ready(&mut a, s, &[(1, 2)]));
    settle(&mut a, &mut b);
    assert!(b.engine.has_arrived(r, 0, 15) && b.engine.has_arrived(r, 15, 15) && !b.engine.has_arrived(r, 30, 15));
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (None, None));
    // Partitions that are ready already or do not exist change nothing.
    for wrong in [(1, 2), (0, 6), (3, 7), (6, 7), (2, 4)] {
        assert!(!ready(&mut a, s, &[wrong]));
    }
    assert!(!ready(&mut a, s, &[(3, 4), (3, 4)]) && !ready(&mut a, OpId(99), &[(3, 4)]));
    let plain = a.send(1, &[1; 40], Mode::Standard);
    assert!(!ready(&mut a, plain, &[(0, 1)]));
    assert!(!a.engine.all_ready(s));
    assert!(ready(&mut a, s, &[(3, 4), (5, 6)]) && a.engine.all_ready(s));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(TAG, 60)));
    assert_eq!(b.data(r), &a.mem.0[&s.0][..]);
}

#[test]
fn small_ones_are_never_eager_and_empty_ones_come_last() {
    let (mut a, mut b) = pair(small());
    let s = a.send(TAG, &[9; 4], Mode::Partitioned(4));
    let r = post(&mut b, 4);
    settle(&mut a, &mut b);
    assert_eq!((b.data(r), b.engine.outcome(r)), (&[0; 4][..], None));
    assert!(ready(&mut a, s, &[(0, 4)]));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(TAG, 4)));
    // A send without data.
    let s = a.send(TAG, &[], Mode::Partitioned(2));
    let r = post(&mut b, 0);
    assert!(ready(&mut a, s, &[(1, 2)]));
    settle(&mut a, &mut b);
    assert!(!b.engine.has_arrived(r, 0, 0) && !ready(&mut a, s, &[(1, 2)]));
    assert!(ready(&mut a, s, &[(0, 1)]));
    settle(&mut a, &mut b);
    assert!(b.engine.has_arrived(r, 0, 0));
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(TAG, 0)));
    // A send without partitions.
    let (s, r) = (a.send(TAG, &[], Mode::Partitioned(0)), post(&mut b, 0));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.outcome(s), b.engine.outcome(r)), (Some(Outcome::Sent), got(TAG, 0)));
}

#[test]
fn a_send_waits_for_its_partitions_though_nobody_wants_them() {
    for capacity in [0, 25] {
        let (mut a, mut b) = pair(small());
        let (s, r) = (start(&mut a, 4), post(&mut b, capacity));
        assert!(ready(&mut a, s, &[(0, 3)]));
        settle(&mut a, &mut b);
        assert_eq!(b.engine.outcome(r), truncated(TAG, capacity as u64, 40));
        assert_eq!((a.engine.outcome(s), a.engine.awaited(s)), (None, Some(Awaited::Partitions)));
        // The send does not depend on the peer any more.
        assert!(!a.engine.depends_on(a.peer) && a.engine.watching().next().is_none());
        a.engine.on_gone(a.peer, Gone::Finished);
        assert!(ready(&mut a, s, &[(3, 4)]));
        assert_eq!(a.engine.finish(s), Some(Outcome::Sent));
    }
}

#[test]
fn a_death_ends_it_and_partitions_may_still_be_marked() {
    let (mut a, mut b) = pair(small());
    let (s, r) = (start(&mut a, 4), post(&mut b, 40));
    assert!(ready(&mut a, s, &[(0, 1)]));
    settle(&mut a, &mut b);
    a.engine.on_gone(a.peer, Gone::Dead);
    b.engine.on_gone(b.peer, Gone::Dead);
    assert_eq!(a.engine.outcome(s), failed(Fault::PeerDead));
    assert!(ready(&mut a, s, &[(1, 4)]));
    assert!(b.engine.has_arrived(r, 30, 10));
    assert_eq!((a.engine.finish(s), b.engine.finish(r)), (failed(Fault::PeerDead), failed(Fault::PeerDead)));
}

#[test]
fn a_lost_lane_asks_for_what_is_not_ready_too() {
    let (mut a, mut b) = pair(small());
    let (s, r) = (start(&mut a, 5), post(&mut b, 50));
    settle(&mut a, &mut b);
    assert!(ready(&mut a, s, &[(1, 2), (3, 4)]));
    a.collect();
    a.wire.remove(1);
    settle(&mut a, &mut b);
    assert!(!(b.engine.has_arrived(r, 10, 10) && b.engine.has_arrived(r, 30, 10)));
    for _ in 0..3 {
        b.engine.on_lane_lost(b.peer);
    }
    settle(&mut a, &mut b);
    assert!(b.engine.has_arrived(r, 10, 10) && b.engine.has_arrived(r, 30, 10) && !b.engine.has_arrived(r, 0, 10));
    assert!(ready(&mut a, s, &[(0, 1), (2, 3), (4, 5)]));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(TAG, 50)));
    assert_eq!(b.data(r), &a.mem.0[&s.0][..]);
}

/// Every other partition is ready first. These are more pieces than a receiver keeps apart.
#[test]
fn very_many_partitions_leave_in_groups() {
    let (mut a, mut b) = pair(Config { chunk: 1 << 18, ..Config::default() });
    const COUNT: u32 = 100_000;
    let data: Vec<u8> = (0..COUNT).map(|i| (i % 251) as u8).collect();
    let (s, r) = (a.send(TAG, &data, Mode::Partitioned(COUNT)), post(&mut b, COUNT as usize));
    settle(&mut a, &mut b);
    for first in [0, 1] {
        for i in (first..COUNT).step_by(2) {
            assert!(ready(&mut a, s, &[(i, i + 1)]));
        }
        settle(&mut a, &mut b);
    }
    assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(TAG, COUNT.into())));
    assert_eq!(b.data(r), &data[..]);
    // The most partitions that leave one by one.
    const FEW: u32 = 16 << 10;
    let (s, r) = (a.send(TAG, &data[..FEW as usize], Mode::Partitioned(FEW)), post(&mut b, FEW as usize));
    for i in (0..FEW).step_by(2) {
        assert!(ready(&mut a, s, &[(i, i + 1)]));
    }
    settle(&mut a, &mut b);
    assert!((0..FEW).all(|i| b.engine.has_arrived(r, i.into(), 1) == i.is_multiple_of(2)));
    let odd: Vec<_> = (1..FEW).step_by(2).map(|i| (i, i + 1)).collect();
    assert!(ready(&mut a, s, &odd));
    settle(&mut a, &mut b);
    assert_eq!((a.engine.finish(s), b.engine.finish(r)), (Some(Outcome::Sent), got(TAG, FEW.into())));
}

/// The receiver closes the inter-communicator.
#[test]
fn closed_there() {
    let (mut a, mut b) = pair(small());
    let s = start(&mut a, 2);
    b.engine.close(b.ctx);
    settle(&mut a, &mut b);
    assert_eq!(a.engine.finish(s), failed(Fault::Revoked));
}
