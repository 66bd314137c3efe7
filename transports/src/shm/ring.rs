//! One direction of a lane: a ring of slots, and beside it a ring of bytes for bodies that are longer than a slot.
//!
//! One process has the [`Producer`], the other the [`Consumer`]. A slot is two cache lines: a processor that
//! fetches one of them fetches the other with it, and the next slot's is left to who writes it. Its first word describes the frame in
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

use super::distance::Distance;
use super::payload::{PayloadRing, UNIT};
use crate::memory::SegmentView;
use base::bytes::Malformed;
use base::protocol::frame::{BULK, MSG};
use base::protocol::shared::{ACK_NOW, FAR, FIELDS, KEPT, LAP, LEAD, PART, QUESTION as ASK, SLOT, START, TAG};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use wire::lane::Body;

const WORD: usize = 8;
/// The bytes of a slot beside its word.
const BODY: usize = SLOT - WORD;

// The length is the lowest field of the word.
const LEN_BITS: u32 = FIELDS;

/// The slots that are kept for [`ASK`].
const SPARE: u64 = 1;

/// When so many frames were found one after the other, the consumer fetches a slot's line so many slots ahead. The producer does not:
/// where it takes lines before it writes them, a message that waits for its answer takes a fifth longer between processors that are
/// far from each other.
const RUN: u32 = 4;
const AHEAD: u64 = 4;

/// A consumer that waits fetches the place of the next body at each look, if that is as long as the last one and no longer than this,
/// as all are that have no parts. So the body comes while the producer writes it, and not after its slot's word.
pub(super) const EXPECTED: usize = 49 << 10;

/// After so many lines it looks whether something else has come.
const FETCHED: usize = 64;

/// After so many looks that find nothing it does so no more: what comes then is not urgent, and other lanes are looked at meanwhile.
const LOOKS: u32 = 64;

/// Bodies up to this length stay in the near part of the payload ring.
pub(super) const NARROW: usize = 2 << 10;

/// So does bulk from this offset of its message on, and waits for room there. Such messages fill the caches that both share, and the
/// whole ring would take room from them: with it, messages of 16 MiB took 1.3 times as long.
const VAST: u64 = 4 << 20;

/// Of a body that has no parts so many bytes are fetched as soon as its slot is found.
const AT_ONCE: usize = 17 << 10;

/// The piece of a shorter body is not kept: to do so takes as long as it saves.
const LEAST_KEPT: usize = 512;

/// One of so many pieces that come back has the consumer's index read, which else would not be read for long: it tells how far the other
/// side is.
const BACK: u64 = 64;

/// Where in the payload ring a body goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    /// Through the whole ring, one behind the other.
    Wide,
    /// In the near part, and elsewhere if there is no room in it.
    NearFirst,
    /// In the near part.
    Near,
}

/// How far behind its place in the payload ring the body of a frame of this kind begins.
#[inline]
fn lead(tag: u8) -> usize {
    if matches!(tag & !ACK_NOW, MSG | PART) { LEAD } else { 0 }
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

/// A body is announced in parts of about `bytes`, up to [`PARTS`], if there are `least`; and no part is much longer than `most` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct InParts {
    pub bytes: usize,
    pub least: usize,
    pub most: usize,
}

/// More parts of a body cost more than they gain, unless they are long.
const PARTS: usize = 4;

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

    /// Where the other direction's begins.
    fn other_ring(&self) -> usize {
        2 * self.rings_at + self.data - self.data_at
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
}

/// Reads a published slot: its frame, and the range of its body.
#[inline(always)]
fn open<G: SegmentView>(view: &G, plan: &Plan, slot: usize, word: u64) -> Result<(Frame, Range<usize>), Malformed> {
    let len = (word & ((1 << LEN_BITS) - 1)) as usize;
    if word & (3 << FIELDS | 1 << FAR) == 0 && len <= BODY {
        // Most frames: a body in the slot, and nothing else.
        let at = slot + WORD;
        return Ok((Frame::new((word >> TAG) as u8), at..at + len));
    }
    open_other(view, plan, slot, word, len)
}

