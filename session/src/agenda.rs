//! Time: the session looks at all that depends on it, at most once in a [`TICK`].
//!
//! Part of the session. Invariants: a pair whose dial, rest or loss depends on time is in `timed`. A pair is in `dirty`
//! exactly if its own flag `dirty` is set.

use crate::action::Action;
use crate::hold::Hold;
use crate::state::Session;
use base::{Memory, Time};
use std::time::Duration;
use wire::lane::Lane;

/// How often the driver should call [`Session::tick`] while [`Session::is_timed`].
pub const TICK: Duration = Duration::from_millis(5);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Looks at this pair at the next tick, which is due at once: the pair may have to be dialled.
    pub(crate) fn look_soon(&mut self, i: usize) {
        if self.agenda.timed.insert(i) {
            self.agenda.due = true;
        }
    }

    /// Whether something depends on time, so that [`Session::tick`] must be called.
    pub fn is_timed(&self) -> bool {
        !self.agenda.timed.is_empty()
            || !self.agenda.lossy.is_empty()
            || !self.agenda.left.is_empty()
            || !self.incoming.is_empty()
            || self.hosts.is_probing()
            || self.ranges.is_waiting()
            || self.is_held() == Hold::Closing
    }

    /// Advances all that depends on time: dials, rests, handshakes, lossy lanes. Cheap if less than [`TICK`] has passed.
    pub fn tick(&mut self, now: Time) {
        if now < self.agenda.next_tick && !self.agenda.due {
            return;
        }
        self.agenda.next_tick = now + TICK;
        self.agenda.due = false;
        for incoming in self.incoming.expired(now) {
            self.act(Action::Dismiss { incoming });
        }
        self.step_parked(now);
        self.step_hold(now);
        self.step_lossy(now);
        self.step_directory(now);
        self.hear_strangers_again(now);
        self.step_leaving(now);
        self.try_better(now);
        for i in self.agenda.timed.clone() {
            self.tick_pair(i, now);
        }
    }

    /// Gives up all lanes, dials and incoming connections, for the end of the process.
    pub fn shut(&mut self) {
        for i in 0..self.pairs.len() {
            self.end_dial(i);
            self.drop_lane(i);
        }
        for incoming in self.incoming.drain() {
            self.act(Action::Dismiss { incoming });
        }
        self.hosts.drop_probes();
        self.agenda.timed.clear();
        self.agenda.leaving.clear();
        self.agenda.dirty.clear();
    }
}
