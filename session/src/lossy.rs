//! Lanes that may lose frames without dying: what is not acknowledged in time goes again, and bulk that does not come is
//! asked for again.
//!
//! Part of the session. Invariant: a pair is listed from its first such lane on, since bulk may be missing after the lane.

use crate::state::Session;
use crate::state::lossy::Lossy;
use base::{Memory, Time};
use std::time::Duration;
use wire::lane::Lane;

/// Bulk that has stood still for so long is asked for again.
const STILL: Duration = Duration::from_millis(100);

impl<L: Lane<M>, M: Memory> Session<L, M> {
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
                // Or questions would pile up.
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