/// Of a frame that has fields, or a body in the payload ring.
fn open_other<G: SegmentView>(
    view: &G,
    plan: &Plan,
    slot: usize,
    word: u64,
    len: usize,
) -> Result<(Frame, Range<usize>), Malformed> {
    let fields = (word >> FIELDS & 3) as usize;
    let mut frame = Frame::new((word >> TAG) as u8);
    if fields > frame.fields.len() {
        return Err(Malformed);
    }
    for (i, field) in frame.fields[..fields].iter_mut().enumerate() {
        *field = view.load(slot + WORD * (i + 1), Relaxed);
    }
    let (at, room) = if word >> FAR & 1 == 1 {
        let at = plan.place((word >> START & 0xffff) as u32) + lead(frame.tag);
        // A body is in one of the rings as a whole.
        let ring = if plan.is_own(at) { plan.data_at } else { plan.other_ring() };
        (at, (ring..=ring + plan.data).contains(&at).then(|| ring + plan.data - at).ok_or(Malformed)?)
    } else {
        (slot + WORD * (fields + 1), BODY - WORD * fields)
    };
    if len > room { Err(Malformed) } else { Ok((frame, at..at + len)) }
}

/// A piece of the payload ring that its consumer keeps; in units, from the begin of both rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    start: u32,
    units: u32,
}

pub(super) struct Producer {
    plan: Plan,
    tail: Next,
    /// How many slots are known to be consumed.
    head: u64,
    /// The consumer's index when it was last read.
    seen: u64,
    payload: PayloadRing,
    /// How many of our pieces have come back, and how many of the other side's we have returned.
    back: u64,
    returned: u64,
    distance: Distance,
    /// Longer bodies go through the whole payload ring.
    wide: bool,
    /// The number of the slot after our last [`ASK`].
    asked: u64,
    /// Whether the last push found no room.
    stuck: bool,
}

impl Producer {
    pub(super) fn new(plan: Plan) -> Producer {
        Producer {
            tail: Next::first(&plan),
            plan,
            head: 0,
            seen: 0,
            payload: PayloadRing::new(plan.data, plan.low),
            back: 0,
            returned: 0,
            distance: Distance::new(),
            wide: false,
            asked: 0,
            stuck: false,
        }
    }

    /// Has bodies that are not short go through the whole payload ring from now on: that is faster, and takes its memory, which is
    /// provided at once.
    pub(super) fn set_wide<G: SegmentView>(&mut self, view: &G) {
        self.wide = true;
        view.populate(self.plan.data_at, self.plan.data);
    }

    /// Publishes one frame with the first `fields` of its fields and a body of `len` bytes. Returns whether there was room. `kept` is where a
    /// body of so many units may go that returns a piece: see [`Consumer::give_up`].
    #[inline(always)]
    pub(super) fn push<G: SegmentView>(
        &mut self,
        view: &G,
        (frame, fields): (Frame, usize),
        len: usize,
        kept: impl FnOnce(u32) -> Option<u32>,
        mut body: impl Body,
    ) -> bool {
        if self.tail.n - self.head >= self.plan.slots - SPARE {
            self.look(view);
            if self.tail.n - self.head >= self.plan.slots - SPARE {
                self.stuck = true;
                return false;
            }
        }
        let mut word = len as u64 | (fields as u64) << FIELDS;
        let at = if len <= BODY - WORD * fields {
            self.tail.slot + WORD * (fields + 1)
        } else {
            let lead = lead(frame.tag);
            let Some((start, parts)) = self.room(view, frame, (lead, len), kept) else {
                self.stuck = true;
                return false;
            };
            word |= 1 << FAR | u64::from(start) << START;
            if parts > 1 {
                return self.push_in_parts(view, (word, frame, fields), (start, len, parts), body);
            }
            self.plan.place(start) + lead
        };
        if len > 0 {
            // SAFETY: the consumer's index has passed the last frame that had this slot or this piece of the payload ring, or the piece is
            // kept or has come back; and it learns of the new one by the word that is written below.
            unsafe { view.write(at, len, |to| body.fill(0, to)) };
        }
        self.publish(view, word, frame, fields);
        self.stuck = false;
        true
    }

    /// Room for a body of so many bytes, and the parts in which it is announced; `None` if there is none now.
    #[inline(always)]
    fn room<G: SegmentView>(
        &mut self,
        view: &G,
        frame: Frame,
        (lead, len): (usize, usize),
        kept: impl FnOnce(u32) -> Option<u32>,
    ) -> Option<(u32, usize)> {
        let bytes = lead + len;
        if is_msg(frame.tag)
            && let Some(start) = kept(bytes.div_ceil(UNIT) as u32)
        {
            self.returned += 1;
            view.store(self.plan.returns, self.returned, Relaxed);
            return Some((start, self.parts(len, frame.tag)));
        }
        let region = self.region(frame, len);
        let start = self.find(view, bytes, region)?;
        let parts = self.parts(len, frame.tag);
        self.payload.take(self.tail.n + parts as u64 - 1, start, bytes, region == Region::Wide);
        Some((self.plan.first() + start, parts))
    }

