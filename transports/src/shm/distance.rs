//! How far the other side's processor is: whether a line that it has written is here at once.
//!
//! Used by [`super::ring::Producer`], which announces long bodies in another way where it is near. Invariant: only speed depends on
//! what is found here. It changes when the scheduler moves either process, or a host its virtual machine.

use std::time::{Duration, Instant};

/// A load of such a line and a reading of the clock take 30 to 40 ns where both sides are threads of one core, and several times as long
/// between cores.
const NEAR: Duration = Duration::from_nanos(80);
/// After so many loads one after the other that took longer, it is far; one may have been interrupted.
const SURE: u32 = 3;
/// One of so many loads is timed.
const TIMED: u32 = 8;

pub(super) struct Distance {
    loads: u32,
    /// Loads that took longer since the last one that did not.
    slow: u32,
}

impl Distance {
    /// It is taken to be far until something is known.
    pub(super) fn new() -> Distance {
        Distance { loads: 0, slow: SURE }
    }

    pub(super) fn is_near(&self) -> bool {
        self.slow < SURE
    }

    /// Loads a word that the other side writes, by `load`. `known`: what it was before.
    pub(super) fn load(&mut self, known: u64, load: impl FnOnce() -> u64) -> u64 {
        self.loads = self.loads.wrapping_add(1);
        if self.loads % TIMED != 1 {
            return load();
        }
        let begun = Instant::now();
        let word = load();
        let took = begun.elapsed();
        // One that is the same may be in this processor's own cache.
        if word != known {
            self.note(took);
        }
        word
    }

    fn note(&mut self, took: Duration) {
        self.slow = if took < NEAR { 0 } else { (self.slow + 1).min(SURE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_quick_load_shows_that_it_is_near_and_only_several_slow_ones_that_it_is_far() {
        let mut distance = Distance::new();
        assert!(!distance.is_near());
        distance.note(NEAR / 2);
        assert!(distance.is_near());
        for n in 1..=SURE + 1 {
            distance.note(NEAR);
            assert_eq!(distance.is_near(), n < SURE);
        }
        distance.note(Duration::ZERO);
        assert!(distance.is_near());
    }

    #[test]
    fn a_word_that_has_not_changed_says_nothing() {
        let mut distance = Distance::new();
        (0..10 * TIMED).for_each(|_| assert_eq!(distance.load(7, || 7), 7));
        assert!(!distance.is_near());
    }
}
