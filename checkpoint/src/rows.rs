//! The rows of other jobs' cuts that a process keeps until it knows whether a line has them.
//!
//! Invariant: all of them take at most [`MOST_BYTES`], and those of one job take no room of another's.

use crate::line::{Job, Rows};
use base::shares::Shares;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of all rows: those of a job of a million processes, and as much for others.
const MOST_BYTES: usize = 256 << 20;
/// What a row takes, and a number in it.
const ROW: usize = 96;
const NUMBER: usize = 16;
/// Cuts of another job whose rows are kept while this one has no cut, and once it has: a line has the newest, or nearly.
const MOST_ROWS: usize = 8;
const MOST_WAITING: usize = 64;

/// The rows of one cut.
#[derive(Clone, Debug, Default)]
struct OfCut {
    rows: Rows,
    /// The last part has come.
    is_whole: bool,
    bytes: usize,
}

/// The rows that are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherRows {
    of: BTreeMap<(Job, u64), OfCut>,
    /// The newest cuts whose rows were dropped.
    dropped: BTreeMap<Job, u64>,
    shares: Shares<Job>,
}

impl OtherRows {
    /// Adds a part of the rows of a cut. For room, older cuts of the job are dropped that are not `in_line`. `false`: there is
    /// none, and those of this cut are dropped. What comes behind the last part counts for nothing: lines have been compared with
    /// the rows as they were.
    pub fn add(
        &mut self,
        (job, serial): (Job, u64),
        part: Rows,
        is_last: bool,
        no_cut: bool,
        in_line: impl Fn(u64) -> bool,
    ) -> bool {
        if self.has_dropped(job, serial) {
            return false;
        }
        if self.whole(job, serial).is_some() {
            return true;
        }
        let most = if no_cut { MOST_ROWS } else { MOST_WAITING };
        let bytes = part.values().map(|row| ROW + NUMBER * row.leaving.len()).sum::<usize>() + ROW;
        let its = self.of.range((job, 0)..=(job, u64::MAX)).map(|((_, serial), _)| *serial);
        let mut its: BTreeSet<u64> = its.chain([serial]).collect();
        while its.len() > most || !self.shares.take(MOST_BYTES, job, bytes) {
            let oldest = its.iter().copied().find(|other| !in_line(*other)).unwrap_or(serial);
            its.remove(&oldest);
            self.drop_one(job, oldest);
            if oldest == serial {
                return false;
            }
        }
        let of = self.of.entry((job, serial)).or_default();
        for (rank, part) in part {
            let row = of.rows.entry(rank).or_default();
            (row.sent, row.arrived) = (row.sent.max(part.sent), row.arrived.max(part.arrived));
            row.leaving.extend(part.leaving);
        }
        of.is_whole |= is_last;
        of.bytes += bytes;
        true
    }

    fn drop_one(&mut self, job: Job, serial: u64) {
        let dropped = self.dropped.entry(job).or_default();
        *dropped = serial.max(*dropped);
        if let Some(of) = self.of.remove(&(job, serial)) {
            self.shares.give_back(job, of.bytes);
        }
    }

    /// The rows of a cut, as far as they have come.
    pub fn get(&self, job: Job, serial: u64) -> Option<&Rows> {
        self.of.get(&(job, serial)).map(|of| &of.rows)
    }

    /// The rows of a cut, once all have come.
    pub fn whole(&self, job: Job, serial: u64) -> Option<&Rows> {
        self.of.get(&(job, serial)).filter(|of| of.is_whole).map(|of| &of.rows)
    }

    /// Whether rows of this cut were dropped, or need not come any more since those of a newer one were.
    pub fn has_dropped(&self, job: Job, serial: u64) -> bool {
        self.dropped.get(&job).is_some_and(|dropped| serial <= *dropped) && !self.of.contains_key(&(job, serial))
    }

    /// Whether there are rows of this job.
    pub fn has_of(&self, job: Job) -> bool {
        self.of.range((job, 0)..=(job, u64::MAX)).next().is_some()
    }

    /// How many cuts it has rows of.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Forgets rows that are of no use.
    pub fn retain(&mut self, is_used: impl Fn(Job, u64) -> bool) {
        let shares = &mut self.shares;
        self.of.retain(|(job, serial), of| {
            let stays = is_used(*job, *serial);
            if !stays {
                shares.give_back(*job, of.bytes);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Row;

    #[test]
    fn rows_that_are_whole_stay_as_they_are() {
        let mut rows = OtherRows::default();
        let row = |sent| -> Rows { [(0, Row { sent, ..Row::default() })].into() };
        assert!(rows.add((7, 1), row(1), false, false, |_| true) && rows.add((7, 1), row(2), true, false, |_| true));
        assert!(rows.add((7, 1), row(u64::MAX), true, false, |_| true), "nothing is dropped for it");
        assert_eq!(rows.whole(7, 1).map(|rows| rows[&0].sent), Some(2));
    }

    fn part(from: u64, numbers: u64) -> Rows {
        [(0, Row { sent: 9, arrived: 9, leaving: (from..from + numbers).collect() })].into()
    }

    #[test]
    fn one_job_takes_no_room_of_another() {
        let mut rows = OtherRows::default();
        // Parts without end: they are dropped, and the cut with them.
        let mut n = 0;
        while rows.add((7, 1), part(50_000 * n, 50_000), false, false, |_| true) {
            n += 1;
            assert!(50_000 * n as usize * NUMBER < MOST_BYTES, "it ends");
        }
        assert!(rows.has_dropped(7, 1) && rows.get(7, 1).is_none());
        assert!(!rows.add((7, 1), part(0, 1), true, false, |_| true), "it is not begun anew");
        // Cuts without end: the newest stay.
        for serial in 2..200 {
            assert!(rows.add((7, serial), part(0, 50_000), true, false, |_| false));
        }
        assert_eq!((rows.len(), rows.has_dropped(7, 135), rows.has_dropped(7, 136)), (MOST_WAITING, true, false));
        assert!(rows.add((8, 1), part(0, 50_000), true, false, |_| false) && rows.whole(8, 1).is_some());
        for serial in 200..300 {
            assert!(rows.add((7, serial), part(0, 1), true, true, |serial| serial == 150));
        }
        assert_eq!((rows.len(), rows.whole(7, 150).is_some()), (MOST_ROWS + 1, true));
        rows.retain(|_, _| false);
        assert!(rows.shares.take(MOST_BYTES, 9, MOST_BYTES / 2));
    }
}
