//! One direction of a lane: a ring of slots, and beside it a ring of bytes for bodies that are longer than a slot.
//!
//! One process has the [`Producer`], the other the [`Consumer`]. A slot is 64 bytes; its first word says what is in it,
//! and is written last. It also says in which lap it was written, so the consumer finds the next message by looking at
//! one word, and no word that is looked at ever holds a program's data. The producer reads how far the consumer is only
//! when there seems to be no room.
//!
//! Invariants: a slot's word is written once per lap, after the body; between then and the consumer's index passing the
//! slot, neither side writes to slot or body; nothing that is read from the other side is used before it is checked.

use super::ground::Ground;
use super::room::{Room, UNIT};
use base::bytes::Malformed;
use base::protocol::shared::{FAR, FIELDS, LAP, QUESTION as ASK, SLOT, START, TAG};
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WORD: usize = 8;
/// What a slot holds beside its word.
const BODY: usize = SLOT - WORD;

// The length is the lowest field of the word.
const LEN_BITS: u32 = FIELDS;

/// Of so many slots, one is kept for [`ASK`].
const SPARE: u64 = 1;

/// So many slots before one is written, its line is asked for: not the next one, at which the consumer looks.
const AHEAD: u64 = 4;

/// Where one direction lies.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where the consumer says how many slots it has consumed.
    pub index: usize,
    pub slots_at: usize,
    /// A power of two.
    pub slots: u64,
    pub data_at: usize,
    pub data: usize,
    /// Bodies stay in this much of it as long as they find room there.
    pub low: usize,
}

impl Plan {
    fn slot(&self, n: u64) -> usize {
        self.slots_at + (n & (self.slots - 1)) as usize * SLOT
    }

    /// What a slot written with number `n` carries; memory that was never written has no lap.
    fn lap(&self, n: u64) -> u64 {
        (n / self.slots + 1) << LAP
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub tag: u8,
    pub fields: [u64; 2],
}

impl Frame {
    pub fn new(tag: u8) -> Frame {
        Frame { tag, fields: [0; 2] }
    }
}

/// Reads what a published slot says, and where its body is.
fn open<G: Ground>(ground: &G, plan: &Plan, slot: usize, word: u64) -> Result<(Frame, Range<usize>), Malformed> {
    let len = (word & ((1 << LEN_BITS) - 1)) as usize;
    let fields = (word >> FIELDS & 3) as usize;
    let mut frame = Frame::new((word >> TAG) as u8);
    if fields > frame.fields.len() {
        return Err(Malformed);
    }
    for (i, field) in frame.fields[..fields].iter_mut().enumerate() {
        *field = ground.load(slot + WORD * (i + 1), Relaxed);
    }
    let (at, room) = if word >> FAR & 1 == 1 {
        let start = (word >> START & 0xffff) as usize * UNIT;
        (plan.data_at + start, plan.data.checked_sub(start).ok_or(Malformed)?)
    } else {
        (slot + WORD * (fields + 1), BODY - WORD * fields)
    };
    if len > room { Err(Malformed) } else { Ok((frame, at..at + len)) }
}

pub struct Producer {
    plan: Plan,
    tail: u64,
    /// As far as the consumer was when we last looked.
    head: u64,
    room: Room,
    /// The number of the slot after our last [`ASK`].
    asked: u64,
    /// The last push found no room.
    stuck: bool,
}

impl Producer {
    pub fn new(plan: Plan) -> Producer {
        Producer { plan, tail: 0, head: 0, room: Room::new(plan.data, plan.low), asked: 0, stuck: false }
    }

