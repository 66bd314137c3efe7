//! The payload ring: a ring of bytes for bodies that are too long for a slot. The producer alone gives out its pieces.
//!
//! Used by [`super::ring::Producer`]. Invariant: a piece is contiguous, was free when it was given out, and comes back in the
//! order in which pieces were given out. A piece is free again when its slot is consumed, so the consumer says nothing of it; but
//! it may keep the last one, until it consumes another or returns it with a body of its own.

use base::queue::Queue;

/// The bytes of a unit. Positions and sizes in the ring are counted in units.
pub(super) use base::protocol::shared::UNIT;

pub(super) struct PayloadRing {
    /// The size of the ring.
    size: u32,
    /// The part up to here is used first, and the rest only when there is no room in it: so little memory is ever touched.
    low: u32,
    /// The end of the last piece, and of the last wide one.
    at: u32,
    wide_at: u32,
    /// The slot and the start of each piece in use, the oldest first.
    held: Queue<(u64, u32)>,
}

impl PayloadRing {
    pub(super) fn new(bytes: usize, low: usize) -> PayloadRing {
        PayloadRing { size: (bytes / UNIT) as u32, low: (low / UNIT) as u32, at: 0, wide_at: 0, held: Queue::default() }
    }

    /// What [`PayloadRing::place`] finds in most cases, room behind the last piece; `None`: it may find some elsewhere.
    #[inline(always)]
    pub(super) fn next(&self, bytes: usize, wide: bool) -> Option<u32> {
        let units = bytes.div_ceil(UNIT) as u32;
        let end = if wide { self.size } else { self.low };
        let begin = match self.held.front() {
            Some((_, first)) if *first < self.at => self.at.max(if wide { self.wide_at } else { 0 }),
            Some(_) => return None,
            None if wide => self.wide_at,
            None => 0,
        };
        (begin + units <= end).then_some(begin)
    }

    /// Finds room for this number of bytes; `None` if there is none now. `wide`: behind the last such piece, and so through the whole ring.
    /// It is larger than a processor's own caches, so the lines that are written next are not in those of the receiver, who would have
    /// to give them up one by one.
    pub(super) fn place(&self, bytes: usize, wide: bool) -> Option<u32> {
        let units = bytes.div_ceil(UNIT) as u32;
        // A piece may begin behind the end of the last one: what lies between is free too.
        let within = |begin: u32, end: u32| {
            let behind = [self.wide_at.max(begin), begin].into_iter().skip(usize::from(!wide));
            behind.into_iter().find(|at| end.checked_sub(*at).is_some_and(|room| units <= room))
        };
        match self.held.front() {
            None if wide => within(0, self.size).or((units <= self.size).then_some(0)),
            None => within(0, self.size),
            // In use: from `first` to the end, and from 0 to `at`.
            Some(&(_, first)) if self.at <= first => within(self.at, first),
            Some(&(_, first)) => {
                let limit = if wide { self.size } else { self.low };
                let begin = || (units <= first).then_some(0);
                let goes_on = within(self.at, limit);
                goes_on.or_else(begin).or_else(|| within(self.at, self.size))
            }
        }
    }

    /// Whether a body at `start` lies in the part that is used first.
    pub(super) fn is_near(&self, start: u32, bytes: usize) -> bool {
        start + bytes.div_ceil(UNIT) as u32 <= self.low
    }

    /// Gives out the room that [`PayloadRing::place`] has found, for the body of `slot`.
    #[inline(always)]
    pub(super) fn take(&mut self, slot: u64, start: u32, bytes: usize, wide: bool) {
        self.held.push((slot, start));
        self.at = start + bytes.div_ceil(UNIT) as u32;
        if wide {
            self.wide_at = self.at;
        }
    }

    /// Takes back the pieces of all slots before this one, which are consumed; but not the last of them if the consumer keeps it.
    pub(super) fn free(&mut self, slot: u64, but_last: bool) {
        self.free_before(slot, but_last, None);
    }

    /// The same, but nothing from the piece on that begins at `until`: it is on its way back.
    pub(super) fn free_before(&mut self, slot: u64, but_last: bool, until: Option<u32>) {
        let first = usize::from(but_last);
        while self.held.iter().nth(first).is_some_and(|(s, _)| *s < slot)
            && self.held.front().map(|(_, start)| *start) != until
        {
            self.held.pop_front();
        }
    }

