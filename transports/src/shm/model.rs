//! The algorithms of shared memory in all orders in which two or three threads can run, and with all that a processor may
//! do to the order of their reads and writes: by a model checker, over memory of its kind.
//!
//! Each model is small: a few messages through a few slots. That the checker finds what it is to find is tested with
//! memory whose fences do nothing.

use super::board;
use super::ground::Ground;
use super::ring::{Consumer, Frame, Plan, Popped, Producer};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Notify};
use loom::thread;

/// Every word is one for atomics, and one for bytes: accesses of the latter kind at the same time are found out.
struct Modelled {
    words: Vec<AtomicU64>,
    bytes: Vec<UnsafeCell<[u8; 8]>>,
    fences: bool,
}

// SAFETY: the checker sees every access to the cells, and ends the test at one that is not alone.
unsafe impl Sync for Modelled {}
// SAFETY: as above.
unsafe impl Send for Modelled {}

impl Modelled {
    fn new(len: usize, fences: bool) -> Arc<Modelled> {
        let words = (0..len / 8).map(|_| AtomicU64::new(0)).collect();
        let bytes = (0..len / 8).map(|_| UnsafeCell::new([0; 8])).collect();
        Arc::new(Modelled { words, bytes, fences })
    }
}

impl Ground for Modelled {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.words[at / 8].load(order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.words[at / 8].store(value, order);
    }

    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.words[at / 8].swap(value, order)
    }

    fn or_fenced(&self, at: usize, bits: u64) {
        self.words[at / 8].fetch_or(bits, Ordering::AcqRel);
        self.fence();
    }

    fn fence(&self) {
        if self.fences {
            fence(Ordering::SeqCst);
        }
    }

    fn fence_everywhere(&self) {
        self.fence();
    }

    // That the other side's reaches here comes to one of our own: the checker knows no other.
    fn light_fence(&self) {
        self.fence();
    }

    unsafe fn read<R>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut all = Vec::new();
        for cell in &self.bytes[at / 8..(at + len).div_ceil(8)] {
            // SAFETY: the checker makes sure that nobody writes.
            cell.with(|p| all.extend_from_slice(unsafe { &*p }));
        }
        f(&all[at % 8..][..len])
    }

    unsafe fn write<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(at.is_multiple_of(8), "bodies begin at words");
        let mut all = vec![0; len];
        let out = f(&mut all);
        for (cell, part) in self.bytes[at / 8..].iter().zip(all.chunks(8)) {
            // SAFETY: the checker makes sure that nobody else touches it.
            cell.with_mut(|p| unsafe { (&mut *p)[..part.len()].copy_from_slice(part) });
        }
        out
    }
}

/// Where the receiver of a lane says that it looks by itself.
const DIRECT: usize = 8;

/// So many slots, of which one is the spare, and room for one long body.
fn plan(slots: u64) -> Plan {
    Plan { index: 0, slots_at: 16, slots, data_at: 16 + 64 * slots as usize, data: 128, low: 128 }
}

fn new_lane(slots: u64, fences: bool) -> Arc<Modelled> {
    Modelled::new(16 + 64 * slots as usize + 128, fences)
}

/// In all orders in which a thread that could go on is interrupted at most so many times.
fn check(interrupted: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interrupted);
    builder.check(model);
}

fn push(producer: &mut Producer, lane: &Modelled, i: u8, len: usize) -> bool {
    producer.push(lane, Frame { tag: 1, fields: [u64::from(i), 0] }, 1, len, |to| to.fill(i))
}

fn pop(consumer: &mut Consumer, lane: &Modelled) -> Popped<(u64, Vec<u8>)> {
    consumer.pop(lane, |frame, body| Ok((frame.fields[0], body.to_vec()))).expect("nothing is malformed")
}