    /// The parts in which a body is announced.
    #[inline(always)]
    fn parts(&self, len: usize, tag: u8) -> usize {
        let InParts { bytes, least, most } = if self.distance.is_near() { self.plan.near } else { self.plan.far };
        // Most are short, and a division takes as long as all else that is done for them here.
        if len < least * bytes.min(most) {
            return 1;
        }
        let parts = (len / bytes).min(PARTS).max(len / most);
        let is_room = self.tail.n - self.head + (parts as u64) < self.plan.slots - SPARE;
        if parts >= least && is_msg(tag) && is_room { parts } else { 1 }
    }

    /// Publishes a frame whose body goes to `start` in the payload ring. Before it is whole, the consumer hears of its parts.
    #[inline(never)]
    fn push_in_parts<G: SegmentView>(
        &mut self,
        view: &G,
        (word, frame, fields): (u64, Frame, usize),
        (start, len, parts): (u32, usize, usize),
        mut body: impl Body,
    ) -> bool {
        let at = self.plan.place(start) + LEAD;
        let part = (len / parts).next_multiple_of(UNIT);
        let mut done = 0;
        for n in 1..=parts {
            let end = if n == parts { len } else { n * part - LEAD };
            // SAFETY: as in [`Producer::push`]; what was announced before is not written again.
            unsafe { view.write(at + done, end - done, |to| body.fill(done, to)) };
            done = end;
            if n < parts {
                let so_far = 1 << FAR | u64::from(start) << START | 1 << FIELDS | end as u64;
                self.publish(view, so_far, Frame { tag: PART, fields: [len as u64, 0] }, 1);
            }
        }
        self.publish(view, word, frame, fields);
        self.stuck = false;
        true
    }

    /// Whether longer bodies go through the whole payload ring.
    pub(super) fn is_wide(&self) -> bool {
        self.wide
    }

    fn region(&self, frame: Frame, len: usize) -> Region {
        match frame.tag & !ACK_NOW {
            BULK if frame.fields[1] >= VAST && len <= self.plan.low => Region::Near,
            _ if self.wide && len > NARROW => Region::Wide,
            _ => Region::NearFirst,
        }
    }

    /// A place for so many bytes, if there is one.
    #[inline(always)]
    fn find<G: SegmentView>(&mut self, view: &G, len: usize, region: Region) -> Option<u32> {
        match self.payload.next(len, region == Region::Wide) {
            None => self.search(view, len, region),
            next => next,
        }
    }

    #[inline(never)]
    fn search<G: SegmentView>(&mut self, view: &G, len: usize, region: Region) -> Option<u32> {
        let wide = region == Region::Wide;
        let near = |producer: &Self, start: &u32| producer.payload.is_near(*start, len);
        // Before the far part of the ring is used, the consumer's index is read: the near part may be free again.
        self.payload.place(len, wide).filter(|start| wide || near(self, start)).or_else(|| {
            self.look(view);
            self.payload.place(len, wide).filter(|start| region != Region::Near || near(self, start))
        })
    }

    #[inline(always)]
    fn publish<G: SegmentView>(&mut self, view: &G, word: u64, frame: Frame, fields: usize) {
        let slot = self.tail.slot;
        for (i, field) in frame.fields[..fields].iter().enumerate() {
            view.store(slot + WORD * (i + 1), *field, Relaxed);
        }
        view.store(slot, word | u64::from(frame.tag) << TAG | self.tail.lap, Release);
        self.tail.step(&self.plan);
    }

    /// Reads the consumer's index.
    fn look<G: SegmentView>(&mut self, view: &G) {
        self.seen = self.distance.load(self.seen, || view.load(self.plan.index, Acquire));
        let (head, keeps) = (consumed(self.seen), self.seen >> KEPT == 1);
        // An index that cannot be is ignored.
        if (self.head..=self.tail.n).contains(&head) {
            self.head = head;
            // A piece that is on its way back is no longer kept, and not free until it has been read.
            if view.load(self.plan.returned, Relaxed) == self.back {
                self.payload.free(head, keeps);
            }
        }
    }

