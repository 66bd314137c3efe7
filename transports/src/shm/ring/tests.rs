//! How producer and consumer act in one thread; `model` tries all interleavings of two.

use super::producer::{BACK, VAST};
use super::*;
use crate::conformance::memory::is_asked_once;
use crate::memory::Segment;
use base::protocol::frame::BULK;
use std::sync::atomic::Ordering::{Acquire, Release};

const PLAN: Plan = Plan {
    index: 0,
    returned: 8,
    returns: 24,
    slots_at: 1024,
    slots: 8,
    rings_at: 8192,
    data_at: 8192,
    data: 4096,
    low: 1024,
    far: PARTS_OF_256,
    near: PARTS_OF_256,
};
const PARTS_OF_256: InParts = InParts { bytes: 256, least: 3, most: 1024 };

/// The bytes of a slot beside its word.
const BODY: usize = SLOT - WORD;

/// The other direction.
const BACK_PLAN: Plan = Plan { index: 16, returned: 24, returns: 8, slots_at: 4096, data_at: 12_288, ..PLAN };

fn memory() -> Segment {
    Segment::create(16_384).unwrap().0
}

/// No piece is kept for what is pushed, and none is expected back.
fn none(_: u32) -> Option<u32> {
    None
}

fn no_piece(_: u32) -> Result<(), Malformed> {
    panic!("nothing is returned")
}

#[test]
fn nonsense_in_a_slot_is_refused() {
    let good = |len: u64| len | 7 << TAG | 1 << LAP;
    let message = |len: usize| len as u64 | u64::from(MSG) << TAG | 1 << LAP;
    let cases = [
        (message(SLOT - LEAD), true),
        (message(SLOT - LEAD + 1), false),
        (good(BODY as u64 + 1), false),
        (good(BODY as u64), true),
        (good((BODY - WORD) as u64 + 1) | 1 << FIELDS, false),
        (good(8) | 3 << FIELDS, false),
        (good(4097) | 1 << FAR, false),
        (good(4096) | 1 << FAR, true),
        (good(4096) | 1 << FAR | 1 << START, false),
        (good(1) | 1 << FAR | 0xffff << START, false),
        (good(0) | 1 << FAR | 0xffff << START, false),
        (good((1 << LEN_BITS) - 1) | 1 << FAR | 0xffff << START, false),
    ];
    for (word, fine) in cases {
        let memory = memory();
        let mut consumer = Consumer::new(PLAN);
        memory.store(PLAN.slots_at, word, Release);
        assert!(consumer.has_input(&memory));
        let got = consumer.pop(&memory, no_piece, |frame, body| Ok((frame.tag, body.len())));
        let expected = Ok(Popped::Frame(((word >> TAG) as u8, (word & 0x1f_ffff) as usize)));
        assert_eq!(got, if fine { expected } else { Err(Malformed) }, "{word:x}");
    }
}

#[test]
fn another_lap_is_not_there() {
    for lap in [0, 2, 0xffff] {
        let memory = memory();
        memory.store(PLAN.slots_at, 1 | lap << LAP, Release);
        assert_eq!(Consumer::new(PLAN).pop(&memory, no_piece, |_, _| Ok(())), Ok(Popped::Nothing));
    }
}

#[test]
fn one_who_counts_nonsense_is_not_believed() {
    let memory = memory();
    let mut producer = Producer::new(PLAN);
    let mut push = || producer.push(&memory, (Frame::new(1), 0), 1, none, |_: usize, _: &mut [u8]| ());
    (0..7).for_each(|_| assert!(push()));
    assert!(!push());
    memory.store(PLAN.index, 8, Release);
    assert!(!push());
    memory.store(PLAN.index, 1, Release);
    assert!(push());
    memory.store(PLAN.index, 0, Release);
    assert!(!push());
}

