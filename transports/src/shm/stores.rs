//! How a body is stored into a payload ring: through the caches, or past them.
//!
//! Used by the lane for what it sends. To store through the caches, this processor has to own each line first, which the other one has
//! read. Where both share a cache that takes some nanoseconds; where they do not, it takes longer than to write the line to
//! memory and to have it read from there. Virtual machines move between both while they run, so it is measured again and again.
//!
//! Invariant: only speed depends on what is chosen here.

use base::Stores;
use std::time::Duration;

/// Shorter bodies always go through the caches.
const SHORT: usize = 1 << 10;
/// The nanoseconds to read a line that the other processor has written last, from which on it is far away. It takes 20 to 50 ns where both share a
/// cache, and 120 to 150 where they do not (both with the time that a look at the clock takes).
const FAR: u16 = 85;
/// That is measured before one in so many bodies.
const EVERY: u8 = 16;
/// Measured times of which the least counts: others may have an interruption in them.
const LAST: usize = 3;

/// What is known of the way to the other processor. Every pair has one, connected or not, so it is small.
#[derive(Default)]
pub(super) struct StoreChoice {
    is_far: bool,
    bodies: u8,
    /// How many times were measured, up to [`LAST`], and the last ones in nanoseconds, the latest first.
    measured: u8,
    last: [u16; LAST],
}

impl StoreChoice {
    /// How a body of this length is stored.
    #[inline]
    pub(super) fn choose(&self, len: usize) -> Stores {
        if self.is_far && len >= SHORT { Stores::NonTemporal } else { Stores::Cached }
    }

    /// Whether it is time to measure, before a body of this length.
    #[inline]
    pub(super) fn is_due(&mut self, len: usize) -> bool {
        self.bodies = self.bodies.saturating_add(u8::from(len >= SHORT));
        len >= SHORT && (self.bodies >= EVERY || usize::from(self.measured) < LAST)
    }

    /// To read a line that the other processor had written last has taken this time.
    pub(super) fn note(&mut self, took: Duration) {
        self.bodies = 0;
        self.last.rotate_right(1);
        self.last[0] = took.as_nanos().try_into().unwrap_or(u16::MAX);
        self.measured = (self.measured + 1).min(LAST as u8);
        // Of fewer times, some are 0 here.
        self.is_far = self.last.iter().all(|time| *time >= FAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_go_by_what_was_measured() {
        let mut choice = StoreChoice::default();
        let mut note = |times: &[u64], want| {
            for time in times {
                choice.note(Duration::from_nanos(*time));
            }
            assert_eq!(choice.choose(SHORT), want, "{times:?}");
            assert_eq!(choice.choose(SHORT - 1), Stores::Cached);
            (0..EVERY).filter(|_| choice.is_due(SHORT)).count()
        };
        assert_eq!(note(&[], Stores::Cached), usize::from(EVERY), "nothing is known");
        note(&[130, 140], Stores::Cached);
        assert_eq!(note(&[125], Stores::NonTemporal), 1);
        note(&[40], Stores::Cached);
        note(&[9000, 9000], Stores::Cached);
        note(&[9000], Stores::NonTemporal);
        assert!(!StoreChoice::default().is_due(SHORT - 1));
    }
}