    /// Publishes one frame, whose body `fill` writes; whether there was room. The first `fields` of the frame's count.
    pub fn push<G: Ground>(
        &mut self,
        ground: &G,
        frame: Frame,
        fields: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if self.tail - self.head >= self.plan.slots - SPARE {
            self.look(ground);
            if self.tail - self.head >= self.plan.slots - SPARE {
                self.stuck = true;
                return false;
            }
        }
        let slot = self.plan.slot(self.tail);
        let mut word = len as u64 | (fields as u64) << FIELDS;
        let at = if len <= BODY - WORD * fields {
            slot + WORD * (fields + 1)
        } else {
            let Some(start) = self.find(ground, len) else {
                self.stuck = true;
                return false;
            };
            word |= 1 << FAR | u64::from(start) << START;
            self.room.take(self.tail, start, len);
            self.plan.data_at + start as usize * UNIT
        };
        if len > 0 {
            // SAFETY: the consumer has given back this slot and this piece of the room (its index has passed whoever had
            // them), and learns of them by the word that is written below.
            unsafe { ground.write(at, len, fill) };
        }
        self.publish(ground, slot, word, &frame, fields);
        ground.expect_store(self.plan.slot(self.tail + AHEAD));
        self.stuck = false;
        true
    }

    fn find<G: Ground>(&mut self, ground: &G, len: usize) -> Option<u32> {
        // Before it goes far, it looks what is free again nearby.
        self.room.place(len).filter(|start| self.room.is_near(*start, len)).or_else(|| {
            self.look(ground);
            self.room.place(len)
        })
    }

    fn publish<G: Ground>(&mut self, ground: &G, slot: usize, word: u64, frame: &Frame, fields: usize) {
        for (i, field) in frame.fields[..fields].iter().enumerate() {
            ground.store(slot + WORD * (i + 1), *field, Relaxed);
        }
        ground.store(slot, word | u64::from(frame.tag) << TAG | self.plan.lap(self.tail), Release);
        self.tail += 1;
    }

    /// Finds out how far the consumer is.
    fn look<G: Ground>(&mut self, ground: &G) {
        let head = ground.load(self.plan.index, Acquire);
        // One who counts nonsense is not believed.
        if (self.head..=self.tail).contains(&head) {
            self.head = head;
            self.room.free(head);
        }
    }

    /// Whether the consumer has consumed all that was published.
    pub fn is_read<G: Ground>(&self, ground: &G) -> bool {
        ground.load(self.plan.index, Acquire) == self.tail
    }

    /// Whether there was no room, and the consumer has taken nothing since.
    pub fn is_stuck<G: Ground>(&self, ground: &G) -> bool {
        self.stuck && ground.load(self.plan.index, Relaxed) == self.head
    }

    /// Has the consumer tell us when all that is there has been consumed. Whether that is a new question.
    pub fn ask<G: Ground>(&mut self, ground: &G) -> bool {
        self.look(ground);
        if self.asked > self.head {
            return false;
        }
        let slot = self.plan.slot(self.tail);
        self.publish(ground, slot, 0, &Frame::new(ASK), 0);
        self.asked = self.tail;
        true
    }

    /// Shows what was published and is not known to be consumed, oldest first.
    pub fn unread<G: Ground>(&mut self, ground: &G, mut f: impl FnMut(&Frame, &[u8])) {
        self.look(ground);
        for n in self.head..self.tail {
            let slot = self.plan.slot(n);
            let word = ground.load(slot, Acquire);
            if let Ok((frame, body)) = open(ground, &self.plan, slot, word)
                && frame.tag != ASK
            {
                // SAFETY: we are the only ones who would write there, and we do not.
                unsafe { ground.read(body.start, body.len(), |bytes| f(&frame, bytes)) };
            }
        }
    }
}

/// What the consumer found in a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<R> {
    Nothing,
    Frame(R),
    /// The producer wants to be told that all before is consumed.
    Asked,
}

pub struct Consumer {
    plan: Plan,
    head: u64,
}

impl Consumer {
    pub fn new(plan: Plan) -> Consumer {
        Consumer { plan, head: 0 }
    }

    /// Whether something is there.
    pub fn has_input<G: Ground>(&self, ground: &G) -> bool {
        self.word(ground).is_some()
    }

    fn word<G: Ground>(&self, ground: &G) -> Option<u64> {
        let word = ground.load(self.plan.slot(self.head), Acquire);
        ((word ^ self.plan.lap(self.head)) >> LAP == 0).then_some(word)
    }

