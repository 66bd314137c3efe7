//! The partitions of a partitioned send: which are ready, and which bytes may leave. Used by the engine only.
//! Invariant: bytes that are asked for and not put out are either in `ranges` of the send (ready) or held here, never
//! in both.

use crate::intervals::{Intervals, MOST};
use serde::{Deserialize, Serialize};

/// The most separate pieces in which ready partitions leave: half of those that a receiver keeps apart.
const MOST_RUNS: u64 = 8 << 10;

/// The partitions of one send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parts {
    count: u64,
    /// Bytes of one partition.
    each: u64,
    /// The numbers of the partitions that are ready.
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

    /// Whether the partitions of a message of `size` bytes, read from bytes, are such as [`Parts::new`] makes.
    pub fn is_sound(&self, size: Option<u64>) -> bool {
        let (Ok(count), Some(bytes)) = (u32::try_from(self.count), self.count.checked_mul(self.each)) else {
            return false;
        };
        size.is_none_or(|size| Parts::new(count, size).each == self.each)
            && bytes < MOST
            && self.ready.is_sound(self.count)
            && self.held.is_sound(size.unwrap_or(bytes))
    }

    pub fn all_ready(&self) -> bool {
        self.ready.covers(0, self.count)
    }

    /// Whether the envelope may leave. A message without data is only an envelope, so that leaves when all partitions
    /// are ready.
    pub fn may_leave(&self) -> bool {
        self.each > 0 || self.all_ready()
    }

    /// Whether the message has no data.
    pub fn is_empty(&self) -> bool {
        self.each == 0
    }

    /// Partitions `start..end` of each of `runs` are ready. The runs are in ascending order. False, and nothing has
    /// changed, if there is no such partition, or if one of them is ready already.
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

    /// Moves from `held` to `ranges` the bytes that may leave now that these runs are ready.
    pub fn release_now(&mut self, runs: &[(u32, u32)], ranges: &mut Intervals) {
        for &(start, _) in runs {
            if let Some(run) = self.ready.range_at(start.into()) {
                self.release(run, ranges);
            }
        }
    }

    /// The bytes that may leave of a run of ready partitions. If there are too many partitions to leave one by one,
    /// they leave in whole groups.
    fn bytes_of(&self, (start, end): (u64, u64)) -> (u64, u64) {
        let group = self.count.div_ceil(2 * MOST_RUNS).max(1);
        let first = start.next_multiple_of(group);
        let last = if end == self.count { end } else { end - end % group };
        (first * self.each, last.max(first) * self.each)
    }

    /// The receiver asks for the bytes `start..end`. Adds those that are ready to `ranges`, and holds the rest.
    pub fn asked(&mut self, start: u64, end: u64, most: usize, ranges: &mut Intervals) {
        self.held.insert(start, end);
        self.held.join_beyond(most + 2 * MOST_RUNS as usize);
        let runs: Vec<_> = self.ready.ranges().collect();
        for run in runs {
            self.release(run, ranges);
        }
    }

    /// Moves from `held` to `ranges` the bytes that may leave of a run of ready partitions.
    fn release(&mut self, run: (u64, u64), ranges: &mut Intervals) {
        let (start, end) = self.bytes_of(run);
        for (start, end) in self.held.take_within(start, end) {
            ranges.insert(start, end);
        }
    }
}