#[test]
fn the_question_finds_a_slot_and_is_asked_once() {
    let memory = memory();
    let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
    let mut laps = 0;
    // The number of the lap wraps around meanwhile.
    while laps < 480_000 {
        while producer.push(&memory, (Frame { tag: 3, fields: [laps, 5] }, 2), BODY, none, |_: usize, to: &mut [u8]| {
            to.fill(laps as u8)
        }) {
            laps += 1;
        }
        assert!(producer.is_stuck(&memory));
        assert!(producer.ask(&memory) && !producer.ask(&memory));
        let first = consumer.pop(&memory, no_piece, |frame, body| Ok((*frame, body.to_vec()))).unwrap();
        let frame = Frame { tag: 3, fields: [laps - 7, 5] };
        assert_eq!(first, Popped::Frame((frame, vec![(laps - 7) as u8; BODY])));
        assert!(!producer.is_stuck(&memory));
        while consumer.pop(&memory, no_piece, |_, _| Ok(())) == Ok(Popped::Frame(())) {}
        assert!(!consumer.has_input(&memory));
    }
}

/// The data of a message begin with a line, behind its head.
#[test]
fn a_body_lies_in_its_slot_if_there_is_room() {
    for tag in [MSG, MSG | ACK_NOW, 7] {
        let memory = memory();
        let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
        for len in 0..400 {
            let slot = PLAN.slot(len as u64);
            let mut asked = Vec::new();
            assert!(producer.push(&memory, (Frame::new(tag), 0), len, none, |at: usize, to: &mut [u8]| {
                asked.push(at..at + to.len());
                to.iter_mut().enumerate().for_each(|(n, byte)| *byte = (at + n) as u8);
            }));
            assert!(is_asked_once(&asked, len), "{asked:?}");
            let word = memory.load(slot, Acquire);
            let at = open(&memory, &PLAN, slot, word, &mut Frame::of(word)).unwrap().start;
            let begins = match (tag & !ACK_NOW, len) {
                (MSG, 295..) | (_, 313..) => None,
                (MSG, 57..) => Some(26),
                _ => Some(8),
            };
            assert_eq!(at.checked_sub(slot).filter(|_| at < PLAN.rings_at), begins, "{tag} {len}");
            let is_whole = |bytes: &[u8]| bytes.iter().enumerate().all(|(n, byte)| *byte == n as u8);
            let popped = consumer.pop(&memory, no_piece, |_, body| Ok(is_whole(body) && body.len() == len));
            assert_eq!(popped, Ok(Popped::Frame(true)));
        }
    }
}

#[test]
fn a_long_body_is_announced_in_parts() {
    let memory = memory();
    let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
    let data: Vec<u8> = (0..1100).map(|n| n as u8).collect();
    let mut push = |tag, len: usize| {
        let mut asked = Vec::new();
        assert!(producer.push(&memory, (Frame::new(tag), 0), len, none, |at: usize, to: &mut [u8]| {
            asked.push(at..at + to.len());
            to.copy_from_slice(&data[at..][..to.len()]);
        }));
        assert!(is_asked_once(&asked, len), "{asked:?}");
        let mut unread = Vec::new();
        producer.unread(&memory, |frame, body| {
            assert_eq!(body, &data[..body.len()]);
            unread.push((frame.tag, frame.fields[0], body.len()));
        });
        let mut seen = Vec::new();
        let mut pop = || {
            consumer.pop(&memory, no_piece, |frame, body| {
                assert_eq!(body, &data[..body.len()]);
                seen.push((frame.tag, frame.fields[0], body.len()));
                Ok(())
            })
        };
        while pop() == Ok(Popped::Frame(())) {}
        assert_eq!(seen, unread);
        seen
    };
    for _ in 0..20 {
        assert_eq!(push(MSG, 767), [(MSG, 0, 767)]);
        assert_eq!(push(MSG, 769), [(PART, 769, 230), (PART, 769, 486), (MSG, 0, 769)]);
        assert_eq!(
            push(MSG | ACK_NOW, 1100),
            [(PART, 1100, 294), (PART, 1100, 614), (PART, 1100, 934), (MSG | ACK_NOW, 0, 1100)]
        );
        assert_eq!(push(3, 1100), [(3, 0, 1100)], "only a MSG has parts");
    }
    // Seven slots are in use, and so there are none for parts.
    (0..4).for_each(|_| assert!(producer.push(&memory, (Frame::new(MSG), 0), 1, none, |_: usize, _: &mut [u8]| ())));
    assert!(producer.push(&memory, (Frame::new(MSG), 0), 1100, none, |_: usize, _: &mut [u8]| ()));
    let mut tags = Vec::new();
    while consumer.pop(&memory, no_piece, |frame, _| {
        tags.push(frame.tag);
        Ok(())
    }) == Ok(Popped::Frame(()))
    {}
    assert_eq!(tags, [MSG; 5]);
}

