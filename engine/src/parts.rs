//! Partitioned sends: which partitions are ready, and which bytes may therefore leave. Part of the engine.
//! Invariant: what is asked for and not put out is either ready (`ranges` of the send) or held here, never both.

use crate::intervals::Intervals;
use crate::state::{Op, State};
use crate::{Engine, OpId, Outcome};
use base::Memory;
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

impl Engine {
    /// Partitions `start..end` of each of `runs`, in order, of a partitioned send are ready. False, and nothing has
    /// changed, if there is no such send, or no such partition, or one of them has been ready before.
    #[must_use]
    pub fn ready<M: Memory>(&mut self, mem: &M, op: OpId, runs: &[(u32, u32)]) -> bool {
        let Some(Op { state, more: Some(more), .. }) = self.ops.get_mut(op.0) else {
            return false;
        };
        let Some(parts) = &mut more.parts else { return false };
        let mut last = 0;
        for &(start, end) in runs {
            if start < last || u64::from(end) > parts.count || parts.ready.meets(start.into(), end.into()) {
                return false;
            }
            last = end;
        }
        runs.iter().for_each(|&(start, end)| parts.ready.insert(start.into(), end.into()));
        match state {
            State::Sending(sending) => {
                for &(start, _) in runs {
                    if let Some(run) = parts.ready.range_at(start.into()) {
                        parts.release(run, &mut sending.ranges);
                    }
                }
                if !sending.queued && !sending.ranges.is_empty() {
                    sending.queued = true;
                    let peer = sending.peer;
                    self.queue_bulk(peer, op.0);
                }
            }
            State::Queued(to) if parts.each == 0 && parts.all_ready() => {
                let peer = to.peer;
                self.line_up(mem, peer, op.0);
            }
            State::Delivered if parts.all_ready() => self.end(op.0, Outcome::Sent),
            _ => {}
        }
        true
    }

    /// Whether all partitions of a partitioned send are ready, as far as there is one.
    pub fn all_ready(&self, op: OpId) -> bool {
        self.ops.get(op.0).and_then(Op::parts).is_none_or(|parts| parts.all_ready())
    }
}
