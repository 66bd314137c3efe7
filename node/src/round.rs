//! One round of progress: hands all events to the session and carries out its actions. Never blocks.
//!
//! Part of the core, called by each thread that makes progress. Invariant: after a round, all that the lanes had room
//! for has been handed to the kernel, and epoll watches every lane that had no room.

use crate::judge::convert_some;
use crate::lock::Guard;
use crate::pull::pull_some;
use crate::shared::Shared;
use crate::state::Core;
use crate::watch::Owner;
use session::{AttemptId, IncomingId, ProbeId};
use std::time::Instant;
use transports::registry::ALL;

/// Does one step of the work that is done without the lock: converts a message, and reads a slice of another process's
/// memory. Writes a slice to another's, under the lock. False: there was none.
#[inline]
pub(crate) fn unlocked_work<'a>(shared: &'a Shared, core: Guard<'a, Core>) -> (Guard<'a, Core>, bool) {
    if core.has_unlocked_work() { work_unlocked(shared, core) } else { (core, false) }
}

#[cold]
#[inline(never)]
fn work_unlocked<'a>(shared: &'a Shared, core: Guard<'a, Core>) -> (Guard<'a, Core>, bool) {
    let (mut core, converted) = convert_some(shared, core);
    let put = core.put_some();
    let (mut core, pulled) = pull_some(shared, core);
    core.follow_up(true);
    (core, converted || put || pulled)
}

impl Core {
    /// One round, without blocking. False: nothing has come, and nothing is left to be written.
    pub(crate) fn round(&mut self, instant: Instant) -> bool {
        self.pace.without_round = 0;
        self.session.send_credit();
        let before = self.session.bytes_in();
        let mut events = std::mem::take(&mut self.pace.events);
        events.clear();
        // The doorbell wakes threads that sleep: it stays readable until none of them is asleep.
        self.watch.look(&mut events, self.pace.sleepers == 0);
        let mut found = false;
        self.look_at_transports(instant);
        for e in &events {
            // A lane's descriptor may tell of what was seen already, so the lane has to say that something came.
            found |= e.writable || !matches!(e.owner, Owner::Lane(_));
            match e.owner {
                Owner::Wake => (),
                Owner::Listener(transport, listener) => self.on_listener(transport.into(), listener.into(), instant),
                Owner::Incoming(n) => self.on_incoming(IncomingId(n)),
                Owner::Dial(n) => self.step_attempt(AttemptId(n)),
                Owner::Probe(n) => self.step_probe(ProbeId(n)),
                Owner::Lane(n) => {
                    let i = n as usize;
                    if e.writable {
                        self.session.mark(i);
                    }
                    if e.readable && self.read(i) {
                        self.mark_busy(i);
                        found = true;
                    }
                    if i < self.session.pairs_made() {
                        self.update_watched(i);
                    }
                }
            }
            self.act();
        }
        found |= self.read_polled();
        self.pace.events = events;
        if self.session.engine.has_to_buffer() {
            self.buffer_unexpected();
        }
        if self.is_timed() {
            self.tick(instant);
        }
        let now = self.time(instant);
        if self.session.watch_lingering(now) {
            self.session.look_took(instant.elapsed());
        }
        self.follow_up(self.session.bytes_in() != before);
        found || self.is_dirty()
    }

    /// Looks at what no descriptor tells of while threads make rounds.
    fn look_at_transports(&mut self, instant: Instant) {
        let silence = self.pace.sleepers == 0;
        for n in 0..ALL.len() {
            if self.registry.at(n).is_some_and(|transport| transport.has_news(silence)) {
                self.on_listener(n, 0, instant);
            }
        }
    }

    /// Carries out what reading has led to. `came`: the lanes, or a pull, have brought bytes.
    #[inline(always)]
    pub(crate) fn follow_up(&mut self, came: bool) {
        self.session.settle();
        self.session.leave_all();
        if self.session.has_actions() {
            self.act();
        }
        if came && self.forgotten() > 0 {
            self.sweep();
        }
    }

    /// Writes the engine's messages to the lanes, and carries out the session's actions.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        self.session.settle();
        if self.session.has_actions() {
            self.act();
        }
    }

    /// Reads a lane. False: nothing came, and the lane is alive.
    #[inline]
    pub(crate) fn read(&mut self, i: usize) -> bool {
        let got = self.session.receive(i);
        self.pace.stirred |= !got.plain;
        if got.dead {
            let now = self.now();
            self.session.lane_died(i, now);
        }
        got.bytes > 0 || got.dead
    }

    /// Whether there is work that can be done at once: to write, to read another process's memory, or to convert.
    #[inline(always)]
    pub(crate) fn is_dirty(&self) -> bool {
        self.session.is_dirty() || self.has_unlocked_work()
    }

    /// Whether there is work for [`unlocked_work`].
    #[inline]
    pub(crate) fn has_unlocked_work(&self) -> bool {
        !self.pulls.is_empty()
            || !self.operations.judging.is_empty() && !self.operations.conversions.borrow().is_empty()
    }

    /// Whether a time limit runs, so that [`Core::tick`] has to be called.
    pub(crate) fn is_timed(&self) -> bool {
        self.session.is_timed() || self.handshakes.is_timed() || !self.leaving.is_empty()
    }

    // ---- busy lanes: the lanes with the latest messages are read without asking epoll first

    /// Reads the polled lanes and the busy sockets. False: nothing was there.
    #[inline(always)]
    pub(crate) fn read_busy(&mut self) -> bool {
        let before = self.session.bytes_in();
        self.session.send_credit();
        let mut found = self.read_polled();
        for k in 0..self.pace.busy.len() {
            if let Some(&i) = self.pace.busy.get(k)
                && !self.session.is_quiet(i)
            {
                found |= self.read(i);
                self.update_watched(i);
            }
        }
        // A message that came may have given credit, so that others can be sent now, unless all were plain; and one for an operation that is
        // forgotten leaves that to be swept.
        if found && (self.pace.stirred || self.forgotten() > 0) || self.is_dirty() {
            self.follow_up(self.session.bytes_in() != before);
        }
        found
    }

    /// Counts the lane of a pair among the busy ones, if it is a socket: something came on it.
    fn mark_busy(&mut self, i: usize) {
        if self.session.pair(i).lane().is_some_and(|up| up.lane.polled().is_none()) {
            self.pace.mark_busy(i);
        }
    }
}