#[test]
fn data_of_a_message_begin_at_a_unit_and_vast_or_gathered_bulk_waits_for_the_near_part() {
    let memory = memory();
    let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
    // SAFETY: nobody writes there now.
    let begin = unsafe { memory.read(PLAN.data_at, 0, |place| place.as_ptr().addr()) };
    let push = |producer: &mut Producer, tag, offset| {
        let mut place = None;
        let pushed =
            producer.push(&memory, (Frame { tag, fields: [0, offset] }, 0), 600, none, |at: usize, to: &mut [u8]| {
                place.get_or_insert(to.as_ptr().addr() - begin - at);
            });
        pushed.then_some(place.unwrap_or(0))
    };
    let mut pop = || while consumer.pop(&memory, no_piece, |_, _| Ok(())) == Ok(Popped::Frame(())) {};
    assert_eq!(push(&mut producer, MSG, 0), Some(LEAD));
    assert_eq!((LEAD + base::protocol::message::head::BYTES) % UNIT, 0);
    pop();
    // A message's piece is kept until another body has been read.
    assert_eq!(push(&mut producer, BULK, VAST), None);
    assert_eq!(push(&mut producer, BULK, 0), Some(640));
    pop();
    assert_eq!(push(&mut producer, BULK, VAST), Some(0));
    assert_eq!(push(&mut producer, BULK, VAST), None);
    assert_eq!(push(&mut producer, BULK, VAST - 1), Some(640));
    pop();
    assert_eq!(push(&mut producer, BULK, VAST), Some(0));
    // So does what is gathered from many places, from its beginning on.
    pop();
    assert_eq!(push(&mut producer, MSG, 0), Some(LEAD));
    pop();
    producer.set_gathers(true);
    assert_eq!(push(&mut producer, BULK, 0), None);
    producer.set_gathers(false);
    assert_eq!(push(&mut producer, BULK, 0), Some(640));
}

/// Both ends of a lane: what one sends the other receives at once.
struct Ends {
    memory: Segment,
    ends: [(Producer, Consumer); 2],
}

impl Ends {
    fn new() -> Ends {
        let whole = InParts { bytes: PLAN.data, least: 2, most: PLAN.data };
        let whole = |plan| Plan { far: whole, near: whole, ..plan };
        let end = |own, other| (Producer::new(whole(own)), Consumer::new(whole(other)));
        Ends { memory: memory(), ends: [end(PLAN, BACK_PLAN), end(BACK_PLAN, PLAN)] }
    }

    /// Returns the place of the body's piece, from the begin of both rings; 0 if it is in the slot, and `None` if there is no room.
    fn send(&mut self, from: usize, tag: u8, len: usize) -> Option<usize> {
        // SAFETY: nobody writes there now.
        let begin = unsafe { self.memory.read(PLAN.rings_at, 0, |place| place.as_ptr().addr()) };
        let (producer, consumer) = &mut self.ends[from];
        let mut at = 0;
        let kept = |units| consumer.give_up(units);
        let pushed = producer.push(&self.memory, (Frame::new(tag), 0), len, kept, |_: usize, to: &mut [u8]| {
            at = to.as_ptr().addr().saturating_sub(begin) / UNIT * UNIT;
            to.fill(len as u8);
        });
        pushed.then_some(at)
    }

    fn receive(&mut self, to: usize) -> Popped<usize> {
        let (producer, consumer) = &mut self.ends[to];
        let back = |start| producer.take_back(&self.memory, start);
        let popped = consumer.pop(&self.memory, back, |_, body| {
            assert!(body.iter().all(|b| *b == body.len() as u8));
            Ok(body.len())
        });
        popped.unwrap()
    }

    fn pass(&mut self, from: usize, tag: u8, len: usize) -> Option<usize> {
        let at = self.send(from, tag, len);
        assert_eq!(self.receive(1 - from), Popped::Frame(len));
        at
    }
}

