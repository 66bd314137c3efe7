//! The latest changes, for clients that watch. The server alone calls this.
//!
//! Invariant: it is bounded, and holds no secrets.

use crate::fate::Fate;
use crate::wire::{Answer, Change, PAGE};
use std::collections::VecDeque;
use std::time::Instant;

const MAX_JOURNAL: usize = 4096;
const MAX_JOURNAL_BYTES: usize = 4 << 20;

/// The latest changes, with the numbers by which clients ask for them.
#[derive(Default)]
pub(super) struct Journal {
    /// The number of the next change.
    next: u64,
    bytes: usize,
    /// Each with its number; these may have gaps.
    lately: VecDeque<(u64, Instant, Fate, Box<[u8]>)>,
    /// The numbers are those of all servers before one store, and another may be ahead.
    common: bool,
}

impl Journal {
    /// One whose numbers are given with the changes. The next is this one at least.
    pub(super) fn common(next: u64) -> Journal {
        Journal { next, common: true, ..Journal::default() }
    }

    /// Adds a change; `shown` is the record without secrets.
    pub(super) fn note(&mut self, fate: Fate, shown: Box<[u8]>, now: Instant) {
        self.note_as(self.next, fate, shown, now);
    }

    /// As [`Journal::note`], with the number that the change has. One that is not larger than the last is known already.
    pub(super) fn note_as(&mut self, number: u64, fate: Fate, shown: Box<[u8]>, now: Instant) {
        if self.lately.back().is_some_and(|(last, ..)| number <= *last) {
            return;
        }
        self.next = self.next.max(number + 1);
        self.bytes += shown.len();
        self.lately.push_back((number, now, fate, shown));
        while self.lately.len() > MAX_JOURNAL || self.bytes > MAX_JOURNAL_BYTES {
            self.bytes -= self.lately.pop_front().map_or(0, |(.., record)| record.len());
        }
    }

    /// The changes from this number on, as many as an answer holds.
    pub(super) fn after(&self, after: Option<u64>, now: Instant) -> Answer {
        // A larger number comes from an earlier server at this address, and means nothing here; or from another server before the
        // same store, which is ahead.
        let known = after.filter(|after| self.common || *after <= self.next);
        let first = self.lately.front().map_or(self.next, |(number, ..)| *number);
        let mut next = known.unwrap_or(self.next).max(first);
        let from = self.lately.partition_point(|(number, ..)| *number < next);
        let (mut changes, mut size) = (Vec::new(), 0);
        for (number, at, fate, record) in self.lately.range(from..) {
            size += record.len() + 16;
            if size > PAGE {
                break;
            }
            let age = now.saturating_duration_since(*at).as_millis() as u64;
            changes.push(Change { fate: *fate, age, record: record.to_vec() });
            next = number + 1;
        }
        Answer::Changes { next, changes, common: self.common }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_went_is_told_once_and_bounded() {
        let (mut journal, now) = (Journal::default(), Instant::now());
        let after = |journal: &Journal, from| match journal.after(from, now) {
            Answer::Changes { next, changes, .. } => (next, changes.iter().map(|c| c.fate).collect::<Vec<_>>()),
            other => panic!("{other:?}"),
        };
        assert_eq!(after(&journal, None), (0, vec![]));
        let air: Box<[u8]> = vec![1; 100].into();
        journal.note(Fate::Claimed, air.clone(), now);
        journal.note(Fate::Over, air, now);
        assert_eq!(after(&journal, None), (2, vec![]));
        assert_eq!(after(&journal, Some(0)), (2, vec![Fate::Claimed, Fate::Over]));
        assert_eq!(after(&journal, Some(1)), (2, vec![Fate::Over]));
        assert_eq!(after(&journal, Some(9)), (2, vec![]), "of another server");
        let large: Box<[u8]> = vec![2; 2000].into();
        (0..2 * MAX_JOURNAL).for_each(|_| journal.note(Fate::Claimed, large.clone(), now));
        assert!(journal.lately.len() <= MAX_JOURNAL && journal.bytes <= MAX_JOURNAL_BYTES);
        let (mut next, mut seen) = (0, 0);
        while next < journal.next {
            let (on, changes) = after(&journal, Some(next));
            seen += changes.len();
            next = on;
        }
        assert_eq!(seen, journal.lately.len(), "page by page");
    }
}
