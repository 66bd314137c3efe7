//! Messages of all sizes and shapes arrive as they were sent.

use crate::common::*;
use node::{ContextId, Envelope, Kind, Layout, Mode, Outcome, Probe, Representation, Shape, Signature, Source, Tag};
use std::time::{Duration, Instant};

fn every_size_both_ways() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let sizes = [
        0,
        1,
        7,
        1000,
        16 << 10,
        (16 << 10) + 1,
        65_536,
        65_537,
        256 << 10,
        (256 << 10) + 1,
        1 << 20,
        (3 << 20) + 5,
        64 << 20,
    ];
    for (tag, size) in (1i64..).zip(sizes) {
        let data = pattern(size, tag as u64);
        for (from, from_inter, to, to_inter) in [(&a, to_b, &b, to_a), (&b, to_a, &a, to_b)] {
            let mut space = vec![0; size];
            let send = from.send(from_inter, tag, &data);
            let recv = to.recv(to_inter, tag, &mut space);
            assert_eq!(to.wait(recv), got(size, tag));
            assert_eq!(from.wait(send), Outcome::Sent);
            assert!(space == data, "{size} bytes");
        }
    }
    assert_eq!((a.node.drain(LONG), b.node.drain(LONG)), (0, 0));
}

/// Large messages to and fro while the sender waits too: some are read by the receiver, others copied by the sender, and each way is tried.
fn large_ones_by_either_way() {
    const ROUNDS: u64 = 40;
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let side = |job: Job, inter, begins: bool| {
        std::thread::spawn(move || {
            let mut space = vec![0; 1 << 20];
            for round in 0..ROUNDS {
                let size = [70_000, 300_001, 1 << 20][round as usize % 3];
                for receives in [begins, !begins] {
                    if receives {
                        assert_eq!(job.wait(job.recv(inter, 1, &mut space[..size])), got(size, 1));
                        assert!(space[..size] == pattern(size, round), "round {round}");
                    } else {
                        assert_eq!(job.wait(job.send(inter, 1, &pattern(size, round))), Outcome::Sent);
                    }
                }
            }
            job
        })
    };
    let sides = [side(a, to_b, false), side(b, to_a, true)].map(|side| side.join().expect("no panic"));
    assert_eq!(sides.iter().map(|job| job.node.drain(LONG)).sum::<usize>(), 0);
}

/// Messages that may go eager are not announced to a process whose program works.
fn whoever_works_is_not_waited_for() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let first = b.recv(to_a, 2, &mut []);
    let data = pattern(100_000, 2);
    // From when there is a lane on.
    assert_eq!(a.wait(a.node.isend(to_b, 0, 2, view(&[]), Mode::Synchronous)), Outcome::Sent);
    // A thread of the library may look for more for a moment.
    let mut sends = Vec::new();
    let is_over = |sends: &mut Vec<_>| {
        sends.push(a.send(to_b, 1, &data));
        a.wait_for(*sends.last().expect("pushed"), Duration::from_secs(1)) == Some(Outcome::Sent)
    };
    assert!((0..8).any(|_| is_over(&mut sends)));
    for _ in 0..sends.len() {
        let mut space = vec![0; data.len()];
        assert_eq!(b.wait(b.recv(to_a, 1, &mut space)), got(data.len(), 1));
        assert!(space == data);
    }
    assert_eq!(b.wait(first), got(0, 2));
}

fn posted_first_and_synchronous() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    for size in [0, 100, 1 << 20] {
        let data = pattern(size, 3);
        let mut space = vec![0; size];
        let recv = b.node.irecv(to_a, Source::Any, Tag::Any, crate::common::space(&mut space));
        let send = a.node.isend(to_b, 0, 5, view(&data), Mode::Synchronous);
        assert_eq!(b.wait(recv), got(size, 5));
        assert_eq!(a.wait(send), Outcome::Sent);
        assert!(space == data);
    }
}

/// So many elements of a type: its pieces (offset, length), and the distance from one element to the next.
fn elements(pieces: &[(isize, usize)], extent: isize, count: usize) -> Shape {
    let one = Shape::list(pieces.iter().map(|(at, len)| Some(Shape::run(*len).moved(*at))));
    one.and_then(|one| one.repeat(count, extent)).expect("a size that fits")
}