/// What goes in comes out, also where slots and room are used again.
#[test]
fn bodies_are_whole_and_in_order() {
    check(4, || {
        let lane = new_lane(2, true);
        let there = lane.clone();
        const LENGTHS: [usize; 4] = [100, 3, 100, 0];
        let sender = thread::spawn(move || {
            let mut producer = Producer::new(plan(2));
            for (i, len) in (1..).zip(LENGTHS) {
                while !push(&mut producer, &there, i, len) {
                    thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(plan(2));
        for (i, len) in (1..).zip(LENGTHS) {
            loop {
                match pop(&mut consumer, &lane) {
                    Popped::Frame(got) => {
                        assert_eq!(got, (u64::from(i), vec![i; len]));
                        break;
                    }
                    _ => thread::yield_now(),
                }
            }
        }
        assert_eq!(pop(&mut consumer, &lane), Popped::Nothing);
        sender.join().expect("the sender ends");
    });
}

/// A process that sleeps: its board, and what wakes it.
#[derive(Clone)]
struct Process {
    board: Arc<Modelled>,
    bell: Arc<Notify>,
    /// Its fences are the senders' too.
    light: bool,
}

impl Process {
    fn new(fences: bool, light: bool) -> Process {
        Process { board: Modelled::new(board::END, fences), bell: Arc::new(Notify::new()), light }
    }

    /// Tells this process that something was published.
    fn tell(&self, bit: u32, lane: &Modelled) {
        if board::ring(&*self.board, bit, lane, DIRECT, self.light) {
            self.bell.notify();
        }
    }

    fn was_told(&self, bit: u32) -> bool {
        let mut told = false;
        board::take(&*self.board, |b| told |= b == bit);
        told
    }

    /// Sleeps if nothing is there: for ever, if nobody wakes it. Then the checker says so.
    fn sleep_unless(&self, something: impl FnOnce() -> bool) {
        board::doze(&*self.board);
        if !something() && !board::any(&*self.board) {
            self.bell.wait();
        }
    }
}

/// Two messages to one who sleeps until they come, and does not look where it was not told to.
fn to_a_sleeper(direct: bool, fences: bool, light: bool) {
    check(4, move || {
        let (lane, receiver) = (new_lane(4, fences), Process::new(fences, light));
        let mut consumer = Consumer::new(plan(4));
        if direct {
            board::set_direct(&*lane, DIRECT, true);
        }
        let (there, to) = (lane.clone(), receiver.clone());
        let sender = thread::spawn(move || {
            let mut producer = Producer::new(plan(4));
            for i in 0..2 {
                assert!(push(&mut producer, &there, i, 3));
                to.tell(7, &there);
            }
        });
        let mut next = 0;
        while next < 2 {
            if direct || receiver.was_told(7) {
                while let Popped::Frame(got) = pop(&mut consumer, &lane) {
                    assert_eq!(got, (u64::from(next), vec![next; 3]));
                    next += 1;
                }
            }
            if next < 2 {
                receiver.sleep_unless(|| direct && consumer.has_input(&*lane));
            }
        }
        sender.join().expect("the sender ends");
    });
}

#[test]
fn one_who_looks_by_itself_is_woken() {
    [false, true].into_iter().for_each(|light| to_a_sleeper(true, true, light));
}

#[test]
fn one_who_must_be_told_is_woken() {
    [false, true].into_iter().for_each(|light| to_a_sleeper(false, true, light));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_one_who_looks_by_itself_sleeps_on() {
    to_a_sleeper(true, false, false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_one_who_must_be_told_sleeps_on() {
    to_a_sleeper(false, false, false);
}

/// One who looks by itself at one lane and is told of another.
#[test]
fn of_two_who_send_neither_is_missed() {
    check(3, || {
        let receiver = Process::new(true, true);
        let lanes = [new_lane(2, true), new_lane(2, true)];
        board::set_direct(&*lanes[0], DIRECT, true);
        let senders = [0, 1].map(|n: u8| {
            let (lane, to) = (lanes[n as usize].clone(), receiver.clone());
            thread::spawn(move || {
                assert!(push(&mut Producer::new(plan(2)), &lane, n, 3));
                to.tell(n.into(), &lane);
            })
        });
        let mut consumers = [Consumer::new(plan(2)), Consumer::new(plan(2))];
        let mut missing = [true; 2];
        while missing != [false; 2] {
            for (n, may_look) in [(0, true), (1, receiver.was_told(1))] {
                if missing[n] && may_look {
                    missing[n] = pop(&mut consumers[n], &lanes[n]) == Popped::Nothing;
                }
            }
            if missing != [false; 2] {
                receiver.sleep_unless(|| missing[0] && consumers[0].has_input(&*lanes[0]));
            }
        }
        senders.into_iter().for_each(|s| s.join().expect("the sender ends"));
    });
}

/// One who stops looking by itself looks once more, and is told of what comes later.
fn a_changed_mind(fences: bool, light: bool) {
    check(4, move || {
        let (lane, receiver) = (new_lane(2, fences), Process::new(fences, light));
        board::set_direct(&*lane, DIRECT, true);
        let (there, to) = (lane.clone(), receiver.clone());
        let sender = thread::spawn(move || {
            assert!(push(&mut Producer::new(plan(2)), &there, 1, 3));
            to.tell(7, &there);
        });
        let mut consumer = Consumer::new(plan(2));
        board::set_direct(&*lane, DIRECT, false);
        while pop(&mut consumer, &lane) == Popped::Nothing {
            while !receiver.was_told(7) {
                receiver.sleep_unless(|| false);
            }
        }
        sender.join().expect("the sender ends");
    });
}

#[test]
fn a_change_of_mind_misses_nothing() {
    [false, true].into_iter().for_each(|light| a_changed_mind(true, light));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_a_change_of_mind_misses_something() {
    a_changed_mind(false, false);
}

/// A sender without room sleeps, and so does the receiver when it has read all.
#[test]
fn one_without_room_is_told_of_it() {
    check(2, || {
        let (lane, sender, receiver) = (new_lane(2, true), Process::new(true, true), Process::new(true, true));
        const MESSAGES: u8 = 2;
        let (there, own, to) = (lane.clone(), sender.clone(), receiver.clone());
        let sending = thread::spawn(move || {
            let mut producer = Producer::new(plan(2));
            for i in 0..MESSAGES {
                while !push(&mut producer, &there, i, 3) {
                    if producer.ask(&*there) {
                        to.tell(7, &there);
                    }
                    if producer.is_stuck(&*there) {
                        own.sleep_unless(|| !producer.is_stuck(&*there));
                        own.was_told(8);
                    }
                }
                to.tell(7, &there);
            }
        });
        let mut consumer = Consumer::new(plan(2));
        // Nobody looks by itself at what the receiver would send.
        let back = new_lane(2, true);
        let mut next = 0;
        while next < MESSAGES {
            if !receiver.was_told(7) {
                receiver.sleep_unless(|| false);
                continue;
            }
            loop {
                match pop(&mut consumer, &lane) {
                    Popped::Frame((i, _)) => {
                        assert_eq!(i, u64::from(next));
                        next += 1;
                    }
                    Popped::Asked => sender.tell(8, &back),
                    Popped::Nothing => break,
                }
            }
        }
        sending.join().expect("the sender ends");
    });
}
