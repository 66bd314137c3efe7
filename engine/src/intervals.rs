//! Sets of `u64` as disjoint ranges, for the bytes of a transfer and for the numbers of closed contexts.
//!
//! Invariant: ranges are not empty, do not overlap and do not touch.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

/// No count and no size that is read from a snapshot reaches this, so two of them can be added.
pub(crate) const MOST: u64 = 1 << 62;

/// A set of numbers: the start of each range, and its end (exclusive).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    /// Adds `start..end`.
    pub fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        match self.0.range_mut(..=start).next_back() {
            Some((_, e)) if *e >= end => return,
            // Most of them follow the one before, which is made longer.
            Some((&s, e)) if *e >= start => (start, *e) = (s, end),
            _ => drop(self.0.insert(start, end)),
        }
        while let Some((&s, &e)) = self.0.range((Excluded(start), Included(end))).next() {
            self.0.remove(&s);
            if e > end {
                end = e;
                self.0.insert(start, end);
            }
        }
    }

    /// Removes the lowest range, or its first `max` numbers if it is longer, and returns what was removed.
    pub fn take_first(&mut self, max: u64) -> Option<(u64, u64)> {
        let (start, end) = self.0.pop_first()?;
        let cut = end.min(start.saturating_add(max));
        if cut < end {
            self.0.insert(cut, end);
        }
        Some((start, cut))
    }

    /// Removes all numbers of `start..end`, and returns the ranges that were in the set, the highest first.
    pub fn take_within(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        // From the highest range down: only the lowest of them can begin before `start`.
        while let Some((&s, &e)) = self.0.range(..end).next_back()
            && e > start
        {
            self.0.remove(&s);
            if e > end {
                self.0.insert(end, e);
            }
            if s < start {
                self.0.insert(s, start);
            }
            taken.push((s.max(start), e.min(end)));
        }
        taken
    }

    pub fn contains(&self, value: u64) -> bool {
        self.range_at(value).is_some()
    }

    /// The range that contains `value`.
    pub fn range_at(&self, value: u64) -> Option<(u64, u64)> {
        self.0.range(..=value).next_back().map(|(&s, &e)| (s, e)).filter(|(_, e)| value < *e)
    }

    /// All ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&s, &e)| (s, e))
    }

    /// Whether the set has any number of `start..end`.
    pub fn meets(&self, start: u64, end: u64) -> bool {
        start < end && self.0.range(..end).next_back().is_some_and(|(_, &e)| e > start)
    }

    /// Whether the set has all numbers of `start..end`.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.range_at(start).is_some_and(|(_, e)| e >= end)
    }

    /// The ranges of `0..end` that are not in the set.
    pub fn missing(&self, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for (&s, &e) in self.0.range(..end) {
            if at < s {
                gaps.push((at, s));
            }
            at = e;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Makes one range of all ranges, and of the gaps between them, if there are more than `most`.
    pub fn join_beyond(&mut self, most: usize) {
        if self.0.len() > most
            && let (Some((&start, _)), Some((_, &end))) = (self.0.first_key_value(), self.0.last_key_value())
        {
            self.0 = BTreeMap::from([(start, end)]);
        }
    }

    /// Drops the lowest ranges until `most` are left.
    pub fn keep_last(&mut self, most: usize) {
        while self.0.len() > most {
            self.0.pop_first();
        }
    }

    /// Whether `start..end` can be added without making more than `most` ranges.
    pub fn takes(&self, start: u64, end: u64, most: usize) -> bool {
        self.0.len() < most || self.0.range(..=end).next_back().is_some_and(|(_, &e)| e >= start)
    }

    /// Whether the ranges of a set that was read from bytes keep the invariant, and all numbers are below `end`.
    pub fn is_sound(&self, end: u64) -> bool {
        let mut last = None;
        self.0.iter().all(|(&s, &e)| s < e && e <= end && last.replace(e).is_none_or(|last| last < s))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in the set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(s, e)| e - s).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_set_of_flags() {
        let mut x = 1u64;
        for _ in 0..200 {
            let mut set = Intervals::default();
            let mut flags = [false; 40];
            for _ in 0..12 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let start = (x >> 33) % 40;
                let end = (start + (x >> 50) % 9).min(40);
                set.insert(start, end);
                flags[start as usize..end as usize].fill(true);
                assert!(set.is_sound(40));
                for (i, &f) in flags.iter().enumerate() {
                    assert_eq!(set.contains(i as u64), f);
                }
                let missing: u64 = set.missing(40).iter().map(|(s, e)| e - s).sum();
                assert_eq!(missing, flags.iter().filter(|f| !**f).count() as u64);
                assert_eq!(set.count(), 40 - missing);
                let mut joined = set.clone();
                joined.join_beyond(1);
                assert_eq!(joined.0.len(), set.0.len().min(1));
                let edge = |s: &Intervals| (s.0.keys().next().copied(), s.0.values().next_back().copied());
                assert_eq!(edge(&joined), edge(&set));
                for (start, end) in [(start, start + 1), (0, 1), (39, 40)] {
                    let mut more = set.clone();
                    more.insert(start, end);
                    assert_eq!(set.takes(start, end, set.0.len()), more.0.len() <= set.0.len());
                }
                assert_eq!(set.covers(0, 40), missing == 0);
                let part = start as usize..end as usize;
                assert_eq!(set.covers(start, end), flags[part.clone()].iter().all(|f| *f));
                let (mut rest, from, to) = (set.clone(), start.saturating_sub(3), end + 2);
                let (from, to) = (from, to.min(40));
                let inside = &flags[from as usize..to as usize];
                assert_eq!(set.meets(from, to), inside.contains(&true));
                let taken = rest.take_within(from, to);
                assert!(taken.iter().all(|(s, e)| from <= *s && s < e && *e <= to));
                assert_eq!(
                    taken.iter().map(|(s, e)| (e - s) as usize).sum::<usize>(),
                    inside.iter().filter(|f| **f).count()
                );
                assert!(!rest.meets(from, to));
                taken.iter().for_each(|(s, e)| rest.insert(*s, *e));
                assert_eq!(rest, set);
                assert!(set.ranges().all(|r| set.range_at(r.0) == Some(r) && set.range_at(r.1 - 1) == Some(r)));
            }
            while let Some((s, e)) = set.take_first(3) {
                assert!(s < e && e - s <= 3);
                flags[s as usize..e as usize].fill(false);
            }
            assert!(flags.iter().all(|f| !f));
        }
    }
}
