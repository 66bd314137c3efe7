//! The time in which leases are counted: it runs only while a server runs, over all starts of one ledger. The names alone use
//! this.
//!
//! Invariant: neither the calendar nor the boot counts, so a server that was down, on whatever host, has cost no lease anything.

use std::time::{Duration, Instant};

/// How long the servers of a ledger have run, in all.
pub(super) struct Clock {
    since: Instant,
    before: Duration,
    /// The time within `since` during which this server stood still.
    still: Duration,
}

impl Clock {
    /// A clock that showed `before` at the moment `since`.
    pub(super) fn new(since: Instant, before: Duration) -> Clock {
        Clock { since, before, still: Duration::ZERO }
    }

    pub(super) fn excuse(&mut self, gap: Duration) {
        self.still += gap;
    }

    /// What it shows at this moment.
    pub(super) fn at(&self, moment: Instant) -> Duration {
        let ran = moment.saturating_duration_since(self.since);
        self.before.saturating_add(ran).saturating_sub(self.still)
    }

    /// The moment when it shows this; none before it was started.
    pub(super) fn when(&self, shown: Duration) -> Instant {
        let left = shown.saturating_add(self.still).saturating_sub(self.before);
        // No server writes a time that does not fit.
        self.since.checked_add(left).unwrap_or(self.since)
    }
}