    /// The other side has returned the piece that begins here, and we have read what is in it.
    #[inline(never)]
    pub(super) fn take_back<G: SegmentView>(&mut self, view: &G, start: u32) {
        self.back = self.back.wrapping_add(1);
        // One that was not given out is ignored.
        if let Some(slot) = start.checked_sub(self.plan.first()).and_then(|start| self.payload.take_back(start)) {
            self.head = self.head.max(slot + 1);
        }
        self.stuck = false;
        if self.back.is_multiple_of(BACK) {
            self.look(view);
        }
    }

    /// Whether the consumer has consumed all that was published.
    pub(super) fn is_read<G: SegmentView>(&self, view: &G) -> bool {
        consumed(view.load(self.plan.index, Acquire)) == self.tail.n
    }

    /// Whether the last push found no room, and the consumer has consumed nothing since.
    pub(super) fn is_stuck<G: SegmentView>(&self, view: &G) -> bool {
        self.stuck && consumed(view.load(self.plan.index, Acquire)) == self.head
    }

    /// Asks the consumer to ring our doorbell when it has consumed all frames. Returns false if that was asked already.
    pub(super) fn ask<G: SegmentView>(&mut self, view: &G) -> bool {
        self.look(view);
        if self.asked > self.head {
            return false;
        }
        self.publish(view, 0, Frame::new(ASK), 0);
        self.asked = self.tail.n;
        true
    }

    /// Shows the frames that were published and that the consumer has not consumed, the oldest first.
    pub(super) fn unread<G: SegmentView>(&mut self, view: &G, mut f: impl FnMut(&Frame, &[u8])) {
        self.look(view);
        for n in self.head..self.tail.n {
            let slot = self.plan.slot(n);
            let word = view.load(slot, Acquire);
            if let Ok((frame, body)) = open(view, &self.plan, slot, word)
                && frame.tag != ASK
            {
                // SAFETY: only the producer writes there, and it does not do so here.
                unsafe { view.read(body.start, body.len(), |bytes| f(&frame, bytes)) };
            }
        }
    }
}

/// What the consumer has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Popped<R> {
    Nothing,
    Frame(R),
    /// The producer asks for its doorbell to be rung, now that all frames before are consumed.
    Asked,
}

pub(super) struct Consumer {
    plan: Plan,
    head: Next,
    /// The piece that was read last, and that the producer does not use again yet; and what the index says of it.
    kept: Option<Piece>,
    keeps: u64,
    /// The whole payload ring is mapped here: the producer uses all of it.
    mapped: bool,
    /// Frames that were found one after the other, without a look that found nothing.
    run: u32,
    /// Where the next body will probably lie, if it is like the last one: behind that.
    expected: Range<usize>,
    /// The looks that have fetched that.
    looks: Cell<u32>,
    /// The last frame was a part.
    in_parts: bool,
}

impl Consumer {
    pub(super) fn new(plan: Plan) -> Consumer {
        Consumer {
            head: Next::first(&plan),
            plan,
            kept: None,
            keeps: 0,
            mapped: false,
            run: 0,
            expected: 0..0,
            looks: Cell::new(0),
            in_parts: false,
        }
    }

    /// Whether a frame is there.
    #[inline]
    pub(super) fn has_input<G: SegmentView>(&self, view: &G) -> bool {
        if self.word(view).is_some() {
            return true;
        }
        if !self.expected.is_empty() && self.looks.get() < LOOKS {
            self.looks.set(self.looks.get() + 1);
            for (n, line) in self.expected.clone().step_by(UNIT).enumerate() {
                if n % FETCHED == FETCHED - 1 && self.word(view).is_some() {
                    return true;
                }
                view.expect_load(line);
            }
        }
        false
    }

    #[inline]
    fn word<G: SegmentView>(&self, view: &G) -> Option<u64> {
        let word = view.load(self.head.slot, Acquire);
        ((word ^ self.head.lap) >> LAP == 0).then_some(word)
    }

    /// Gives up the piece that is kept, if it has room for so many units: it is returned with a body.
    #[inline(always)]
    pub(super) fn give_up(&mut self, units: u32) -> Option<u32> {
        let piece = self.kept.filter(|piece| units <= piece.units)?;
        self.keep(None);
        // The next body may lie there again. These lines are here, and to fetch them while they are written takes them from the producer.
        self.expected = 0..0;
        Some(piece.start)
    }

