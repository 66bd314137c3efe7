//! One round: what has happened is told to the session, and what that asks for is done. Never blocks.
//!
//! Part of the core; called by whoever makes progress. Invariant: after a round, everything that the lanes had room
//! for has been handed to the kernel, and epoll is asked about every lane that had none.

use crate::state::Core;
use crate::watch::Owner;
use session::{AttemptId, ProbeId, VisitorId};
use std::time::Instant;

impl Core {
    /// One nonblocking round; whether anything has come or gone.
    pub(crate) fn round(&mut self, instant: Instant) -> bool {
        self.pace.without_round = 0;
        let before = self.session.bytes_in();
        let mut events = std::mem::take(&mut self.pace.events);
        events.clear();
        // The doorbell is for those who sleep: as long as one of them may not have heard it, it goes on.
        self.watch.look(&mut events, self.pace.sleepers == 0);
        for e in &events {
            match e.owner {
                Owner::Wake => (),
                Owner::Door(transport, door) => self.on_door(transport.into(), door.into(), instant),
                Owner::Guest(n) => self.on_guest(VisitorId(n)),
                Owner::Dial(n) => self.step_attempt(AttemptId(n)),
                Owner::Probe(n) => self.step_probe(ProbeId(n)),
                Owner::Lane(n) => {
                    let i = n as usize;
                    if e.writable {
                        self.session.mark(i);
                    }
                    if e.readable && self.read(i) {
                        self.warm(i);
                    }
                    self.check_signs_of(i);
                }
            }
            self.act();
        }
        let busy = !events.is_empty() | self.read_polled();
        self.pace.events = events;
        if self.is_timed() {
            self.tick(instant);
        }
        let now = self.time(instant);
        if self.session.watch_lingering(now) {
            self.session.look_took(instant.elapsed());
        }
        self.follow_up(before);
        busy || self.is_dirty()
    }

    /// What reading has led to.
    #[inline(always)]
    pub(crate) fn follow_up(&mut self, bytes_in_before: u64) {
        self.session.settle();
        self.session.leave_all();
        if self.session.has_actions() {
            self.act();
        }
        if self.session.bytes_in() != bytes_in_before && self.forgotten() > 0 {
            self.sweep();
        }
    }

    /// Carries what the engine puts out to the lanes, and does what the session asks for.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        self.session.settle();
        if self.session.has_actions() {
            self.act();
        }
    }

    /// Reads a lane; whether anything came, or it ended.
    #[inline]
    pub(crate) fn read(&mut self, i: usize) -> bool {
        let got = self.session.receive(i);
        if got.dead {
            let now = self.now();
            self.session.lane_died(i, now);
        }
        got.bytes > 0 || got.dead
    }

    fn check_signs_of(&mut self, i: usize) {
        if i < self.session.pairs_made() {
            self.check_signs(i);
        }
    }

    /// Whether something could be written, or read from another's memory, at once.
    pub(crate) fn is_dirty(&self) -> bool {
        self.session.is_dirty() || !self.pulls.is_empty()
    }

    /// Whether time must be looked at.
    pub(crate) fn is_timed(&self) -> bool {
        self.session.is_timed() || self.doors.is_timed()
    }

    // ---- busy lanes: those from which something came last are looked at without asking epoll first

    /// Reads what is there on the busy lanes; whether anything was.
    pub(crate) fn glance(&mut self) -> bool {
        let before = self.session.bytes_in();
        let mut found = self.read_polled();
        for k in 0..self.pace.busy.len() {
            if let Some(&i) = self.pace.busy.get(k) {
                found |= self.read(i);
            }
        }
        // There may be room now for what waited.
        if found || self.is_dirty() {
            self.follow_up(before);
        }
        found
    }

    /// Something came from this pair.
    fn warm(&mut self, i: usize) {
        if self.session.pair(i).lane().is_some_and(|up| up.lane.polled().is_none()) {
            self.pace.warm(i);
        }
    }
}
