//! One direction of a lane: a ring of slots, and beside it a ring of bytes for bodies that are longer than a slot.
//!
//! One process has the [`Producer`], the other the [`Consumer`]. A slot is two cache lines: a processor that
//! fetches one of them fetches the other with it, and the next slot's is left to who writes it. Its first word describes the frame in
//! it, and is written last. The word also says in which lap it was written, so the consumer finds the next frame by looking
//! at one word, and a program's data never lie where a word is looked for. The producer reads the consumer's index only when
//! there seems to be no room.
//!
//! Invariants: a slot's word is written once per lap, after the body; between then and the consumer's index passing the
//! slot, neither side writes to slot or body; what is read from the other side is checked before it is used.

use super::distance::Distance;
use super::payload::{PayloadRing, UNIT};
use crate::memory::SegmentView;
use base::bytes::Malformed;
use base::protocol::frame::{BULK, MSG};
use base::protocol::shared::{ACK_NOW, FAR, FIELDS, LAP, LEAD, PART, QUESTION as ASK, SLOT, START, TAG};
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

/// The layout of one direction in a lane's memory; positions and sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The word by which the consumer says how many slots it has consumed.
    pub index: usize,
    pub slots_at: usize,
    /// The number of slots, a power of two.
    pub slots: u64,
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
        let start = (word >> START & 0xffff) as usize * UNIT + lead(frame.tag);
        (plan.data_at + start, plan.data.checked_sub(start).ok_or(Malformed)?)
    } else {
        (slot + WORD * (fields + 1), BODY - WORD * fields)
    };
    if len > room { Err(Malformed) } else { Ok((frame, at..at + len)) }
}

pub(super) struct Producer {
    plan: Plan,
    tail: Next,
    /// The consumer's index when it was last read.
    head: u64,
    payload: PayloadRing,
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
            payload: PayloadRing::new(plan.data, plan.low),
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

