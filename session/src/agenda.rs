//! What is to be looked at: as time passes, when a turn comes, at the end.
//!
//! Part of the session. Invariant: a pair whose dial, rest or loss depends on time is in `timed`; one that has something to
//! write is in `dirty` exactly if it says so itself.

use crate::action::Action;
use crate::state::Session;
use base::{Memory, Time};
use std::time::Duration;
use wire::lane::Lane;

/// How often time is looked at while something depends on it.
pub const TICK: Duration = Duration::from_millis(5);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// What depends on time is to be looked at for this pair, and now: it may have to be dialled.
    pub(crate) fn look_soon(&mut self, i: usize) {
        if self.agenda.timed.insert(i) {
            self.agenda.due = true;
        }
    }

    /// Whether time must be looked at.
    pub fn is_timed(&self) -> bool {
        !self.agenda.timed.is_empty()
            || !self.agenda.lossy.is_empty()
            || !self.agenda.left.is_empty()
            || !self.visitors.is_empty()
            || self.hosts.is_probing()
    }

    /// Takes everything that depends on time as far as it has come.
    pub fn tick(&mut self, now: Time) {
        if now < self.agenda.next_tick && !self.agenda.due {
            return;
        }
        self.agenda.next_tick = now + TICK;
        self.agenda.due = false;
        for visitor in self.visitors.expired(now) {
            self.act(Action::Dismiss { visitor });
        }
        self.step_parked(now);
        self.step_lossy(now);
        self.step_leaving(now);
        for i in self.agenda.timed.clone() {
            self.tick_pair(i, now);
        }
    }

    /// Closes everything.
    pub fn shut(&mut self) {
        for i in 0..self.pairs.len() {
            self.end_dial(i);
            self.drop_lane(i);
        }
        for visitor in self.visitors.drain() {
            self.act(Action::Dismiss { visitor });
        }
        self.hosts.drop_probes();
        self.agenda.timed.clear();
        self.agenda.leaving.clear();
        self.agenda.dirty.clear();
    }
}
