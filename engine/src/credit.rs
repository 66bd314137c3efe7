//! Credit: what a peer may still send to us, and we to it (docs/protocol.md, "Credit").
//!
//! Used by the engine only. Both sides count totals since the path began, so a lost or repeated CREDIT changes nothing.
//! Pairs of numbers are envelopes and bytes of eager data.

use crate::Config;
use crate::intervals::MOST;
use base::bytes::Malformed;
use serde::{Deserialize, Serialize};

/// Whether none of these is near the end of its numbers.
fn counts<const N: usize>(all: [(u64, u64); N]) -> bool {
    all.iter().all(|(envelopes, bytes)| *envelopes < MOST && *bytes < MOST)
}

/// The credit of a sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spending {
    spent: (u64, u64),
    limit: (u64, u64),
}

impl Spending {
    pub fn new(cfg: &Config) -> Self {
        Spending { spent: (0, 0), limit: (cfg.envelopes, cfg.eager_bytes) }
    }

    /// Whether counts that were read from bytes can be counted on.
    pub fn is_sound(&self) -> bool {
        counts([self.spent])
    }

    /// Envelopes, and bytes of eager data, that were sent since the path began.
    pub fn spent(&self) -> (u64, u64) {
        self.spent
    }

    pub fn has_envelope(&self) -> bool {
        self.spent.0 < self.limit.0
    }

    /// Whether there is credit for a message with this much eager data.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.has_envelope() && bytes <= self.limit.1.saturating_sub(self.spent.1)
    }

    /// Spends one envelope and these bytes.
    pub fn spend(&mut self, bytes: u64) {
        self.spent.0 += 1;
        self.spent.1 += bytes;
    }

    /// The receiver has told these totals.
    pub fn raise(&mut self, envelopes: u64, bytes: u64) {
        self.limit = (self.limit.0.max(envelopes), self.limit.1.max(bytes));
    }
}

/// What was given back when the user received a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Too little to tell the sender.
    Little,
    /// The same, and the sender has used up its envelopes.
    AtEnd,
    /// Enough.
    Much,
}

/// The credit that a receiver grants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Granting {
    /// The totals that the sender has been told.
    granted: (u64, u64),
    /// The totals that it may be told: the budget, what the user has received, and the extra envelopes.
    due: (u64, u64),
    /// What has arrived.
    arrived: (u64, u64),
    /// Envelopes beyond the budget. They are not given back when the user has received them.
    extra: u64,
    /// The sender is told when this much has been given back.
    batch: (u64, u64),
}

impl Granting {
    pub fn new(cfg: &Config) -> Self {
        let budget = (cfg.envelopes, cfg.eager_bytes);
        let batch = (budget.0.div_ceil(4).max(1), budget.1.div_ceil(4).max(1));
        Granting { granted: budget, due: budget, arrived: (0, 0), extra: 0, batch }
    }

    /// Whether counts that were read from bytes can be counted on: nothing is told that is not due.
    pub fn is_sound(&self) -> bool {
        let (granted, due) = (self.granted, self.due);
        counts([due, self.arrived, (self.extra, 0)])
            && (granted.0 <= due.0 && granted.1 <= due.1)
            && (self.batch.0 > 0 && self.batch.1 > 0)
    }

    /// Envelopes, and bytes of eager data, that have come since the path began.
    pub fn arrived(&self) -> (u64, u64) {
        self.arrived
    }

    /// An envelope with this much eager data came. Returns whether it was the last that the sender had. [`Malformed`]
    /// if the sender had no credit for it.
    pub fn arrive(&mut self, bytes: u64) -> Result<bool, Malformed> {
        let (envelopes, total) = (self.arrived.0 + 1, self.arrived.1.saturating_add(bytes));
        if envelopes > self.granted.0 || total > self.granted.1 {
            return Err(Malformed);
        }
        self.arrived = (envelopes, total);
        Ok(self.at_end())
    }

    /// An envelope with this much eager data comes, and the user receives it at once. False: nothing has changed, and
    /// [`Granting::arrive`] and [`Granting::free`] say what is to be told.
    #[inline(always)]
    pub fn pass(&mut self, bytes: u64) -> bool {
        let arrived = (self.arrived.0 + 1, self.arrived.1 + bytes);
        let due = (self.due.0 + 1, self.due.1 + bytes);
        if arrived.0 >= self.granted.0 || arrived.1 > self.granted.1 || self.extra > 0 {
            return false;
        }
        if due.0 - self.granted.0 >= self.batch.0 || due.1 - self.granted.1 >= self.batch.1 {
            return false;
        }
        (self.arrived, self.due) = (arrived, due);
        true
    }

    /// The user has received a message.
    #[must_use]
    #[inline(always)]
    pub fn free(&mut self, bytes: u64) -> Freed {
        self.due.1 += bytes;
        if self.extra > 0 {
            self.extra -= 1;
        } else {
            self.due.0 += 1;
        }
        if self.due.0 - self.granted.0 >= self.batch.0 || self.due.1 - self.granted.1 >= self.batch.1 {
            Freed::Much
        } else if self.at_end() {
            Freed::AtEnd
        } else {
            Freed::Little
        }
    }

    /// Whether the sender has used up its envelopes.
    pub fn at_end(&self) -> bool {
        self.arrived.0 >= self.granted.0
    }

    /// Whether the user has received all eager data that has come, of a sender that had credit for this many bytes at first.
    pub fn has_all(&self, budget: u64) -> bool {
        self.arrived.1.saturating_add(budget) == self.due.1
    }

    /// The program looks for a message that is not here. A sender that has used up its envelopes gets `extra` more.
    /// Returns whether it is to be told.
    #[must_use]
    pub fn look(&mut self, extra: u64) -> bool {
        if self.at_end() && self.due.0 == self.granted.0 {
            self.due.0 += extra;
            self.extra += extra;
        }
        self.at_end()
    }

    /// The sender gets these envelopes beyond the budget. It is to be told.
    pub fn lend(&mut self, envelopes: u64) {
        self.due.0 += envelopes;
        self.extra += envelopes;
    }

    /// The new totals, for a CREDIT to the sender.
    pub fn tell(&mut self) -> (u64, u64) {
        self.granted = self.due;
        self.granted
    }
}
