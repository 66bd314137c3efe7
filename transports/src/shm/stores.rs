//! How a body is stored into a payload ring: through the caches, or past them.
//!
//! Used by the lane for what it sends. The receiver has read the ring's lines, so they are in its cache. To store through the
//! caches, this processor has to own each line first. Where the other one shares a cache that takes some nanoseconds; where it
//! does not, it takes longer than to write the line to memory and to have it read from there. Virtual machines move between both
//! while they run, so it is measured, on some bodies of middle size.
//!
//! Invariant: only speed depends on what is chosen here.

use base::Stores;
use std::time::Instant;

/// Shorter bodies always go through the caches.
const SHORT: usize = 1 << 10;
/// Longer bodies always go past them: then the time to own the lines is longer than the way to memory, however near the other
/// processor is.
const LONG: usize = 8 << 10;
/// The time to own and store a line through the caches, in nanoseconds, from which on the other processor is far away. It takes some 3
/// where both share a cache, and some 17 where they do not.
const FAR: f32 = 8.0;
/// Of so many bodies of middle size, one is measured.
const EVERY: u32 = 16;
/// Measured times of which the least counts: others may have an interruption in them.
const LAST: usize = 3;

const LINE: usize = 64;

/// What is known of the way to the other processor.
#[derive(Default)]
pub(super) struct StoreChoice {
    is_far: bool,
    bodies: u32,
    /// The last measured times of a line, in nanoseconds.
    last: [f32; LAST],
    measured: usize,
}

impl StoreChoice {
    /// How a body of this length is stored; and when that began, if it is measured.
    #[inline]
    pub(super) fn choose(&mut self, len: usize) -> (Stores, Option<Instant>) {
        match len {
            _ if len < SHORT => (Stores::Cached, None),
            _ if len > LONG => (Stores::NonTemporal, None),
            _ => self.choose_middle(),
        }
    }

    fn choose_middle(&mut self) -> (Stores, Option<Instant>) {
        self.bodies = self.bodies.wrapping_add(1);
        match self.bodies.is_multiple_of(EVERY) {
            true => (Stores::Cached, Some(Instant::now())),
            false if self.is_far => (Stores::NonTemporal, None),
            false => (Stores::Cached, None),
        }
    }

    /// A body of this length was stored through the caches since then.
    #[cold]
    pub(super) fn note(&mut self, len: usize, since: Instant) {
        self.note_time(since.elapsed().as_nanos() as f32 / (len / LINE).max(1) as f32);
    }

    fn note_time(&mut self, of_a_line: f32) {
        self.last[self.measured % LAST] = of_a_line;
        self.measured += 1;
        if self.measured >= LAST {
            self.is_far = self.last.iter().all(|time| *time >= FAR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_middle_size_go_by_what_was_measured() {
        let mut choice = StoreChoice::default();
        let stores = |choice: &mut StoreChoice| {
            let all: Vec<_> = (0..EVERY).map(|_| choice.choose(SHORT)).collect();
            assert_eq!(all.iter().filter(|(_, since)| since.is_some()).count(), 1, "one is measured");
            assert!(all.iter().all(|(stores, since)| since.is_none() || *stores == Stores::Cached));
            all[0].0
        };
        assert_eq!(stores(&mut choice), Stores::Cached);
        [17.0, 20.0].into_iter().for_each(|time| choice.note_time(time));
        assert_eq!(stores(&mut choice), Stores::Cached, "too little is known");
        choice.note_time(16.0);
        assert_eq!(stores(&mut choice), Stores::NonTemporal);
        choice.note_time(3.0);
        assert_eq!(stores(&mut choice), Stores::Cached, "the other processor is near again");
        [90.0, 90.0].into_iter().for_each(|time| choice.note_time(time));
        assert_eq!(stores(&mut choice), Stores::Cached, "interruptions do not count");
        assert_eq!(choice.choose(SHORT - 1), (Stores::Cached, None));
        assert_eq!(choice.choose(LONG + 1), (Stores::NonTemporal, None));
    }
}