#[test]
fn an_answer_goes_where_the_message_was() {
    let mut lane = Ends::new();
    for _ in 0..3 * BACK {
        assert_eq!((lane.pass(0, MSG, 700), lane.pass(1, MSG, 700)), (Some(0), Some(0)));
    }
    // One that is shorter goes there too, and a frame without a body there makes no difference.
    lane.pass(0, MSG, 700);
    lane.pass(0, MSG, 1);
    assert_eq!((lane.pass(1, MSG, 600), lane.pass(0, MSG, 700)), (Some(0), Some(0)));
    // What is longer goes to the own ring, and is answered there.
    assert_eq!((lane.pass(1, MSG, 760), lane.pass(0, MSG, 700)), (Some(4096), Some(4096)));
    // The shortest that is not in a slot, too.
    for len in [BODY + 1, 160, 511] {
        let mut lane = Ends::new();
        assert_eq!((lane.pass(0, MSG, len), lane.pass(1, MSG, len)), (Some(0), Some(0)), "{len}");
    }
    // What is no message does not.
    let mut lane = Ends::new();
    assert_eq!((lane.pass(0, 7, 700), lane.pass(1, 7, 700)), (Some(0), Some(4096)));
    lane.pass(0, MSG, 700);
    assert_eq!(lane.pass(1, 7, 700), Some(4096));
}

#[test]
fn a_piece_that_is_kept_is_not_used_until_another_is_read_or_room_is_asked_for() {
    let mut lane = Ends::new();
    let at = |lane: &mut Ends| lane.pass(0, MSG, 970);
    for place in [0, 1024, 0, 1024] {
        assert_eq!(at(&mut lane), Some(place), "the last alone is kept");
    }
    assert_eq!(lane.send(0, MSG, 4000), None);
    let producer = &mut lane.ends[0].0;
    assert!(producer.is_stuck(&lane.memory) && producer.is_read(&lane.memory) && producer.ask(&lane.memory));
    assert_eq!(lane.receive(1), Popped::Asked);
    assert_eq!(lane.pass(0, MSG, 4000), Some(0));
    assert_eq!(lane.pass(1, MSG, 4000), Some(0));
}

#[test]
fn there_is_room_while_a_piece_is_on_its_way_back() {
    let mut lane = Ends::new();
    assert_eq!((lane.pass(0, MSG, 1900), lane.pass(0, MSG, 700)), (Some(0), Some(1984)));
    assert_eq!(lane.send(1, MSG, 700), Some(1984));
    assert_eq!(lane.pass(0, MSG, 1900), Some(0), "what was given out before is free");
    assert_eq!(lane.receive(0), Popped::Frame(700));
    assert_eq!(lane.pass(1, MSG, 1900), Some(0));
}

#[test]
fn what_was_returned_and_not_read_comes_back() {
    let mut lane = Ends::new();
    lane.pass(0, MSG, 700);
    assert_eq!(lane.send(1, MSG, 650), Some(0));
    assert_eq!(lane.send(1, MSG, 4000), Some(4096));
    let mut left = Vec::new();
    lane.ends[1].0.unread(&lane.memory, |_, body| left.push(body.to_vec()));
    assert_eq!(left, [650, 4000].map(|len| vec![len as u8; len]));
}

#[test]
fn pieces_that_were_never_given_out_change_nothing() {
    let mut lane = Ends::new();
    lane.send(0, MSG, 700);
    for start in [1, 64, 65, u32::MAX] {
        assert_eq!(lane.ends[0].0.take_back(&lane.memory, start), Err(Malformed));
    }
    let mut left = Vec::new();
    lane.ends[0].0.unread(&lane.memory, |frame, body| left.push((frame.tag, body.len())));
    assert_eq!(left, [(MSG, 700)]);
}

#[test]
fn what_is_objected_to_is_not_taken() {
    let memory = memory();
    let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
    assert!(producer.push(&memory, (Frame::new(9), 0), 1, none, |_: usize, to: &mut [u8]| to.fill(4)));
    assert_eq!(consumer.pop(&memory, no_piece, |_, _| Err::<(), _>(Malformed)), Err(Malformed));
    let mut left = Vec::new();
    producer.unread(&memory, |frame, body| left.push((frame.tag, body.to_vec())));
    assert_eq!(left, [(9, vec![4])]);
    assert_eq!(consumer.pop(&memory, no_piece, |_, _| Ok(())), Ok(Popped::Frame(())));
    producer.unread(&memory, |_, _| panic!("nothing is left"));
}