    /// Publishes one frame with the first `fields` of its fields and a body of `len` bytes. Returns whether there was room.
    #[inline(always)]
    pub(super) fn push<G: SegmentView>(
        &mut self,
        view: &G,
        frame: Frame,
        fields: usize,
        len: usize,
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
            let (region, lead) = (self.region(frame, len), lead(frame.tag));
            let Some(start) = self.find(view, lead + len, region) else {
                self.stuck = true;
                return false;
            };
            let parts = self.parts(len, frame.tag);
            let own = self.tail.n + parts as u64 - 1;
            self.payload.take(own, start, lead + len, region == Region::Wide);
            word |= 1 << FAR | u64::from(start) << START;
            if parts > 1 {
                return self.push_in_parts(view, (word, frame, fields), (start, len, parts), body);
            }
            self.plan.data_at + start as usize * UNIT + lead
        };
        if len > 0 {
            // SAFETY: the consumer's index has passed the last frame that had this slot or this piece of the payload ring, and
            // it learns of the new one by the word that is written below.
            unsafe { view.write(at, len, |to| body.fill(0, to)) };
        }
        self.publish(view, word, frame, fields);
        self.stuck = false;
        true
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
        if parts >= least && tag & !ACK_NOW == MSG && is_room { parts } else { 1 }
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
        let at = self.plan.data_at + start as usize * UNIT + LEAD;
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
        let head = self.distance.load(self.head, || view.load(self.plan.index, Acquire));
        // An index that cannot be is ignored.
        if (self.head..=self.tail.n).contains(&head) {
            self.head = head;
            self.payload.free(head);
        }
    }

    /// Whether the consumer has consumed all that was published.
    pub(super) fn is_read<G: SegmentView>(&self, view: &G) -> bool {
        view.load(self.plan.index, Acquire) == self.tail.n
    }

    /// Whether the last push found no room, and the consumer has consumed nothing since.
    pub(super) fn is_stuck<G: SegmentView>(&self, view: &G) -> bool {
        self.stuck && view.load(self.plan.index, Acquire) == self.head
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

    /// A body in the payload ring was found, and is read next.
    #[inline(never)]
    fn prefetch<G: SegmentView>(&mut self, view: &G, frame: &Frame, body: &Range<usize>) {
        let is_part = frame.tag == PART;
        if is_part {
            // The slot of the next part comes while this one is copied.
            view.expect_load(self.plan.slot(self.head.n + 1));
        }
        let has_like = !is_part && !self.in_parts;
        self.in_parts = is_part;
        self.expected = if has_like { self.after(view, body) } else { 0..0 };
        // The body is in the other processor's cache. The second of two lines is fetched together with the first.
        let second = (body.start & !(UNIT - 1)) + UNIT;
        if (second + 1..=second + UNIT).contains(&body.end) {
            view.expect_load(second);
        }
    }

    /// A body in the payload ring was found. Returns where the next one will lie, if it is as long and short enough to be fetched before
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
    /// consumed.
    #[inline(always)]
    pub(super) fn pop<G: SegmentView, R>(
        &mut self,
        view: &G,
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
        if body.start < self.plan.data_at {
            // In the slot, whose second line is fetched together with the first.
            (self.expected, self.in_parts) = (0..0, false);
            if body.end > self.head.slot + UNIT {
                view.expect_load(self.head.slot + UNIT);
            }
        } else {
            self.prefetch(view, &frame, &body);
        }
        let out = if frame.tag == ASK {
            Popped::Asked
        } else {
            // SAFETY: the producer does not write there before our index has passed this slot. A producer that breaks this
            // runs as the same user as we do, and could write to any memory of ours.
            Popped::Frame(unsafe { view.read(body.start, body.len(), |bytes| f(&frame, bytes)) }?)
        };
        self.head.step(&self.plan);
        view.store(self.plan.index, self.head.n, Release);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Segment;

    const PLAN: Plan = Plan {
        index: 0,
        slots_at: 4096,
        slots: 8,
        data_at: 8192,
        data: 4096,
        low: 1024,
        far: PARTS_OF_256,
        near: PARTS_OF_256,
    };
    const PARTS_OF_256: InParts = InParts { bytes: 256, least: 3, most: 1024 };

    fn memory() -> Segment {
        Segment::create(12_288).unwrap().0
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
        let mut push = || producer.push(&memory, Frame::new(1), 0, 1, |_: usize, _: &mut [u8]| ());
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
            while producer.push(&memory, Frame { tag: 3, fields: [laps, 5] }, 2, BODY, |_: usize, to: &mut [u8]| {
                to.fill(laps as u8)
            }) {
                laps += 1;
            }
            assert!(producer.is_stuck(&memory));
            assert!(producer.ask(&memory) && !producer.ask(&memory));
            let first = consumer.pop(&memory, |frame, body| Ok((*frame, body.to_vec()))).unwrap();
            let frame = Frame { tag: 3, fields: [laps - 7, 5] };
            assert_eq!(first, Popped::Frame((frame, vec![(laps - 7) as u8; BODY])));
            assert!(!producer.is_stuck(&memory));
            while consumer.pop(&memory, |_, _| Ok(())) == Ok(Popped::Frame(())) {}
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
            assert!(producer.push(&memory, Frame::new(tag), 0, len, |at: usize, to: &mut [u8]| {
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
                consumer.pop(&memory, |frame, body| {
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
        (0..4).for_each(|_| assert!(producer.push(&memory, Frame::new(MSG), 0, 1, |_: usize, _: &mut [u8]| ())));
        assert!(producer.push(&memory, Frame::new(MSG), 0, 1100, |_: usize, _: &mut [u8]| ()));
        let mut tags = Vec::new();
        while consumer.pop(&memory, |frame, _| {
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
            let pushed =
                producer.push(&memory, Frame { tag, fields: [0, offset] }, 0, 600, |at: usize, to: &mut [u8]| {
                    place.get_or_insert(to.as_ptr().addr() - begin - at);
                });
            pushed.then_some(place.unwrap_or(0))
        };
        let mut pop = || while consumer.pop(&memory, |_, _| Ok(())) == Ok(Popped::Frame(())) {};
        assert_eq!(push(MSG, 0), Some(LEAD));
        assert_eq!((LEAD + base::protocol::message::head::BYTES) % UNIT, 0);
        pop();
        assert_eq!(push(BULK, VAST), Some(0));
        assert_eq!(push(BULK, VAST), None);
        assert_eq!(push(BULK, VAST - 1), Some(640));
        pop();
        assert_eq!(push(BULK, VAST), Some(0));
    }

    #[test]
    fn what_is_objected_to_is_not_taken() {
        let memory = memory();
        let (mut producer, mut consumer) = (Producer::new(PLAN), Consumer::new(PLAN));
        assert!(producer.push(&memory, Frame::new(9), 0, 1, |_: usize, to: &mut [u8]| to.fill(4)));
        assert_eq!(consumer.pop(&memory, |_, _| Err::<(), _>(Malformed)), Err(Malformed));
        let mut left = Vec::new();
        producer.unread(&memory, |frame, body| left.push((frame.tag, body.to_vec())));
        assert_eq!(left, [(9, vec![4])]);
        assert_eq!(consumer.pop(&memory, |_, _| Ok(())), Ok(Popped::Frame(())));
        producer.unread(&memory, |_, _| panic!("nothing is left"));
    }
}
