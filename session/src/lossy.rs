//! Lanes that may lose frames without dying: what is not acknowledged in time is sent again, and bulk that does not come is
//! asked for again.
//!
//! Part of the session. Invariant: a pair stays listed from its first such lane on, since bulk may be missing after
//! that lane.

use crate::state::Session;
use crate::state::lossy::Lossy;
use base::{Memory, Time};
use std::time::Duration;
use wire::lane::Lane;

/// Bulk is asked for again after this long without any.
const STILL: Duration = Duration::from_millis(100);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Sends and asks again on all pairs that have had a lossy lane.
    pub(crate) fn step_lossy(&mut self, now: Time) {
        for i in self.agenda.lossy.keys().copied().collect::<Vec<_>>() {
            let pair = &mut self.pairs[i];
            pair.path.on_tick(now.0 / 1_000_000);
            self.mark(i);
            let pair = &mut self.pairs[i];
            let Some(seen) = self.agenda.lossy.get_mut(&i).filter(|seen| now.since(seen.looked) >= STILL) else {
                continue;
            };
            let missing = self.engine.bulk_missing(pair.peer);
            if missing > 0 && missing == seen.missing {
                // Only when all is acknowledged, or questions would pile up.
                if pair.path.all_acknowledged() {
                    self.engine.on_lane_lost(pair.peer);
                } else {
                    pair.path.flush();
                }
            }
            *seen = Lossy { looked: now, missing };
        }
    }
}