fn strided_both_sides() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    // Fine (8 of 24 bytes), coarse (40,000 of 50,000), and one that goes backwards.
    let shapes = [
        elements(&[(0, 8)], 24, 200_000),
        elements(&[(0, 40_000)], 50_000, 100),
        elements(&[(30, 10), (0, 20), (64, 1)], 72, 30_000),
        elements(&[(0, 16)], 16, 5000),
    ];
    for from in &shapes {
        for to in &shapes {
            let mut source = pattern(11_000_000, 9);
            let mut target = vec![0u8; 11_000_000];
            let bytes = from.size();
            if to.size() < bytes {
                continue;
            }
            // SAFETY: both vectors hold all elements and outlive the operations.
            let [there, here] = unsafe {
                [Layout::shaped(source.as_mut_ptr(), from.clone()), Layout::shaped(target.as_mut_ptr(), to.clone())]
            };
            let send = a.node.isend(to_b, 0, 1, there, Mode::Standard);
            let recv = b.node.irecv(to_a, Source::Any, Tag::Any, here);
            assert_eq!(b.wait(recv), got(bytes, 1));
            a.wait(send);
            // Back to a contiguous buffer, through the same shape: what lies behind the message goes too.
            let whole = to.size();
            let mut packed = vec![0; whole];
            // SAFETY: as above; only read.
            let again = unsafe { Layout::shaped(target.as_mut_ptr(), to.clone()) };
            let send = b.node.isend(to_a, 0, 2, again, Mode::Standard);
            let recv = a.recv(to_b, 2, &mut packed);
            assert_eq!(a.wait(recv), got(whole, 2));
            b.wait(send);
            let mut expected = vec![0; bytes];
            // SAFETY: as above.
            let again = unsafe { Layout::shaped(source.as_mut_ptr(), from.clone()) };
            let send = a.node.isend(to_b, 0, 3, again, Mode::Standard);
            let recv = b.recv(to_a, 3, &mut expected);
            b.wait(recv);
            a.wait(send);
            assert!(expected == packed[..bytes]);
        }
    }
}

#[test]
fn a_pattern_is_read_block_by_block() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let mut source: Vec<u8> = (0..240_000u32).map(|i| (i % 251) as u8).collect();
    let count = 30_000;
    let shape = elements(&[(4, 2), (0, 3)], 8, count);
    let mut packed = vec![0; shape.size()];
    // SAFETY: the vector holds all elements and outlives the operation.
    let layout = unsafe { Layout::shaped(source.as_mut_ptr(), shape) };
    let send = a.node.isend(to_b, 0, 1, layout, Mode::Standard);
    let recv = b.recv(to_a, 1, &mut packed);
    b.wait(recv);
    a.wait(send);
    let expected: Vec<u8> = (0..count).flat_map(|e| [4, 5, 0, 1, 2].map(|at| source[e * 8 + at])).collect();
    assert!(packed == expected);
}

fn many_at_once_in_order() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let mut rng = Rng(7);
    let data: Vec<Vec<u8>> = (0..4000).map(|i| pattern(rng.roll(40_000) as usize, i)).collect();
    let threads: Vec<_> = swap([(a, to_b), (b, to_a)], &data)
        .into_iter()
        .map(|job| std::thread::spawn(move || assert_eq!(job.node.drain(LONG), 0)))
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

fn probes_truncation_and_cancel() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(100_000, 1);
    let send = a.send(to_b, 4, &data);
    let found = b.node.wait_until(
        &mut || false,
        |core| match core.probe(to_a, Source::Any, Tag::Any) {
            Probe::Found(e) => Some(e),
            _ => None,
        },
        Some(Instant::now() + LONG),
    );
    assert_eq!(found.unwrap().size, 100_000);
    let mut small = vec![0; 1000];
    let recv = b.recv(to_a, 4, &mut small);
    assert!(matches!(b.wait(recv), Outcome::Truncated { size: 1000, .. }));
    assert!(small == data[..1000]);
    assert_eq!(a.wait(send), Outcome::Sent);
    let never = b.recv(to_a, 99, &mut small);
    assert_eq!(b.node.test(never), None);
    assert!(b.node.cancel(never));
    assert!(!b.node.cancel(never));
    assert_eq!(b.node.test(never), Some(Outcome::Cancelled));
}

