//! The side that reads frames: see [`super`]. It has what is published until its index has passed it, and the piece that it keeps.

use super::{Frame, Next, Piece, Plan, is_msg, open};
use crate::memory::SegmentView;
use crate::shm::payload::UNIT;
use base::bytes::Malformed;
use base::protocol::shared::{KEPT, LAP, PART, QUESTION as ASK};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Release};

/// When so many frames were found one after the other, the consumer fetches a slot's line so many slots ahead.
const RUN: u32 = 4;
const AHEAD: u64 = 8;

/// A consumer that waits fetches the place of the next body at each look, if that is as long as the last one and no longer than this,
/// as all are that have no parts. So the body comes while the producer writes it, and not after its slot's word. The lines of a slot
/// behind the first are such a place, too.
pub(in crate::shm) const EXPECTED: usize = 49 << 10;

/// After so many lines it looks whether something else has come.
const FETCHED: usize = 64;

/// After so many looks that find nothing it does so no more: what comes then is not urgent, and other lanes are looked at meanwhile.
const LOOKS: u32 = 64;

/// Of a message's body that has no parts so many bytes are fetched as soon as its slot is found. Bulk is copied at once in any case.
const AT_ONCE: usize = 17 << 10;

/// What the consumer has found.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::shm) enum Popped<R> {
    Nothing,
    Frame(R),
    /// The producer asks for its doorbell to be rung, now that all frames before are consumed.
    Asked,
}

pub(in crate::shm) struct Consumer {
    plan: Plan,
    head: Next,
    /// The piece that was read last, and that the producer does not use again yet.
    kept: Option<Piece>,
    /// The whole payload ring is mapped here: the producer uses all of it.
    mapped: bool,
    /// Frames that were found one after the other, without a look that found nothing.
    run: u32,
    /// Where the next body will probably lie, if it is like the last one: behind that, or in the further lines of the next slot.
    expected: Range<usize>,
    /// The looks that have fetched that.
    looks: Cell<u32>,
    /// The last frame was a part.
    in_parts: bool,
}

impl Consumer {
    pub(in crate::shm) fn new(plan: Plan) -> Consumer {
        Consumer {
            head: Next::first(&plan),
            plan,
            kept: None,
            mapped: false,
            run: 0,
            expected: 0..0,
            looks: Cell::new(0),
            in_parts: false,
        }
    }

    /// Whether a frame is there.
    #[inline]
    pub(in crate::shm) fn has_input<G: SegmentView>(&self, view: &G) -> bool {
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
    pub(in crate::shm) fn give_up(&mut self, units: u32) -> Option<u32> {
        let piece = self.kept.filter(|piece| units <= piece.units)?;
        self.kept = None;
        // The next body may lie there again. These lines are here, and to fetch them while they are written takes them from the producer.
        self.expected = 0..0;
        Some(piece.start)
    }

    /// A body in the payload rings was found, and is read next. Returns the piece of ours in which it has come back.
    #[inline(never)]
    fn begin_long<G: SegmentView>(&mut self, view: &G, frame: &Frame, body: &Range<usize>) -> Option<u32> {
        let start = ((body.start - self.plan.rings_at) / UNIT) as u32;
        let (is_own, piece) = (self.plan.is_own(body.start), self.plan.place(start)..body.end);
        self.prefetch(view, frame, &piece, is_own);
        if frame.tag == PART {
            return None;
        }
        if !is_own {
            return Some(start);
        }
        let units = piece.len().div_ceil(UNIT) as u32;
        self.kept = is_msg(frame.tag).then_some(Piece { start, units });
        None
    }

    /// `piece` is where the body lies, with what is before it; `is_own`: that is in this direction's ring.
    fn prefetch<G: SegmentView>(&mut self, view: &G, frame: &Frame, piece: &Range<usize>, is_own: bool) {
        let is_part = frame.tag == PART;
        if is_part {
            // The slot of the next part comes while this one is copied.
            view.expect_load(self.plan.slot(self.head.n + 1));
        }
        let has_like = !is_part && !self.in_parts;
        self.in_parts = is_part;
        let next = if has_like && is_own { self.after(view, piece) } else { 0..0 };
        self.fetch_next(next);
        if has_like && is_msg(frame.tag) {
            // It is in the other processor's cache: all lines come at a time, and not the first one alone until its head is understood.
            (piece.start..piece.end.min(piece.start + AT_ONCE)).step_by(UNIT).for_each(|line| view.expect_load(line));
        }
    }

    /// A body in this direction's ring was found. Returns where the next one will lie, if it is as long and short enough to be fetched before
    /// it is known to be there.
    fn after<G: SegmentView>(&mut self, view: &G, piece: &Range<usize>) -> Range<usize> {
        if piece.end > self.plan.data_at + self.plan.low && !self.mapped {
            // The producer uses the whole ring, so all of it will be read.
            self.mapped = true;
            view.populate(self.plan.data_at, self.plan.data);
        }
        let (begin, len) = (piece.end.next_multiple_of(UNIT), piece.len());
        let fits = len <= EXPECTED && begin + len <= self.plan.data_at + self.plan.data;
        if fits { begin..begin + len } else { 0..0 }
    }

    /// Has the next looks fetch these lines: see [`EXPECTED`].
    #[inline(always)]
    fn fetch_next(&mut self, lines: Range<usize>) {
        self.expected = lines;
        self.looks.set(0);
    }

    /// Consumes the next frame. `f` sees it with its body, which is not valid longer; if `f` returns an error, the frame is not
    /// consumed. `back` hears which piece of ours it comes back in: see [`super::Producer::take_back`].
    #[inline(always)]
    pub(in crate::shm) fn pop<G: SegmentView, R>(
        &mut self,
        view: &G,
        back: impl FnOnce(u32) -> Result<(), Malformed>,
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
        let mut frame = Frame::of(word);
        let body = open(view, &self.plan, self.head.slot, word, &mut frame)?;
        if body.start < self.plan.rings_at {
            // In the slot.
            (self.expected, self.in_parts) = (0..0, false);
            let second = self.head.slot + UNIT;
            if body.end > second {
                (second..body.end).step_by(UNIT).for_each(|line| view.expect_load(line));
                let next = self.plan.slot(self.head.n + 1) + UNIT;
                self.fetch_next(next..next + (body.end - second));
            }
        } else if let Some(start) = self.begin_long(view, &frame, &body) {
            back(start)?;
        }
        let out = if frame.tag == ASK {
            // It may lack just the piece that is kept.
            self.kept = None;
            Popped::Asked
        } else {
            // SAFETY: the producer does not write there before our index has passed this slot. A producer that breaks this
            // runs as the same user as we do, and could write to any memory of ours.
            Popped::Frame(unsafe { view.read(body.start, body.len(), |bytes| f(&frame, bytes)) }?)
        };
        self.head.step(&self.plan);
        let keeps = u64::from(self.kept.is_some()) << KEPT;
        view.store(self.plan.index, self.head.n | keeps, Release);
        Ok(out)
    }
}
