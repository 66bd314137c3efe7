//! The algorithms of shared memory under a model checker (loom), which tries all interleavings of two or three threads and all
//! reorderings of their reads and writes that the memory model permits.
//!
//! Each model is small: a few messages through a few slots. Memory whose fences do nothing shows that the checker finds a
//! missing fence.

use super::doorbells;
use super::ring::{Consumer, Frame, InParts, Plan, Popped, Producer};
use crate::memory::modelled::{Modelled, check};
use base::protocol::frame::MSG;
use base::protocol::shared::{PART, SLOT};
use loom::sync::{Arc, Notify};
use loom::thread;

/// The word by which the receiver of a lane says that it polls.
const DIRECT: usize = 8;

/// Slots begin with a line, as in a lane's memory.
const SLOTS_AT: usize = 64;
/// A body that is longer than its slot.
const LONG: usize = SLOT;
/// The bytes of the payload ring: one long body, with what is before it.
const ROOM: usize = LONG + 64;

/// A direction of this number of slots, one of them spare, with room for one long body.
fn plan(slots: u64) -> Plan {
    in_parts_of(LONG, slots)
}

fn in_parts_of(bytes: usize, slots: u64) -> Plan {
    let parts = InParts { bytes, least: 3, most: 4 * bytes };
    let rings_at = SLOTS_AT + SLOT * slots as usize;
    Plan {
        index: 0,
        // Beside one direction alone there are none.
        returned: DIRECT,
        returns: DIRECT,
        slots_at: SLOTS_AT,
        slots,
        rings_at,
        data_at: rings_at,
        data: ROOM,
        low: ROOM,
        far: parts,
        near: parts,
    }
}

fn new_lane(slots: u64, fences: bool) -> Arc<Modelled> {
    Modelled::new(SLOTS_AT + SLOT * slots as usize + ROOM, fences)
}

fn push(producer: &mut Producer, lane: &Modelled, i: u8, len: usize) -> bool {
    let frame = (Frame { tag: MSG, fields: [u64::from(i), 0] }, 1);
    producer.push(lane, frame, len, |_| None, |_: usize, to: &mut [u8]| to.fill(i))
}

fn pop(consumer: &mut Consumer, lane: &Modelled) -> Popped<(u64, Vec<u8>)> {
    let none = |_| panic!("nothing is returned");
    consumer.pop(lane, none, |frame, body| Ok((frame.fields[0], body.to_vec()))).expect("nothing is malformed")
}

