//! Of a partitioned send: which partitions are ready, and which bytes may therefore leave. Data of the engine.
//! Invariant: what is asked for and not put out is either ready (`ranges` of the send) or held here, never both.

use crate::intervals::Intervals;
use serde::{Deserialize, Serialize};

/// Ready partitions leave in at most so many separate pieces, however many there are: half of what a receiver keeps apart.
const MOST_RUNS: u64 = 8 << 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parts {
    count: u64,
    /// Bytes of one.
    each: u64,
    /// By their numbers.
    ready: Intervals,
    /// Bytes that are asked for and not ready.
    held: Intervals,
}

impl Parts {
    pub fn new(count: u32, size: u64) -> Parts {
        let count = u64::from(count);
        let each = size.checked_div(count).unwrap_or(0);
        Parts { count, each, ready: Intervals::default(), held: Intervals::default() }
    }

    pub fn all_ready(&self) -> bool {
        self.ready.covers(0, self.count)
    }

    /// Whether the envelope may leave. One without data is all there is to wait for, so it comes last.
    pub fn may_leave(&self) -> bool {
        self.each > 0 || self.all_ready()
    }

    /// Whether there is nothing in it but the envelope.
    pub fn is_empty(&self) -> bool {
        self.each == 0
    }

    /// Partitions `start..end` of each of `runs`, in order, are ready. False, and nothing has changed, if there is no such
    /// partition, or one of them has been ready before.
    #[must_use]
    pub fn make_ready(&mut self, runs: &[(u32, u32)]) -> bool {
        let mut last = 0;
        for &(start, end) in runs {
            if start < last || u64::from(end) > self.count || self.ready.meets(start.into(), end.into()) {
                return false;
            }
            last = end;
        }
        runs.iter().for_each(|&(start, end)| self.ready.insert(start.into(), end.into()));
        true
    }

    /// Of what is held, moves to `ranges` what these runs, which are ready now, let go.
    pub fn release_now(&mut self, runs: &[(u32, u32)], ranges: &mut Intervals) {
        for &(start, _) in runs {
            if let Some(run) = self.ready.range_at(start.into()) {
                self.release(run, ranges);
            }
        }
    }

    /// The bytes that may leave of a run of ready partitions: whole groups, where there are too many to go one by one.
    fn bytes_of(&self, (start, end): (u64, u64)) -> (u64, u64) {
        let group = self.count.div_ceil(2 * MOST_RUNS).max(1);
        let first = start.next_multiple_of(group);
        let last = if end == self.count { end } else { end - end % group };
        (first * self.each, last.max(first) * self.each)
    }

    /// `start..end` is asked for: adds to `ranges` what is ready of it, and holds the rest.
    pub fn asked(&mut self, start: u64, end: u64, most: usize, ranges: &mut Intervals) {
        self.held.insert(start, end);
        self.held.join_beyond(most + 2 * MOST_RUNS as usize);
        let runs: Vec<_> = self.ready.ranges().collect();
        for run in runs {
            self.release(run, ranges);
        }
    }

    /// Of what is held, moves to `ranges` what a run of ready partitions lets go.
    fn release(&mut self, run: (u64, u64), ranges: &mut Intervals) {
        let (start, end) = self.bytes_of(run);
        for (start, end) in self.held.take_within(start, end) {
            ranges.insert(start, end);
        }
    }
}
