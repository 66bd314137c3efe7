//! The memory of a process and its router: what comes out, what is refused, and, under a model checker, that no bell is missed.

use super::{Pipe, Plan};
use crate::memory::modelled::{Modelled, check};
use crate::memory::{Segment, SegmentView};
use crate::sim::Rng;
use base::bytes::Malformed;
use base::protocol::router::{PIPES_END, READ, ROOM, WRITTEN};
use loom::sync::Notify;
use loom::thread;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Rooms of two words.
const SMALL: Plan = Plan { words: [0, 384], rooms: [1024, 1040], room: 16 };
const SMALL_END: usize = 1056;

fn put<G: Deref<Target: SegmentView>>(pipe: &mut Pipe<G>, bytes: &[u8]) -> usize {
    pipe.write([bytes].into_iter()).expect("the other side says what makes sense")
}

/// What there is, up to the end of the room.
fn take<G: Deref<Target: SegmentView>>(pipe: &mut Pipe<G>, most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let read = pipe.read(|there| {
        out.extend(there.iter().take(most));
        out.len()
    });
    assert_eq!(read, Ok(out.len()));
    out
}

fn ends(plan: Plan, len: usize) -> (Arc<Segment>, [Pipe<Arc<Segment>>; 2]) {
    let memory = Arc::new(Segment::create(len).unwrap().0);
    let ends = [0, 1].map(|side| Pipe::new(memory.clone(), plan, side));
    (memory, ends)
}

#[test]
fn bytes_come_out_as_they_went_in_both_ways() {
    for (plan, len, most) in [(SMALL, SMALL_END, 20), (Plan::OURS, PIPES_END, 100_000)] {
        let (_memory, mut ends) = ends(plan, len);
        let (mut rng, mut under_way, mut next) = (Rng::new(3), [VecDeque::<u8>::new(), VecDeque::new()], 0u8);
        for _ in 0..3000 {
            let side = rng.below(2) as usize;
            let bytes: Vec<u8> = (0..rng.below(most)).map(|i| next.wrapping_add(i as u8)).collect();
            let (a, b) = bytes.split_at(bytes.len() / 3);
            let n = ends[side].write([a, b].into_iter()).unwrap();
            assert_eq!(n, bytes.len().min(plan.room - under_way[side].len()));
            under_way[side].extend(&bytes[..n]);
            next = next.wrapping_add(n as u8);
            assert_eq!(ends[side].has_room(), under_way[side].len() < plan.room);
            let from = rng.below(2) as usize;
            assert_eq!(ends[1 - from].has_input(), !under_way[from].is_empty());
            let got = take(&mut ends[1 - from], rng.below(most) as usize);
            assert!(under_way[from].drain(..got.len()).eq(got));
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let begun = || {
        let (memory, [mut process, mut router]) = ends(Plan::OURS, PIPES_END);
        assert_eq!((put(&mut process, &[1; 10]), take(&mut router, 4).len()), (10, 4));
        (memory, process, router)
    };
    for written in [3, 4 + ROOM as u64 + 1, u64::MAX] {
        let (memory, _, mut router) = begun();
        memory.store(WRITTEN, written, SeqCst);
        assert_eq!(router.read(<[u8]>::len), Err(Malformed), "{written}");
    }
    let of_router = Plan::OURS.words[1] + READ;
    for read in [11, u64::MAX] {
        let (memory, mut process, _) = begun();
        memory.store(of_router, read, SeqCst);
        assert_eq!(process.write([&[0; ROOM][..]].into_iter()), Err(Malformed), "{read}");
    }
}

fn modelled(fences: bool) -> [Pipe<loom::sync::Arc<Modelled>>; 2] {
    let memory = Modelled::new(SMALL_END, fences);
    [0, 1].map(|side| Pipe::new(memory.clone(), SMALL, side))
}

/// One side sleeps if there is nothing to do. If it is never woken, the checker reports a deadlock.
fn sleep(pipe: &mut Pipe<loom::sync::Arc<Modelled>>, bell: &Notify) {
    pipe.arm();
    // If the other side has seen that it is to ring, it does.
    if !pipe.has_news() || !pipe.disarm() {
        bell.wait();
    }
}

fn to_a_sleeper(fences: bool) {
    check(3, move || {
        let [mut process, mut router] = modelled(fences);
        let bell = loom::sync::Arc::new(Notify::new());
        let rung = bell.clone();
        let sender = thread::spawn(move || {
            for byte in [1, 2] {
                assert_eq!(put(&mut process, &[byte; 8]), 8);
                if process.must_ring() {
                    rung.notify();
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < 16 {
            if !router.has_input() {
                sleep(&mut router, &bell);
            }
            got.extend(take(&mut router, 8));
        }
        assert_eq!(got, [[1; 8], [2; 8]].concat());
        sender.join().expect("the sender ends");
    });
}

#[test]
fn one_who_sleeps_is_woken() {
    to_a_sleeper(true);
}

#[test]
#[should_panic = "deadlock"]
fn without_fences_one_who_sleeps_is_not_woken() {
    to_a_sleeper(false);
}

#[test]
fn one_without_room_is_told_of_it() {
    check(3, || {
        let [mut process, mut router] = modelled(true);
        let bell = loom::sync::Arc::new(Notify::new());
        let rung = bell.clone();
        assert_eq!(put(&mut process, &[1; 16]), 16);
        let reader = thread::spawn(move || {
            let mut got = 0;
            while got < 24 {
                let n = take(&mut router, 8).len();
                if n == 0 {
                    thread::yield_now();
                } else if router.must_ring_for_room() {
                    rung.notify();
                }
                got += n;
            }
        });
        while put(&mut process, &[2; 8]) == 0 {
            process.wait_for_room(true);
            sleep(&mut process, &bell);
        }
        reader.join().expect("the reader ends");
    });
}