/// Frames come out as they went in, also when slots and the payload ring are used again.
#[test]
fn bodies_are_whole_and_in_order() {
    check(4, || {
        let lane = new_lane(2, true);
        let there = lane.clone();
        const LENGTHS: [usize; 4] = [LONG, 3, LONG, 0];
        let sender = thread::spawn(move || {
            let mut producer = Producer::new(plan(2));
            for (i, len) in (1..).zip(LENGTHS) {
                while !push(&mut producer, &there, i, len) {
                    // The consumer may keep the last body's piece.
                    producer.ask(&*there);
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
        assert!(!matches!(pop(&mut consumer, &lane), Popped::Frame(_)));
        sender.join().expect("the sender ends");
    });
}

/// So do data that lie in the lines of a slot.
#[test]
fn data_in_a_slot_are_whole() {
    check(3, || {
        const LEN: usize = 150;
        let lane = new_lane(2, true);
        let there = lane.clone();
        let sender = thread::spawn(move || {
            let mut producer = Producer::new(plan(2));
            for i in 1..4 {
                let fill = |_: usize, to: &mut [u8]| to.fill(i);
                while !producer.push(&*there, (Frame::new(MSG), 0), LEN, |_| None, fill) {
                    thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(plan(2));
        let mut next = 1;
        while next < 4 {
            match pop(&mut consumer, &lane) {
                Popped::Frame((_, body)) => {
                    assert_eq!(body, [next; LEN]);
                    next += 1;
                }
                _ => thread::yield_now(),
            }
        }
        sender.join().expect("the sender ends");
    });
}

/// What is announced of a body before it is whole stays as it is, also when its slots and its place are used again.
#[test]
fn parts_are_there_when_they_are_announced() {
    check(3, || {
        let plan = || in_parts_of(LONG / 3, 4);
        let lane = new_lane(4, true);
        let there = lane.clone();
        let sender = thread::spawn(move || {
            let mut producer = Producer::new(plan());
            for i in 1..3 {
                while !push(&mut producer, &there, i, LONG - usize::from(i)) {
                    producer.ask(&*there);
                    thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(plan());
        let mut next = 1;
        while next < 3 {
            let popped = consumer.pop(
                &*lane,
                |_| Ok(()),
                |frame, body| {
                    assert!(body.iter().all(|b| u64::from(*b) == next));
                    let whole = LONG as u64 - next;
                    if frame.tag == PART {
                        assert!(frame.fields[0] == whole && (body.len() as u64) < whole);
                    } else {
                        assert!(frame.fields[0] == next && body.len() as u64 == whole);
                        next += 1;
                    }
                    Ok(())
                },
            );
            if popped == Ok(Popped::Nothing) {
                thread::yield_now();
            }
        }
        sender.join().expect("the sender ends");
    });
}

/// One end of a lane of both directions.
struct End {
    producer: Producer,
    consumer: Consumer,
    lane: Arc<Modelled>,
}

impl End {
    /// Both ends of a lane with so many slots, and with so much room for bodies, in each direction.
    fn pair(slots: u64, room: usize) -> [End; 2] {
        let bytes = SLOT * slots as usize;
        let lane = Modelled::new(SLOTS_AT + 2 * (bytes + room), true);
        let plan = |direction: usize| Plan {
            index: 16 * direction,
            returned: 8 + 16 * direction,
            returns: 8 + 16 * (1 - direction),
            slots_at: SLOTS_AT + bytes * direction,
            rings_at: SLOTS_AT + 2 * bytes,
            data_at: SLOTS_AT + 2 * bytes + room * direction,
            data: room,
            low: room,
            ..plan(slots)
        };
        [0, 1].map(|n| End {
            producer: Producer::new(plan(n)),
            consumer: Consumer::new(plan(1 - n)),
            lane: lane.clone(),
        })
    }

    fn send(&mut self, i: u8, len: usize) {
        let frame = (Frame { tag: MSG, fields: [u64::from(i), 0] }, 1);
        let fill = |_: usize, to: &mut [u8]| to.fill(i);
        while !self.producer.push(&*self.lane, frame, len, |units| self.consumer.give_up(units), fill) {
            self.producer.ask(&*self.lane);
            thread::yield_now();
        }
    }

    fn receive(&mut self, i: u8, len: usize) {
        loop {
            let back = |start| self.producer.take_back(&*self.lane, start);
            let popped = self.consumer.pop(&*self.lane, back, |frame, body| {
                assert_eq!((frame.fields[0], body), (i.into(), &vec![i; len][..]));
                Ok(())
            });
            match popped.expect("nothing is malformed") {
                Popped::Frame(()) => return,
                _ => thread::yield_now(),
            }
        }
    }
}

/// An answer goes where the message was, and the next message there again.
#[test]
fn a_piece_goes_to_and_fro() {
    check(3, || {
        let [mut here, mut there] = End::pair(4, ROOM);
        let other = thread::spawn(move || {
            there.receive(1, LONG);
            there.send(2, LONG);
            there.receive(3, LONG);
        });
        here.send(1, LONG);
        here.receive(2, LONG);
        here.send(3, LONG);
        other.join().expect("the other side ends");
    });
}

/// A piece that is on its way back is left alone, although its slot is consumed and the consumer keeps another one.
#[test]
fn a_piece_on_its_way_back_is_not_used() {
    check(3, || {
        let [mut here, mut there] = End::pair(4, 2 * ROOM);
        let other = thread::spawn(move || {
            there.receive(1, LONG);
            there.send(2, LONG);
            there.receive(3, LONG);
            there.receive(4, LONG);
        });
        here.send(1, LONG);
        here.send(3, LONG);
        // There is no room for this one but in the piece of the first, in which the answer lies.
        here.producer.ask(&*here.lane);
        let frame = (Frame { tag: MSG, fields: [4, 0] }, 1);
        let pushed = here.producer.push(&*here.lane, frame, LONG, |_| None, |_: usize, to: &mut [u8]| to.fill(4));
        here.receive(2, LONG);
        if !pushed {
            here.send(4, LONG);
        }
        other.join().expect("the other side ends");
    });
}

/// A process that sleeps: its doorbell bitmap and its eventfd.
#[derive(Clone)]
struct Process {
    doorbells: Arc<Modelled>,
    eventfd: Arc<Notify>,
    /// Its fences serve the senders too.
    light: bool,
}

impl Process {
    fn new(fences: bool, light: bool) -> Process {
        Process { doorbells: Modelled::new(doorbells::END, fences), eventfd: Arc::new(Notify::new()), light }
    }

    /// Rings for a frame that was published.
    fn tell(&self, bit: u32, lane: &Modelled) {
        if doorbells::ring(&*self.doorbells, bit, lane, DIRECT, self.light) {
            self.eventfd.notify();
        }
    }

    fn was_told(&self, bit: u32) -> bool {
        let mut told = false;
        doorbells::take(&*self.doorbells, |b| told |= b == bit);
        told
    }

    /// Sleeps if nothing is there. If it is never woken, the checker reports a deadlock.
    fn sleep_unless(&self, something: impl FnOnce() -> bool) {
        doorbells::arm(&*self.doorbells);
        if !something() && !doorbells::any(&*self.doorbells) {
            self.eventfd.wait();
        }
    }
}

/// Two messages to a receiver that sleeps until they come. It polls the lane (`direct`), or looks at it only when its bit is
/// set.
fn to_a_sleeper(direct: bool, fences: bool, light: bool) {
    check(4, move || {
        let (lane, receiver) = (new_lane(4, fences), Process::new(fences, light));
        let mut consumer = Consumer::new(plan(4));
        if direct {
            doorbells::set_direct(&*lane, DIRECT, true);
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

/// A receiver that polls one lane and is rung for another.
#[test]
fn of_two_who_send_neither_is_missed() {
    check(3, || {
        let receiver = Process::new(true, true);
        let lanes = [new_lane(2, true), new_lane(2, true)];
        doorbells::set_direct(&*lanes[0], DIRECT, true);
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

/// A receiver that stops polling looks once more, and is rung for what comes later.
fn a_changed_mind(fences: bool, light: bool) {
    check(4, move || {
        let (lane, receiver) = (new_lane(2, fences), Process::new(fences, light));
        doorbells::set_direct(&*lane, DIRECT, true);
        let (there, to) = (lane.clone(), receiver.clone());
        let sender = thread::spawn(move || {
            assert!(push(&mut Producer::new(plan(2)), &there, 1, 3));
            to.tell(7, &there);
        });
        let mut consumer = Consumer::new(plan(2));
        doorbells::set_direct(&*lane, DIRECT, false);
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

/// A sender sleeps when there is no room, and the receiver when it has read all.
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
        // The sender does not poll the lane from the receiver.
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
