//! The side that writes frames: see [`super`]. It has all of what is not published, and of the payload ring what the consumer has consumed
//! and does not keep.

use super::{Frame, InParts, Next, Plan, WORD, begin, consumed, is_msg, lead, open};
use crate::memory::SegmentView;
use crate::shm::distance::Distance;
use crate::shm::payload::{PayloadRing, UNIT};
use base::bytes::Malformed;
use base::protocol::frame::BULK;
use base::protocol::message::head::BYTES as HEAD;
use base::protocol::shared::{ACK_NOW, FAR, FIELDS, KEPT, LAST, LEAD, PART, QUESTION as ASK, SLOT, START, TAG};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use wire::lane::Body;

/// The slots that are kept for [`ASK`].
const SPARE: u64 = 1;

/// After so many frames without one from the other side, the producer takes the line of the slot that is so many slots on. Else it
/// waits for that line: when the frames of a window follow each other, for two fifths of its time. Not sooner: a message that waits for
/// its answer takes a fifth longer so, between processors that are far from each other.
const RUN: u64 = 4;
const AHEAD: usize = 3;

/// Bodies up to this length stay in the near part of the payload ring.
pub(in crate::shm) const NARROW: usize = 2 << 10;

/// So does bulk from this offset of its message on, and waits for room there. Such messages fill the caches that both share, and the
/// whole ring would take room from them: with it, messages of 16 MiB took 1.3 times as long.
pub(super) const VAST: u64 = 4 << 20;

/// One of so many pieces that come back has the consumer's index read, which else would not be read for long: it tells how far the other
/// side is.
pub(super) const BACK: u64 = 64;

/// More parts of a body cost more than they gain, unless they are long.
const PARTS: usize = 4;

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

/// Writes a message of more than one line: its data, and then its head. So the lines with the data are taken and written
/// while that of the head, or of the slot's word, is still on its way: the consumer, whose looks fetch them all, then seldom takes one away
/// before it is whole. The compiler knows the length of the head, which so is written by a few stores.
///
/// # Safety
/// As for [`SegmentView::write`].
#[inline(always)]
unsafe fn write_head_last<G: SegmentView>(view: &G, at: usize, len: usize, mut body: impl Body) {
    // SAFETY: the caller's promise.
    unsafe {
        view.write(at + HEAD, len - HEAD, |to| body.fill(HEAD, to));
        view.write(at, HEAD, |to| body.fill(0, to));
    }
}

/// The bytes of data that have room in a slot.
const IN_SLOT: usize = SLOT - UNIT;

/// The same for a message whose data are in several lines of a slot. They are gathered first, and then stored line by line, each one as a
/// whole and nothing between them: a copy of most lengths stores some bytes twice, and may have lost their line in between.
///
/// # Safety
/// As for [`SegmentView::write`], up to the end of the last line.
#[inline(always)]
unsafe fn write_in_lines<G: SegmentView>(view: &G, at: usize, len: usize, mut body: impl Body) {
    let mut data = [0; IN_SLOT];
    body.fill(HEAD, &mut data[..len - HEAD]);
    let lines = (len - HEAD).div_ceil(UNIT);
    // SAFETY: the caller's promise.
    unsafe {
        // The compiler is to know the number of lines.
        match lines {
            0..=2 => store_lines::<2, G>(view, at + HEAD, &data),
            3 => store_lines::<3, G>(view, at + HEAD, &data),
            _ => store_lines::<4, G>(view, at + HEAD, &data),
        }
        view.write(at, HEAD, |to| body.fill(0, to));
    }
}

/// # Safety
/// As for [`SegmentView::write`].
#[inline(always)]
unsafe fn store_lines<const LINES: usize, G: SegmentView>(view: &G, at: usize, data: &[u8; IN_SLOT]) {
    for (n, line) in data.as_chunks::<UNIT>().0.iter().take(LINES).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { view.write(at + n * UNIT, UNIT, |to| to.copy_from_slice(line)) };
    }
}

/// How many bodies were returned, as a word of that says, modulo what it has room for.
fn count(returned: u64) -> u64 {
    returned & ((1 << LAST) - 1)
}

pub(in crate::shm) struct Producer {
    plan: Plan,
    tail: Next,
    /// From this slot on, lines are taken ahead: see [`AHEAD`].
    run_from: u64,
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
    /// See [`Producer::set_gathers`].
    gathers: bool,
    /// The number of the slot after our last [`ASK`].
    asked: u64,
    /// Whether the last push found no room.
    stuck: bool,
}

impl Producer {
    pub(in crate::shm) fn new(plan: Plan) -> Producer {
        Producer {
            tail: Next::first(&plan),
            run_from: RUN,
            plan,
            head: 0,
            seen: 0,
            payload: PayloadRing::new(plan.data, plan.low),
            back: 0,
            returned: 0,
            distance: Distance::new(),
            wide: false,
            gathers: false,
            asked: 0,
            stuck: false,
        }
    }

    /// Has bodies that are not short go through the whole payload ring from now on: that is faster, and takes its memory, which is
    /// provided at once.
    pub(in crate::shm) fn set_wide<G: SegmentView>(&mut self, view: &G) {
        self.wide = true;
        view.populate(self.plan.data_at, self.plan.data);
    }