    /// The piece that begins here has come back from the consumer, and with it all before. Returns its slot; `None`: it was not given out.
    /// If nothing else is in use, the next body goes to the same place.
    pub(super) fn take_back(&mut self, start: u32) -> Option<u64> {
        let (slot, _) = *self.held.iter().find(|(_, at)| *at == start)?;
        self.free(slot + 1, false);
        if self.held.is_empty() {
            if self.wide_at == self.at {
                self.wide_at = start;
            }
            self.at = start;
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn begins_anew_when_all_is_free() {
        let mut room = PayloadRing::new(64 * UNIT, 16 * UNIT);
        assert_eq!(room.place(UNIT, false), Some(0));
        room.take(5, 0, UNIT + 1, false);
        assert_eq!(room.place(1, false), Some(2));
        room.free(5, false);
        assert_eq!(room.place(1, false), Some(2));
        room.free(6, false);
        assert_eq!(room.place(1, false), Some(0));
    }

    #[test]
    fn goes_far_only_when_it_must() {
        let mut room = PayloadRing::new(64 * UNIT, 16 * UNIT);
        for slot in 0..8 {
            assert_eq!(room.place(4 * UNIT, false), Some(slot as u32 * 4));
            room.take(slot, slot as u32 * 4, 4 * UNIT, false);
        }
        room.free(1, false);
        assert_eq!(room.place(4 * UNIT, false), Some(0));
    }

    #[test]
    fn wide_pieces_go_through_all_of_it() {
        let mut room = PayloadRing::new(10 * UNIT, UNIT);
        for n in 0..5 {
            assert_eq!(room.place(2 * UNIT, true), Some(2 * n));
            room.take(n.into(), 2 * n, 2 * UNIT, true);
            room.free(u64::from(n) + 1, false);
        }
        assert_eq!(room.place(2 * UNIT, true), Some(0), "from the beginning again");
        room.take(5, 0, 2 * UNIT, true);
        assert_eq!(room.place(UNIT, false), Some(2), "the near part is taken");
        room.take(6, 2, UNIT, false);
        room.free(6, false);
        assert_eq!(room.place(UNIT, false), Some(0));
        room.take(7, 0, UNIT, false);
        room.free(8, false);
        assert_eq!(room.place(UNIT, true), Some(2), "others in between make no difference");
        room.take(8, 2, 7 * UNIT, true);
        assert_eq!(room.place(UNIT, true), Some(9));
        assert_eq!(room.place(2 * UNIT, true), Some(0));
        assert_eq!(room.place(3 * UNIT, true), None);
    }

    #[test]
    fn the_last_may_be_kept_and_comes_back() {
        let mut room = PayloadRing::new(64 * UNIT, 16 * UNIT);
        for (slot, start) in [(3, 0), (4, 2), (5, 4)] {
            assert_eq!(room.place(2 * UNIT, true), Some(start));
            room.take(slot, start, 2 * UNIT, true);
        }
        room.free(5, true);
        assert_eq!(room.take_back(0), None, "it was free already");
        assert_eq!(room.take_back(2), Some(4));
        room.free(6, true);
        assert_eq!(room.next(UNIT, true), Some(6), "the last is kept");
        room.free(6, true);
        assert_eq!(room.take_back(4), Some(5));
        assert_eq!(room.next(2 * UNIT, true), Some(4), "where the last one was");
        room.take(6, 4, 2 * UNIT, true);
        room.take(7, 6, UNIT, true);
        room.free_before(8, false, Some(6));
        assert_eq!(room.take_back(4), None, "it was before the one that is on its way");
        assert_eq!(room.next(UNIT, true), Some(7), "that one is still there");
        assert_eq!(room.take_back(6), Some(7));
    }

    #[test]
    fn the_largest_fits_when_all_is_free() {
        let mut room = PayloadRing::new(64 * UNIT, 16 * UNIT);
        room.take(0, 0, UNIT, false);
        assert_eq!(room.place(64 * UNIT, false), None);
        room.free(1, false);
        assert_eq!(room.place(64 * UNIT, false), Some(0));
        assert_eq!(room.place(64 * UNIT + 1, false), None);
    }

    #[test]
    fn pieces_never_overlap() {
        let (size, low) = (96u32, 32u32);
        let mut seed = 7u64;
        let mut roll = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let mut room = PayloadRing::new(size as usize * UNIT, low as usize * UNIT);
        let mut live: VecDeque<(u64, u32, u32)> = VecDeque::new();
        let (mut slot, mut refused, mut wrapped, mut came_back) = (0u64, 0, 0, 0);
        for _ in 0..200_000 {
            let most = if roll(8) == 0 { 40 } else { 7 };
            let bytes = 1 + roll(most * UNIT as u64) as usize;
            let units = bytes.div_ceil(UNIT) as u32;
            let wide = roll(2) == 0;
            if let Some(start) = room.next(bytes, wide) {
                assert_eq!(room.place(bytes, wide), Some(start));
            }
            match room.place(bytes, wide) {
                Some(start) => {
                    assert!(start + units <= size);
                    assert!(live.iter().all(|&(_, s, n)| start + units <= s || s + n <= start));
                    wrapped += u32::from(start == 0 && !live.is_empty());
                    room.take(slot, start, bytes, wide);
                    live.push_back((slot, start, units));
                    // Some slots have no body here.
                    slot += 1 + roll(3);
                }
                None => refused += 1,
            }
            if roll(3) == 0 {
                let n = roll(live.len() as u64 + 1) as usize;
                let head = live.get(n).map_or(slot, |l| l.0);
                let keeps = n > 0 && roll(3) == 0;
                live.drain(..n - usize::from(keeps));
                room.free(head, keeps);
                // What is kept may come back later, or go with what is consumed next.
                if keeps && roll(2) == 0 {
                    let (kept, start, _) = live.pop_front().unwrap();
                    assert_eq!(room.take_back(start), Some(kept));
                    came_back += 1;
                }
            }
        }
        assert!(refused > 1000 && wrapped > 1000 && came_back > 1000, "{refused} {wrapped} {came_back}");
    }
}