    /// A body in the payload rings was found, and is read next. Returns the piece of ours in which it has come back.
    #[inline(never)]
    fn begin_long<G: SegmentView>(&mut self, view: &G, frame: &Frame, body: &Range<usize>) -> Option<u32> {
        let is_own = self.plan.is_own(body.start);
        self.prefetch(view, frame, body, is_own);
        let start = ((body.start - self.plan.rings_at) / UNIT) as u32;
        if frame.tag == PART {
            return None;
        }
        if !is_own {
            return Some(start);
        }
        let units = (body.end - self.plan.place(start)).div_ceil(UNIT) as u32;
        self.keep((is_msg(frame.tag) && body.len() >= LEAST_KEPT).then_some(Piece { start, units }));
        None
    }

    fn keep(&mut self, piece: Option<Piece>) {
        self.kept = piece;
        self.keeps = u64::from(piece.is_some()) << KEPT;
    }

    /// `is_own`: it is in this direction's ring.
    fn prefetch<G: SegmentView>(&mut self, view: &G, frame: &Frame, body: &Range<usize>, is_own: bool) {
        let is_part = frame.tag == PART;
        if is_part {
            // The slot of the next part comes while this one is copied.
            view.expect_load(self.plan.slot(self.head.n + 1));
        }
        let has_like = !is_part && !self.in_parts;
        self.in_parts = is_part;
        self.expected = if has_like && is_own { self.after(view, body) } else { 0..0 };
        if has_like {
            // It is in the other processor's cache: all lines come at a time, and not the first one alone until its head is understood.
            let begin = body.start / UNIT * UNIT;
            (begin..body.end.min(begin + AT_ONCE)).step_by(UNIT).for_each(|line| view.expect_load(line));
        }
    }

    /// A body in this direction's ring was found. Returns where the next one will lie, if it is as long and short enough to be fetched before
    /// it is known to be there.
    fn after<G: SegmentView>(&mut self, view: &G, body: &Range<usize>) -> Range<usize> {
        if body.end > self.plan.data_at + self.plan.low && !self.mapped {
            // The producer uses the whole ring, so all of it will be read.
            self.mapped = true;
            view.populate(self.plan.data_at, self.plan.data);
        }
        let (begin, len) = (body.end.next_multiple_of(UNIT), body.end - body.start / UNIT * UNIT);
        self.looks.set(0);
        let fits = len <= EXPECTED && begin + len <= self.plan.data_at + self.plan.data;
        if fits { begin..begin + len } else { 0..0 }
    }