    /// Takes the next frame, whose body is only there while `f` looks at it. One to which `f` objects is not taken.
    pub fn pop<G: Ground, R>(
        &mut self,
        ground: &G,
        f: impl FnOnce(&Frame, &[u8]) -> Result<R, Malformed>,
    ) -> Result<Popped<R>, Malformed> {
        let Some(word) = self.word(ground) else { return Ok(Popped::Nothing) };
        let (frame, body) = open(ground, &self.plan, self.plan.slot(self.head), word)?;
        let out = if frame.tag == ASK {
            Popped::Asked
        } else {
            // SAFETY: the producer does not write there before our index has passed this slot. One that does not keep to
            // it runs as the same user as we, and can write to any memory of ours.
            Popped::Frame(unsafe { ground.read(body.start, body.len(), |bytes| f(&frame, bytes)) }?)
        };
        self.head += 1;
        ground.store(self.plan.index, self.head, Release);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::Segment;
    use super::*;

    const PLAN: Plan = Plan { index: 0, slots_at: 4096, slots: 8, data_at: 8192, data: 4096, low: 1024 };

    fn memory() -> Segment {
        Segment::create(12_288).unwrap().0
    }

    #[test]
    fn nonsense_in_a_slot_is_refused() {
        let good = |len: u64| len | 7 << TAG | 1 << LAP;
        let cases = [
            (good(57), false),
            (good(56), true),
            (good(49) | 1 << FIELDS, false),
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
            let got = consumer.pop(&memory, |frame, body| Ok((frame.tag, body.len())));
            let expected = Ok(Popped::Frame((7, (word & 0x1f_ffff) as usize)));
            assert_eq!(got, if fine { expected } else { Err(Malformed) }, "{word:x}");
        }
    }

    #[test]
    fn another_lap_is_not_there() {
        for lap in [0, 2, 0xffff] {
            let memory = memory();
            memory.store(PLAN.slots_at, 1 | lap << LAP, Release);
            assert_eq!(Consumer::new(PLAN).pop(&memory, |_, _| Ok(())), Ok(Popped::Nothing));
        }
    }

    #[test]
    fn one_who_counts_nonsense_is_not_believed() {
        let memory = memory();
        let mut producer = Producer::new(PLAN);
        let mut push = || producer.push(&memory, Frame::new(1), 0, 1, |_| ());
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
        // Until the number of the lap has begun anew.
        while laps < 480_000 {
            while producer.push(&memory, Frame { tag: 3, fields: [laps, 5] }, 2, 100, |to| to.fill(laps as u8)) {
                laps += 1;
            }
            assert!(producer.is_stuck(&memory));
            assert!(producer.ask(&memory) && !producer.ask(&memory));
            let first = consumer.pop(&memory, |frame, body| Ok((*frame, body.to_vec()))).unwrap();
            let frame = Frame { tag: 3, fields: [laps - 7, 5] };
            assert_eq!(first, Popped::Frame((frame, vec![(laps - 7) as u8; 100])));
            assert!(!producer.is_stuck(&memory));
            while consumer.pop(&memory, |_, _| Ok(())) == Ok(Popped::Frame(())) {}
            assert!(!consumer.has_input(&memory));
        }
    }

    #[test]
    fn what_is_objected_to_is_not_taken() {
        let memory = memory();
        let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
        assert!(producer.push(&memory, Frame::new(9), 0, 1, |to| to.fill(4)));
        assert_eq!(consumer.pop(&memory, |_, _| Err::<(), _>(Malformed)), Err(Malformed));
        let mut left = Vec::new();
        producer.unread(&memory, |frame, body| left.push((frame.tag, body.to_vec())));
        assert_eq!(left, [(9, vec![4])]);
        assert_eq!(consumer.pop(&memory, |_, _| Ok(())), Ok(Popped::Frame(())));
        producer.unread(&memory, |_, _| panic!("nothing is left"));
    }
}
