//! Where bodies that are too long for a slot lie: a ring of bytes, given out by the producer alone.
//!
//! Used by [`super::ring::Producer`]. Invariant: what is given out is free, in one piece, and comes back in the order in
//! which it was given. Which slot a piece belongs to says when it is free again, so the consumer need not say it twice.

use std::collections::VecDeque;

/// All is counted in units of so many bytes.
pub use base::protocol::shared::UNIT;

pub struct Room {
    /// Units in all.
    size: u32,
    /// Beyond this only what finds no room before it, so that memory is warm and little of it is ever touched.
    low: u32,
    /// Where the last piece ends.
    at: u32,
    /// (slot, start) of the pieces in use, oldest first.
    held: VecDeque<(u64, u32)>,
}

impl Room {
    pub fn new(bytes: usize, low: usize) -> Room {
        Room { size: (bytes / UNIT) as u32, low: (low / UNIT) as u32, at: 0, held: VecDeque::new() }
    }

    /// Where so many bytes fit now.
    pub fn place(&self, bytes: usize) -> Option<u32> {
        let units = bytes.div_ceil(UNIT) as u32;
        let Some(&(_, first)) = self.held.front() else { return (units <= self.size).then_some(0) };
        if self.at <= first {
            // In use: from `first` to the end, and from 0 to `at`.
            return (units <= first - self.at).then_some(self.at);
        }
        let end = self.at + units;
        if end > self.low && units <= first { Some(0) } else { (end <= self.size).then_some(self.at) }
    }

    /// Whether a body there lies in the part that is used first.
    pub fn is_near(&self, start: u32, bytes: usize) -> bool {
        start + bytes.div_ceil(UNIT) as u32 <= self.low
    }

    /// Gives out what [`Room::place`] has found, for the body of `slot`.
    pub fn take(&mut self, slot: u64, start: u32, bytes: usize) {
        self.held.push_back((slot, start));
        self.at = start + bytes.div_ceil(UNIT) as u32;
    }

    /// All slots before this one are consumed.
    pub fn free(&mut self, slot: u64) {
        while self.held.front().is_some_and(|(s, _)| *s < slot) {
            self.held.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_anew_when_all_is_free() {
        let mut room = Room::new(64 * UNIT, 16 * UNIT);
        assert_eq!(room.place(UNIT), Some(0));
        room.take(5, 0, UNIT + 1);
        assert_eq!(room.place(1), Some(2));
        room.free(5);
        assert_eq!(room.place(1), Some(2));
        room.free(6);
        assert_eq!(room.place(1), Some(0));
    }

    #[test]
    fn goes_far_only_when_it_must() {
        let mut room = Room::new(64 * UNIT, 16 * UNIT);
        for slot in 0..8 {
            assert_eq!(room.place(4 * UNIT), Some(slot as u32 * 4));
            room.take(slot, slot as u32 * 4, 4 * UNIT);
        }
        room.free(1);
        assert_eq!(room.place(4 * UNIT), Some(0));
    }

    #[test]
    fn the_largest_fits_when_all_is_free() {
        let mut room = Room::new(64 * UNIT, 16 * UNIT);
        room.take(0, 0, UNIT);
        assert_eq!(room.place(64 * UNIT), None);
        room.free(1);
        assert_eq!(room.place(64 * UNIT), Some(0));
        assert_eq!(room.place(64 * UNIT + 1), None);
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
        let mut room = Room::new(size as usize * UNIT, low as usize * UNIT);
        let mut live: VecDeque<(u64, u32, u32)> = VecDeque::new();
        let (mut slot, mut refused, mut wrapped) = (0u64, 0, 0);
        for _ in 0..200_000 {
            let most = if roll(8) == 0 { 40 } else { 7 };
            let bytes = 1 + roll(most * UNIT as u64) as usize;
            let units = bytes.div_ceil(UNIT) as u32;
            match room.place(bytes) {
                Some(start) => {
                    assert!(start + units <= size);
                    assert!(live.iter().all(|&(_, s, n)| start + units <= s || s + n <= start));
                    wrapped += u32::from(start == 0 && !live.is_empty());
                    room.take(slot, start, bytes);
                    live.push_back((slot, start, units));
                    // Some slots have no body here.
                    slot += 1 + roll(3);
                }
                None => refused += 1,
            }
            if roll(3) == 0 {
                let n = roll(live.len() as u64 + 1) as usize;
                let head = live.get(n).map_or(slot, |l| l.0);
                live.drain(..n);
                room.free(head);
            }
        }
        assert!(refused > 1000 && wrapped > 1000, "{refused} {wrapped}");
    }
}
