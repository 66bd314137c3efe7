//! How a body is stored into a payload ring: through the caches, or past them.
//!
//! Used by the lane for what it sends. To store through the caches, this processor has to own each line first, which the other one has
//! read. Where both share a cache that takes some nanoseconds; where they do not, it takes longer than to write the line to
//! memory and to have it read from there. Virtual machines move between both while they run, so it is measured.
//!
//! Invariant: only speed depends on what is chosen here.

use base::Stores;
use std::time::Instant;

/// Shorter bodies always go through the caches.
const SHORT: usize = 1 << 10;
/// Longer bodies go as shorter ones have shown to be good: to measure them would take too long where the other processor is far away.
const LONG: usize = 16 << 10;
/// The time to own and store a line through the caches, in nanoseconds, from which on the other processor is far away. It takes
/// 1 to 9 where both share a cache, and some 17 where they do not.
const FAR: f32 = 12.0;
/// Of so many bodies one is measured, while the other processor is near; and while it is far. The first ones are all measured.
const EVERY: u32 = 16;
const SELDOM: u32 = 64;
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
        if len < SHORT { (Stores::Cached, None) } else { self.choose_measured(len) }
    }

    fn choose_measured(&mut self, len: usize) -> (Stores, Option<Instant>) {
        self.bodies += u32::from(len <= LONG);
        let every = match self.is_far {
            _ if self.measured < LAST => 1,
            true => SELDOM,
            false => EVERY,
        };
        if len <= LONG && self.bodies >= every {
            self.bodies = 0;
            return (Stores::Cached, Some(Instant::now()));
        }
        (if self.is_far { Stores::NonTemporal } else { Stores::Cached }, None)
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
    fn bodies_go_by_what_was_measured() {
        let mut choice = StoreChoice::default();
        for time in [17.0, 20.0, 16.0] {
            let (stores, since) = choice.choose(SHORT);
            assert_eq!((stores, since.is_some()), (Stores::Cached, true), "the first ones are measured");
            assert_eq!(choice.choose(LONG + 1), (Stores::Cached, None));
            choice.note_time(time);
        }
        let stores = |choice: &mut StoreChoice, times: u32| {
            let all: Vec<_> = (0..times).map(|_| choice.choose(SHORT)).collect();
            assert_eq!(all.iter().filter(|(_, since)| since.is_some()).count(), 1, "one is measured");
            assert!(all.iter().all(|(stores, since)| since.is_none() || *stores == Stores::Cached));
            assert_eq!(choice.choose(LONG + 1), (all[0].0, None));
            all[0].0
        };
        assert_eq!(stores(&mut choice, SELDOM), Stores::NonTemporal);
        choice.note_time(3.0);
        assert_eq!(stores(&mut choice, EVERY), Stores::Cached, "the other processor is near again");
        [90.0, 90.0].into_iter().for_each(|time| choice.note_time(time));
        assert_eq!(stores(&mut choice, EVERY), Stores::Cached, "interruptions do not count");
        choice.note_time(90.0);
        assert_eq!(choice.choose(SHORT - 1), (Stores::Cached, None));
    }
}