    /// A frame has come from the other side, perhaps an answer.
    #[inline(always)]
    pub(in crate::shm) fn heard(&mut self) {
        self.run_from = self.tail.n + RUN;
    }

    /// Publishes one frame with the first `fields` of its fields and a body of `len` bytes. Returns whether there was room. `kept` is where a
    /// body of so many units may go that returns a piece: see [`Consumer::give_up`].
    #[inline(always)]
    pub(in crate::shm) fn push<G: SegmentView>(
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
        let begin = begin(frame.tag, fields, len);
        let at = if begin + len <= SLOT {
            self.tail.slot + begin
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
        // SAFETY: the consumer's index has passed the last frame that had this slot or this piece of the payload ring, or the piece is
        // kept or has come back; and it learns of the new one by the word that is written below.
        unsafe {
            if is_msg(frame.tag) && at % UNIT == LEAD {
                if at < self.plan.rings_at && len > HEAD + UNIT {
                    write_in_lines(view, at, len, body);
                } else {
                    write_head_last(view, at, len, body);
                }
            } else if len > 0 {
                view.write(at, len, |to| body.fill(0, to));
            }
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
            view.store(self.plan.returns, count(self.returned) | u64::from(start) << LAST, Relaxed);
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
    pub(in crate::shm) fn is_wide(&self) -> bool {
        self.wide
    }

    /// Says of the bulk that follows whether its data are gathered from many short runs: then it stays in the near part. The gaps are loaded
    /// into the caches too, so the whole ring does not fit in them.
    pub(in crate::shm) fn set_gathers(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    fn region(&self, frame: Frame, len: usize) -> Region {
        match frame.tag & !ACK_NOW {
            BULK if (self.gathers || frame.fields[1] >= VAST) && len <= self.plan.low => Region::Near,
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
        if self.tail.n > self.run_from {
            // Behind the last slot that is a line of something else, which does no harm.
            view.expect_store(slot + AHEAD * SLOT);
        }
    }

    /// Reads the consumer's index.
    fn look<G: SegmentView>(&mut self, view: &G) {
        self.seen = self.distance.load(self.seen, || view.load(self.plan.index, Acquire));
        let (head, keeps) = (consumed(self.seen), self.seen >> KEPT == 1);
        // An index that cannot be is ignored.
        if (self.head..=self.tail.n).contains(&head) {
            self.head = head;
            // A piece that is on its way back is no longer kept, and not free until it has been read. This word is read behind the index:
            // then it counts all that was returned before that was written.
            let returned = view.load(self.plan.returned, Relaxed);
            match count(returned.wrapping_sub(self.back)) {
                0 => self.payload.free(head, keeps),
                1 => {
                    let last = ((returned >> LAST) as u32).checked_sub(self.plan.first());
                    self.payload.free_before(head, keeps, last);
                }
                // Only of the last one it is known which it is.
                _ => {}
            }
        }
    }

    /// The other side has returned the piece that begins here, and we read next what is in it. Only one that was given out can come back.
    #[inline(never)]
    pub(in crate::shm) fn take_back<G: SegmentView>(&mut self, view: &G, start: u32) -> Result<(), Malformed> {
        let slot = start.checked_sub(self.plan.first()).and_then(|start| self.payload.take_back(start));
        self.head = self.head.max(slot.ok_or(Malformed)? + 1);
        self.back += 1;
        self.stuck = false;
        if self.back.is_multiple_of(BACK) {
            self.look(view);
        }
        Ok(())
    }

    /// Whether the consumer has consumed all that was published.
    pub(in crate::shm) fn is_read<G: SegmentView>(&self, view: &G) -> bool {
        consumed(view.load(self.plan.index, Acquire)) == self.tail.n
    }

    /// Whether the last push found no room, and the consumer has consumed nothing since.
    pub(in crate::shm) fn is_stuck<G: SegmentView>(&self, view: &G) -> bool {
        self.stuck && consumed(view.load(self.plan.index, Acquire)) == self.head
    }

    /// Asks the consumer to ring our doorbell when it has consumed all frames. Returns false if that was asked already.
    pub(in crate::shm) fn ask<G: SegmentView>(&mut self, view: &G) -> bool {
        self.look(view);
        if self.asked > self.head {
            return false;
        }
        self.publish(view, 0, Frame::new(ASK), 0);
        self.asked = self.tail.n;
        true
    }

    /// Shows the frames that were published and that the consumer has not consumed, the oldest first.
    pub(in crate::shm) fn unread<G: SegmentView>(&mut self, view: &G, mut f: impl FnMut(&Frame, &[u8])) {
        self.look(view);
        for n in self.head..self.tail.n {
            let slot = self.plan.slot(n);
            let word = view.load(slot, Acquire);
            let mut frame = Frame::of(word);
            if let Ok(body) = open(view, &self.plan, slot, word, &mut frame)
                && frame.tag != ASK
            {
                // SAFETY: only the producer writes there, and it does not do so here. If the other side lives, it may just read the last of
                // these and write to a piece that has come back with it: it has that body then, and drops it when it comes again.
                unsafe { view.read(body.start, body.len(), |bytes| f(&frame, bytes)) };
            }
        }
    }
}