fn progress_without_the_receiver_in_a_call() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(8 << 20, 1);
    let mut space = vec![0; 8 << 20];
    let recv = b.recv(to_a, 1, &mut space);
    // From here on only the threads move anything.
    let send = a.send(to_b, 1, &data);
    let start = Instant::now();
    while a.node.peek(send).is_none() || b.node.peek(recv).is_none() {
        assert!(start.elapsed() < LONG);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(b.node.test(recv), Some(got(8 << 20, 1)));
    assert!(space == data);
}

fn a_job_may_speak_with_itself() {
    let a = Job::new();
    let second = node::Group { incarnation: u64::MAX, ..a.group };
    a.node.add_group(second);
    let contacts = vec![a.node.contact()].into();
    let other = node::ProcId { incarnation: u64::MAX, rank: 0 };
    let there = node::RemoteGroup { incarnation: u64::MAX, cookie: a.group.cookie, contacts };
    let (x, y) =
        (a.node.open(a.id(), &there, ContextId::root(1)), a.node.open(other, &a.as_remote(), ContextId::root(1)));
    let data = pattern(1 << 20, 1);
    let mut space = vec![0; 1 << 20];
    let send = a.send(x, 1, &data);
    let recv = a.recv(y, 1, &mut space);
    assert_eq!(a.wait(recv), got(1 << 20, 1));
    assert_eq!(a.wait(send), Outcome::Sent);
    assert!(space == data);
    assert_eq!(a.node.drain(LONG), 0);
}

fn more_than_two_gigabytes() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let size = (2usize << 30) + (100 << 20) + 7;
    // Only samples are written, so that the rest costs no memory on the sending side.
    let mut data = vec![0u8; size];
    let samples: Vec<usize> = (0..size).step_by(1_048_573).chain([size - 1]).collect();
    samples.iter().for_each(|&i| data[i] = at(i as u64, 1) | 1);
    let mut space = vec![0u8; size];
    let start = Instant::now();
    let recv = b.recv(to_a, 1, &mut space);
    let send = a.send(to_b, 1, &data);
    assert_eq!(b.wait(recv), got(size, 1));
    assert_eq!(a.wait(send), Outcome::Sent);
    println!("{size} bytes in {:?}", start.elapsed());
    for &i in &samples {
        assert_eq!(space[i], data[i], "at {i}");
    }
}

/// Numbers of a machine with the other byte order, in room for so many of them, between holes.
fn foreign_room(target: &mut [i64]) -> Layout {
    let big_endian = Representation::from_number(0x0441_4441).unwrap();
    let numbers = Signature::one(Kind::Long).repeat(target.len() / 2).unwrap();
    let places = Shape::run(8).repeat(target.len() / 2, 16).unwrap();
    // SAFETY: the vector holds all elements and outlives the operation.
    let layout = unsafe { Layout::shaped(target.as_mut_ptr().cast(), places) };
    layout.receiving(numbers, big_endian, Representation::from_number(0x2441_4880).unwrap()).unwrap()
}

/// Converted when somebody sees the outcome, once; and when nobody asks for it.
#[test]
#[cfg(target_endian = "little")]
fn foreign_numbers_are_converted_once() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    for count in [5usize, 100_000] {
        let sent: Vec<u8> = (0..count as i32).flat_map(|v| (v - 3).to_be_bytes()).collect();
        let expected: Vec<i64> = (0..count as i64).flat_map(|v| [v - 3, 99]).collect();
        let done = Outcome::Received(Envelope { source: 0, tag: 1, size: 8 * count as u64 });
        for way in ["test", "peek", "forget", "drain"] {
            let mut target = vec![99; 2 * count];
            let recv = b.node.irecv(to_a, Source::Any, Tag::Any, foreign_room(&mut target));
            let send = a.send(to_b, 1, &sent);
            match way {
                "test" => assert_eq!(b.wait(recv), done),
                "peek" => {
                    assert_eq!(b.node.wait_until(&mut || false, |core| core.peek(recv), None), Some(done));
                    assert!(target == expected);
                    // What the program does with it from here on stays.
                    target[0] = 7;
                    assert_eq!((b.node.peek(recv), b.node.test(recv)), (Some(done), Some(done)));
                    assert_eq!(std::mem::replace(&mut target[0], -3), 7);
                }
                "forget" => {
                    b.node.forget(recv);
                    let target = &target;
                    let there = |_: &mut node::Core| (target == &expected).then_some(());
                    assert_eq!(b.node.wait_until(&mut || false, there, Some(Instant::now() + LONG)), Some(()));
                }
                _ if count > 5 => {
                    a.wait(send);
                    assert!(target != expected);
                    assert_eq!(b.node.drain(LONG), 0);
                    assert!(target == expected);
                    return;
                }
                _ => {
                    let over = |core: &mut node::Core| core.has_outcome(recv).then_some(());
                    b.node.wait_until(&mut || false, over, Some(Instant::now() + LONG)).expect("a message");
                    assert!(target != expected, "a small message is converted when its outcome is seen");
                    b.wait(recv);
                }
            }
            assert!(target == expected, "{count} by {way}");
            assert_eq!(a.wait(send), Outcome::Sent);
        }
    }
}

