//! One direction of a lane: a ring of slots, and beside it a ring of bytes for bodies that are longer than a slot.
//!
//! One process has the [`Producer`], the other the [`Consumer`]. A slot is five cache lines: the
//! first is enough for a short frame, and the others have the data of a message of up to 256 bytes. Its first word describes the frame in
//! it, and is written last. The word also says in which lap it was written, so the consumer finds the next frame by looking
//! at one word, and a program's data never lie where a word is looked for. The producer reads the consumer's index only when
//! there seems to be no room.
//!
//! The answer to a message may go where the message was: the consumer keeps the piece of the payload ring that it has read last, and the
//! producer of the same process may return it with a body of its own. Then its lines are in the caches of both sides, and a message and
//! its answer take half as many.
//!
//! Invariants: a slot's word is written once per lap, after the body; between then and the consumer's index passing the
//! slot, neither side writes to slot or body; a piece belongs to the producer that gives it out, then to the consumer while it keeps it,
//! and again to the producer when that has read what came back in it; what is read from the other side is checked before it is used.

mod consumer;
mod producer;
#[cfg(test)]
mod tests;

use super::payload::UNIT;
use crate::memory::SegmentView;
use base::bytes::Malformed;
use base::protocol::frame::MSG;
use base::protocol::shared::{ACK_NOW, FAR, FIELDS, KEPT, LAP, LEAD, PART, SLOT, START, TAG};
pub(super) use consumer::{Consumer, EXPECTED, Popped};
pub(super) use producer::{NARROW, Producer};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

const WORD: usize = 8;
const _: () = assert!(WORD <= LEAD && UNIT - LEAD == base::protocol::message::head::BYTES);

// The length is the lowest field of the word.
const LEN_BITS: u32 = FIELDS;

/// How far behind its place in the payload ring the body of a frame of this kind begins.
#[inline]
fn lead(tag: u8) -> usize {
    if matches!(tag & !ACK_NOW, MSG | PART) { LEAD } else { 0 }
}

/// Where in its slot a body begins that is not elsewhere. The data of a message that is longer than the first line begin with the second
/// one, as in the payload ring.
#[inline(always)]
fn begin(tag: u8, fields: usize, len: usize) -> usize {
    let leads = fields == 0 && len > UNIT - WORD && is_msg(tag);
    if leads { LEAD } else { WORD * (fields + 1) }
}

#[inline]
fn is_msg(tag: u8) -> bool {
    tag & !ACK_NOW == MSG
}

/// How many slots are consumed, as an index says.
#[inline]
fn consumed(index: u64) -> u64 {
    index & !(1 << KEPT)
}

/// The layout of one direction in a lane's memory; positions and sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The word by which the consumer says how many slots it has consumed, and whether it keeps the last piece.
    pub index: usize,
    /// The words by which the other side, and this producer, says how many bodies it has written to pieces that it kept.
    pub returned: usize,
    pub returns: usize,
    pub slots_at: usize,
    /// The number of slots, a power of two.
    pub slots: u64,
    /// The payload rings of both directions, of the same size and one behind the other, and this direction's.
    pub rings_at: usize,
    pub data_at: usize,
    pub data: usize,
    /// The part of the data that is used first.
    pub low: usize,
    /// How a body is announced in parts where the other side is far, and where it is near.
    pub far: InParts,
    pub near: InParts,
}

/// A body is announced in parts of about `bytes`, up to a few, if there are `least`; and no part is much longer than `most` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct InParts {
    pub bytes: usize,
    pub least: usize,
    pub most: usize,
}

impl Plan {
    fn slot(&self, n: u64) -> usize {
        self.slots_at + (n & (self.slots - 1)) as usize * SLOT
    }

    fn end(&self) -> usize {
        self.slots_at + self.slots as usize * SLOT
    }

    /// The position of a place in the payload rings.
    fn place(&self, start: u32) -> usize {
        self.rings_at + start as usize * UNIT
    }

    /// Where this direction's payload ring begins, in units.
    fn first(&self) -> u32 {
        ((self.data_at - self.rings_at) / UNIT) as u32
    }

    /// Where the payload ring ends in which this position is, or the second one if it is in none.
    fn ring_end(&self, at: usize) -> usize {
        let second = self.rings_at + self.data;
        if at < second { second } else { second + self.data }
    }

    /// Whether a position is in this direction's payload ring.
    fn is_own(&self, at: usize) -> bool {
        (self.data_at..self.data_at + self.data).contains(&at)
    }
}

/// How far one side is: the number of its next frame, the slot for it, and the lap in the slot's word. A first lap is not 0, so memory
/// that was never written has no lap.
#[derive(Clone, Copy)]
struct Next {
    n: u64,
    slot: usize,
    lap: u64,
}

impl Next {
    fn first(plan: &Plan) -> Next {
        Next { n: 0, slot: plan.slots_at, lap: 1 << LAP }
    }

    #[inline(always)]
    fn step(&mut self, plan: &Plan) {
        self.n += 1;
        self.slot += SLOT;
        if self.slot == plan.end() {
            self.slot = plan.slots_at;
            self.lap = self.lap.wrapping_add(1 << LAP);
        }
    }
}

/// What a slot holds besides the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub tag: u8,
    pub fields: [u64; 2],
}

impl Frame {
    pub(super) fn new(tag: u8) -> Frame {
        Frame { tag, fields: [0; 2] }
    }

    /// With the tag that a slot's word says.
    #[inline(always)]
    fn of(word: u64) -> Frame {
        Frame::new((word >> TAG) as u8)
    }
}

/// Reads a published slot, whose `frame` has its tag: the rest of that, and the range of its body.
#[inline(always)]
fn open<G: SegmentView>(
    view: &G,
    plan: &Plan,
    slot: usize,
    word: u64,
    frame: &mut Frame,
) -> Result<Range<usize>, Malformed> {
    let len = (word & ((1 << LEN_BITS) - 1)) as usize;
    let begin = begin(frame.tag, 0, len);
    if word & (3 << FIELDS | 1 << FAR) == 0 && begin + len <= SLOT {
        // Most frames: a body in the slot, and nothing else.
        let at = slot + begin;
        return Ok(at..at + len);
    }
    let at = open_other(view, plan, (slot, word, len), frame)?;
    Ok(at..at + len)
}

/// Of a frame that has fields, or a body in the payload ring. Returns where its body begins.
fn open_other<G: SegmentView>(
    view: &G,
    plan: &Plan,
    (slot, word, len): (usize, u64, usize),
    frame: &mut Frame,
) -> Result<usize, Malformed> {
    let fields = (word >> FIELDS & 3) as usize;
    if fields > frame.fields.len() {
        return Err(Malformed);
    }
    for (i, field) in frame.fields[..fields].iter_mut().enumerate() {
        *field = view.load(slot + WORD * (i + 1), Relaxed);
    }
    let (at, room) = if word >> FAR & 1 == 1 {
        let at = plan.place((word >> START & 0xffff) as u32) + lead(frame.tag);
        // A body is in one of the rings as a whole.
        (at, plan.ring_end(at).checked_sub(at).ok_or(Malformed)?)
    } else {
        let begin = begin(frame.tag, fields, len);
        (slot + begin, SLOT - begin)
    };
    if len > room { Err(Malformed) } else { Ok(at) }
}

/// A piece of the payload ring that its consumer keeps; in units, from the begin of both rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    start: u32,
    units: u32,
}