    /// Consumes the next frame. `f` sees it with its body, which is not valid longer; if `f` returns an error, the frame is not
    /// consumed. `back` hears which piece of ours it comes back in: see [`Producer::take_back`].
    #[inline(always)]
    pub(super) fn pop<G: SegmentView, R>(
        &mut self,
        view: &G,
        back: impl FnOnce(u32),
        f: impl FnOnce(&Frame, &[u8]) -> Result<R, Malformed>,
    ) -> Result<Popped<R>, Malformed> {
        let Some(word) = self.word(view) else {
            self.run = 0;
            return Ok(Popped::Nothing);
        };
        // Only where the producer is ahead: it would have to fetch a line back that it is about to write.
        self.run = self.run.saturating_add(1);
        if self.run > RUN {
            view.expect_load(self.plan.slot(self.head.n + AHEAD));
        }
        let (frame, body) = open(view, &self.plan, self.head.slot, word)?;
        if body.start < self.plan.rings_at {
            // In the slot, whose second line is fetched together with the first.
            (self.expected, self.in_parts) = (0..0, false);
            if body.end > self.head.slot + UNIT {
                view.expect_load(self.head.slot + UNIT);
            }
        } else if let Some(start) = self.begin_long(view, &frame, &body) {
            back(start);
        }
        let out = if frame.tag == ASK {
            // It may lack just the piece that is kept.
            self.keep(None);
            Popped::Asked
        } else {
            // SAFETY: the producer does not write there before our index has passed this slot. A producer that breaks this
            // runs as the same user as we do, and could write to any memory of ours.
            Popped::Frame(unsafe { view.read(body.start, body.len(), |bytes| f(&frame, bytes)) }?)
        };
        self.head.step(&self.plan);
        view.store(self.plan.index, self.head.n | self.keeps, Release);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Segment;

    const PLAN: Plan = Plan {
        index: 0,
        returned: 8,
        returns: 24,
        slots_at: 4096,
        slots: 8,
        rings_at: 8192,
        data_at: 8192,
        data: 4096,
        low: 1024,
        far: PARTS_OF_256,
        near: PARTS_OF_256,
    };
    const PARTS_OF_256: InParts = InParts { bytes: 256, least: 3, most: 1024 };

    /// The other direction.
    const BACK_PLAN: Plan = Plan { index: 16, returned: 24, returns: 8, slots_at: 5120, data_at: 12_288, ..PLAN };

    fn memory() -> Segment {
        Segment::create(16_384).unwrap().0
    }

    /// No piece is kept for what is pushed, and none is expected back.
    fn none(_: u32) -> Option<u32> {
        None
    }

    fn no_piece(_: u32) {
        panic!("nothing is returned")
    }

    #[test]
    fn nonsense_in_a_slot_is_refused() {
        let good = |len: u64| len | 7 << TAG | 1 << LAP;
        let cases = [
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
            let expected = Ok(Popped::Frame((7, (word & 0x1f_ffff) as usize)));
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
            while producer.push(
                &memory,
                (Frame { tag: 3, fields: [laps, 5] }, 2),
                BODY,
                none,
                |_: usize, to: &mut [u8]| to.fill(laps as u8),
            ) {
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

    #[test]
    fn a_long_body_is_announced_in_parts() {
        let memory = memory();
        let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
        let data: Vec<u8> = (0..1100).map(|n| n as u8).collect();
        let mut push = |tag, len: usize| {
            let mut filled = 0;
            assert!(producer.push(&memory, (Frame::new(tag), 0), len, none, |at: usize, to: &mut [u8]| {
                assert_eq!(at, filled);
                filled += to.len();
                to.copy_from_slice(&data[at..filled]);
            }));
            assert_eq!(filled, len);
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
        (0..4)
            .for_each(|_| assert!(producer.push(&memory, (Frame::new(MSG), 0), 1, none, |_: usize, _: &mut [u8]| ())));
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
    fn data_of_a_message_begin_at_a_unit_and_vast_bulk_waits_for_the_near_part() {
        let memory = memory();
        let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
        // SAFETY: nobody writes there now.
        let begin = unsafe { memory.read(PLAN.data_at, 0, |place| place.as_ptr().addr()) };
        let mut push = |tag, offset| {
            let mut place = None;
            let pushed = producer.push(
                &memory,
                (Frame { tag, fields: [0, offset] }, 0),
                600,
                none,
                |at: usize, to: &mut [u8]| {
                    place.get_or_insert(to.as_ptr().addr() - begin - at);
                },
            );
            pushed.then_some(place.unwrap_or(0))
        };
        let mut pop = || while consumer.pop(&memory, no_piece, |_, _| Ok(())) == Ok(Popped::Frame(())) {};
        assert_eq!(push(MSG, 0), Some(LEAD));
        assert_eq!((LEAD + base::protocol::message::head::BYTES) % UNIT, 0);
        pop();
        // A message's piece is kept until another body has been read.
        assert_eq!(push(BULK, VAST), None);
        assert_eq!(push(BULK, 0), Some(640));
        pop();
        assert_eq!(push(BULK, VAST), Some(0));
        assert_eq!(push(BULK, VAST), None);
        assert_eq!(push(BULK, VAST - 1), Some(640));
        pop();
        assert_eq!(push(BULK, VAST), Some(0));
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
        // Short ones and what is no message do not.
        for (tag, len) in [(MSG, LEAST_KEPT - 1), (7, 700)] {
            let mut lane = Ends::new();
            assert_eq!((lane.pass(0, tag, len), lane.pass(1, tag, len)), (Some(0), Some(4096)));
            lane.pass(0, MSG, 700);
            assert_eq!(lane.pass(1, 7, 700), Some(4096), "{tag} {len}");
        }
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
    fn pieces_that_were_never_given_out_change_nothing() {
        let mut lane = Ends::new();
        lane.send(0, MSG, 700);
        for start in [1, 64, 65, u32::MAX] {
            lane.ends[0].0.take_back(&lane.memory, start);
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
}