/// Another thread has the lock while a large message is being converted, and finds its receive not yet over.
#[test]
#[cfg(target_endian = "little")]
fn a_large_message_is_converted_without_the_lock() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let count = 4 << 20;
    let sent: Vec<u8> = (0..count as i32).flat_map(|v| (v + 3).to_be_bytes()).collect();
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LONG, "the lock was never free");
        let mut target = vec![0; 2 * count];
        let ends = [target.as_mut_ptr() as usize, &raw mut target[2 * count - 2] as usize];
        // SAFETY: within the vector, which stands until both threads are done; a word is read as one.
        let read = |at: usize| unsafe { (at as *const i64).read_volatile() };
        let recv = b.node.irecv(to_a, Source::Any, Tag::Any, foreign_room(&mut target));
        let send = a.send(to_b, 1, &sent);
        let seen = std::thread::scope(|scope| {
            let looker = scope.spawn(|| {
                let look = || b.node.with(|core| (core.has_outcome(recv), ends.map(read)));
                loop {
                    match look() {
                        (false, [first, last]) if first != 0 && last == 0 => return true,
                        (false, [_, 0]) => (),
                        (false, _) => return false,
                        (true, [_, last]) => {
                            assert_ne!(last, 0, "it is over before it is converted");
                            return false;
                        }
                    }
                }
            });
            let here = |core: &mut node::Core| core.has_outcome(recv).then_some(());
            b.node.wait_until(&mut || false, here, Some(Instant::now() + LONG)).expect("a message");
            looker.join().expect("it has looked")
        });
        assert_eq!(b.wait(recv), Outcome::Received(Envelope { source: 0, tag: 1, size: 8 * count as u64 }));
        assert_eq!(a.wait(send), Outcome::Sent);
        assert!(target.iter().step_by(2).zip(3..).all(|(value, expected)| *value == expected));
        if seen {
            return;
        }
    }
}

/// Small sends that are over at once stay in line with those that wait.
#[test]
fn what_leaves_at_once_overtakes_nothing() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let sizes = [8, 50_000, 8, 0, 16 << 10, 300, 70_000, 1];
    let all: Vec<Vec<u8>> = (0..3000).map(|k| pattern(sizes[k % sizes.len()], k as u64)).collect();
    let mut at_once = 0;
    let sends: Vec<_> = all
        .iter()
        .filter_map(|data| {
            let over = a.node.send_now(to_b, 0, 1, &view(data));
            at_once += usize::from(over);
            (!over).then(|| a.send(to_b, 1, data))
        })
        .collect();
    for data in &all {
        let mut space = vec![0; data.len()];
        let recv = b.recv(to_a, 1, &mut space);
        assert_eq!(b.wait(recv), got(data.len(), 1));
        assert!(&space == data);
    }
    for send in sends {
        assert_eq!(a.wait(send), Outcome::Sent);
    }
    assert!(at_once > 0 && at_once < all.len(), "{at_once}");
}

over_both!(
    every_size_both_ways,
    large_ones_by_either_way,
    whoever_works_is_not_waited_for,
    posted_first_and_synchronous,
    strided_both_sides,
    many_at_once_in_order,
    probes_truncation_and_cancel,
    progress_without_the_receiver_in_a_call,
    a_job_may_speak_with_itself,
    more_than_two_gigabytes,
);
