//! Writes a server's names to its ledger. The server alone calls this.
//!
//! Invariant: nothing is told that depends on what the ledger has not got. While it cannot be written, names are renewed and
//! looked up as before, and what would change them is refused and leaves no trace.

use super::ledger::{Ledger, LedgerError};
use super::metrics::{Metrics, count};
use super::names::{self, Names};
use super::teller::Teller;
use crate::wire::{Answer, Refusal};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a ledger that could not be written is left alone.
const REST: Duration = Duration::from_millis(250);
/// Leases in the ledger are at most this part of a lease behind.
const PART: u32 = 6;

/// Who is told of the ledger: a person, and who counts.
type Told<'a> = (&'a mut Teller, &'a Option<Arc<Metrics>>);

pub(super) struct Keeper {
    ledger: Box<dyn Ledger>,
    /// The time of the last write.
    saved: Instant,
    /// Why it could not be written, and when that was.
    failed: Option<(Instant, LedgerError)>,
}

impl Keeper {
    pub(super) fn new(ledger: Box<dyn Ledger>, now: Instant) -> Keeper {
        Keeper { ledger, saved: now, failed: None }
    }

    /// Runs these requests, and writes all that they change at once. If that fails, those that change nothing are answered as
    /// before, and the others are refused.
    pub(super) fn settle<Asked>(
        &mut self,
        names: &mut Names,
        told: Told,
        asked: &[Asked],
        run: impl Fn(&mut Names, &Asked) -> Answer,
        now: Instant,
    ) -> Vec<Answer> {
        // What a sweep has changed is not undone, and goes with the rest.
        // A write that failed is tried again soon: it is not known what of it is in the ledger.
        let is_late = self.failed.is_some() || now >= self.saved + names.lease / PART;
        let is_due = names.must_save() || names.differs() && is_late;
        names.begin();
        let answers = asked.iter().map(|one| run(names, one)).collect();
        let must = names.must_save();
        if !must && !is_due {
            return answers;
        }
        let Err(why) = self.write(names, told, now) else { return answers };
        if !must {
            return answers;
        }
        names::roll_back(names);
        let alone = |one| {
            let answer = run(names, one);
            if !names.must_save() {
                return answer;
            }
            names::roll_back(names);
            Answer::Refused(why)
        };
        asked.iter().map(alone).collect()
    }

    /// The last write of a server that ends: leases do not run from here on.
    pub(super) fn end(&mut self, names: &mut Names, told: Told, now: Instant) {
        if names.differs() {
            let _ = self.write(names, told, now);
        }
    }

    fn write(&mut self, names: &mut Names, (teller, metrics): Told, now: Instant) -> Result<(), Refusal> {
        if let Some((_, why)) = self.failed.as_ref().filter(|(at, _)| now < *at + REST) {
            return Err(refusal(why));
        }
        let begun = metrics.as_ref().map(|_| Instant::now());
        let written = names::save(names, &mut *self.ledger, now);
        if let (Some(metrics), Some(begun)) = (metrics, begun) {
            match &written {
                Ok(()) => metrics.committed(begun.elapsed()),
                Err(_) => count(&metrics.failures),
            }
        }
        match written {
            Ok(()) => {
                self.saved = now;
                if self.failed.take().is_some() {
                    teller.kept("the store is written again");
                }
                Ok(())
            }
            Err(why) => {
                let refused = refusal(&why);
                if self.failed.as_ref().is_none_or(|(_, before)| *before != why) {
                    teller.kept(&format!("the store cannot be written, so claims and releases are refused: {why}"));
                }
                self.failed = Some((now, why));
                Err(refused)
            }
        }
    }
}

fn refusal(why: &LedgerError) -> Refusal {
    if matches!(why, LedgerError::Full(_)) { Refusal::DiskFull } else { Refusal::Disk }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
