//! Large groups, of whose records a process asks for those that it needs: all ranks run the session of the library, and what lies
//! between them is memory (`bench/src/scale`).

#[path = "../../bench/src/scale/wire.rs"]
#[allow(dead_code)]
mod wire;
#[path = "../../bench/src/scale/world.rs"]
#[allow(dead_code)]
mod world;

use crate::world::{Begun, World};
use std::time::Duration;

/// Ranks of each job. The tree has three levels.
const HALF: u32 = 600;

/// Both jobs, joined. Of jobs with more ranks than `most_told` the root is told.
fn joined(half: u32, most_told: u32) -> World {
    let mut world = World::with(half, most_told);
    (0..2 * half).for_each(|rank| world.register(rank));
    let context = world.agree().unwrap_or_else(|e| panic!("{e}"));
    // Leaders tell their jobs at which addresses they have reached the other host.
    for job in [0, 1] {
        let other = world.offered(1 - job as usize).clone();
        let proofs = world.act(job * half, |session, _| session.proofs(&other));
        (job * half..(job + 1) * half).for_each(|rank| world.act(rank, |session, _| session.learn(proofs.clone())));
    }
    (0..2 * half).for_each(|rank| world.open(rank, context));
    world.settle();
    world
}

/// Each rank exchanges with the rank of the other job that is so much further. Whether each operation has ended well.
fn exchange(world: &mut World, shift: u32, ranks: impl Iterator<Item = u32>) -> Vec<Result<bool, String>> {
    let half = world.half;
    let mut begun: Vec<Begun> = Vec::new();
    for rank in ranks {
        let other = half + (rank + shift) % half;
        world.exchange(rank, other, &mut begun);
        world.exchange(other, rank, &mut begun);
    }
    // Who is not reached is dialled for as long as it is waited for.
    world.settle_within(Duration::from_secs(200));
    begun.iter().map(|begun| world.end(begun)).collect()
}

fn all_well(ended: &[Result<bool, String>]) -> bool {
    ended.iter().all(|ended| *ended == Ok(true))
}

#[test]
fn ranks_of_large_groups_find_each_other() {
    let mut world = joined(HALF, 0);
    for shift in [0, 1, 77, 301] {
        assert!(all_well(&exchange(&mut world, shift, 0..HALF)), "shift {shift}");
    }
    // The partners, one above in the tree, and those below.
    let most = (0..2 * HALF).map(|rank| world.lanes(rank)).max();
    assert!(most.is_some_and(|most| most <= 4 + 1 + 3 * 15), "{most:?} lanes");
    // Nobody keeps a record that it did not need: no rank has a pair with more than its partners and those in the tree.
    let pairs: usize = (0..2 * HALF).map(|rank| world.pairs(rank)).sum();
    assert!(pairs <= (2 * HALF * (4 + 2)) as usize + 2, "{pairs} pairs");
    (0..2 * HALF).for_each(|rank| world.leave(rank));
    world.settle();
    assert!((1..HALF).any(|rank| world.pairs(rank) > 0), "others may still ask");
    (0..2 * HALF).for_each(|rank| world.finish(rank));
    world.settle();
    assert_eq!((0..2 * HALF).map(|rank| world.pairs(rank)).sum::<usize>(), 0);
}

#[test]
fn small_groups_tell_all_and_nobody_asks() {
    let mut world = joined(40, 40);
    assert!(all_well(&exchange(&mut world, 3, 0..40)));
    // Of the leaders beside: the lane on which they have agreed.
    let lanes: usize = (0..80).map(|rank| world.lanes(rank)).sum();
    assert_eq!(lanes, 80 + 2);
}

#[test]
fn whoever_is_dead_in_the_tree_is_passed_by() {
    let mut world = joined(HALF, 0);
    // All that others ask, but for the leaders: one half before anybody has asked, the others afterwards.
    let inner = |rank: &u32| !rank.is_multiple_of(HALF) && rank.is_multiple_of(16);
    (0..HALF).filter(inner).for_each(|rank| world.kill(rank));
    let lives: Vec<u32> = (0..HALF).filter(|rank| world.lives(*rank)).collect();
    assert!(all_well(&exchange(&mut world, 5, lives.iter().copied())));
    (HALF..2 * HALF).filter(|rank| rank.is_multiple_of(16) && *rank != HALF).for_each(|rank| world.kill(rank));
    let lives: Vec<u32> = lives.into_iter().filter(|rank| world.lives(HALF + (rank + 100) % HALF)).collect();
    assert!(all_well(&exchange(&mut world, 100, lives.into_iter())));
}

#[test]
fn without_the_leaders_nothing_waits_for_ever() {
    let mut world = joined(HALF, 0);
    assert!(all_well(&exchange(&mut world, 0, 0..HALF)));
    world.kill(0);
    world.kill(HALF);
    // Who knows each other goes on; of others it is said that they are gone.
    let others = |ended: Vec<Result<bool, String>>| ended.into_iter().filter(|ended| *ended != Ok(true)).count();
    let ended = exchange(&mut world, 0, 1..HALF);
    assert_eq!(others(ended), 0);
    let ended = exchange(&mut world, 200, (1..HALF).step_by(29).filter(|rank| !(rank + 200).is_multiple_of(HALF)));
    let failed = |ended: &Result<bool, String>| ended.as_ref().err().is_some_and(|e| e.contains("PeerDead"));
    let (well, dead) = (ended.iter().filter(|e| **e == Ok(true)).count(), ended.iter().filter(|e| failed(e)).count());
    assert_eq!(well + dead, ended.len(), "each has ended, well or not: {ended:?}");
    assert!(dead > 0, "nobody could know all");
}

#[test]
fn a_leader_that_has_closed_still_answers() {
    let mut world = joined(HALF, 0);
    for leader in [0, HALF] {
        world.leave(leader);
    }
    world.settle();
    assert!(all_well(&exchange(&mut world, 1, (1..HALF - 1).filter(|rank| *rank != 0))));
}

#[test]
fn all_records_come_if_they_are_needed() {
    let mut world = joined(HALF, 0);
    let whole = world.records(1).clone();
    for rank in [0, 1, 31, 500] {
        let mut all = None;
        for _ in 0..100 {
            all = world.act(rank, |session, _| session.all_records(100, 101));
            if all.is_some() {
                break;
            }
            world.settle();
        }
        assert_eq!(all, Some(Ok(whole.clone())), "rank {rank}");
    }
    world.kill(0);
    world.kill(HALF);
    let mut all = None;
    for _ in 0..100 {
        all = world.act(HALF + 1, |session, _| session.all_records(101, 100));
        if all.is_some() {
            break;
        }
        world.settle();
    }
    assert!(all.is_some_and(|all| all.is_err()), "it is said that nobody knows them");
}
