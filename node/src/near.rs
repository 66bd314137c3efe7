//! How processes of one host get a lane of shared memory: it is tried first, and TCP when that fails.
//!
//! Part of the core, beside `connect`. Invariant: that nobody opens means that a process is gone only where it had a door,
//! or there is no TCP to ask: others may only use no shared memory.

use crate::arrivals::Knock;
use crate::carrier::Carrier;
use crate::core::Core;
use crate::local::bit_of;
use crate::pair::Dial;
use crate::reach::Sign;
use crate::watch::Owner;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use transports::shm::{Arrived, Attempt, Failure, Guest, ShmLane, Step};
use transports::tcp::{Hello, HelloAck};

/// The other side's dial is given so long before ours goes on.
pub(crate) const GIVE_WAY: Duration = Duration::from_millis(50);

/// A guest that was answered: for which pair, and with which generation.
pub(crate) struct Answered {
    pair: usize,
    serial: u64,
    generation: u16,
    received: u64,
}

impl Core {
    // ---- those who come

    pub(crate) fn on_door(&mut self, now: Instant) {
        for _ in 0..64 {
            let Some(door) = self.local.as_ref().and_then(|local| local.door.as_ref()) else { return };
            match door.accept() {
                Ok(connection) => self.greet_later(Knock::Near(Guest::new(connection, now), None), now),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                    base::log_seldom!(Info, "another user's process has come to our door: refused");
                }
                Err(e) if self.out_of_descriptors(&e, now) => return,
                Err(_) => (),
            }
        }
    }

    /// A guest at the door has said something.
    pub(crate) fn on_guest(&mut self, n: u32, now: Instant) {
        let Some(Knock::Near(guest, answered)) = self.halfway.get_mut(&n) else { return };
        match guest.step() {
            Arrived::NotYet => (),
            Arrived::Foreign => self.drop_halfway(n),
            Arrived::Hello(hello) => self.greet_guest(n, &hello, false, now),
            Arrived::Ready => {
                let answered = answered.take();
                let Some(Knock::Near(guest, _)) = self.take_halfway(n) else { return };
                if let (Some(parts), Some(a)) = (guest.into_parts(), answered) {
                    let pair = &self.pairs[a.pair];
                    // Much may have happened since.
                    if pair.serial == a.serial && pair.path.could_attach(a.generation, a.received) {
                        let lane = ShmLane::new(parts, pair.local, pair.remote, a.generation);
                        self.attach(a.pair, Carrier::Shm(lane), a.generation, a.received, "answered");
                    }
                }
            }
        }
    }

    /// `mute`: the lane that its pair has was asked, and says nothing.
    pub(crate) fn greet_guest(&mut self, n: u32, hello: &Hello, mute: bool, now: Instant) {
        if hello.stripe != 0 {
            return self.drop_halfway(n);
        }
        let verdict = self.verdict(hello, now);
        if !mute && verdict.as_ref().is_ok_and(|(i, _)| self.ask_first(*i, n, hello, now)) {
            return;
        }
        let Some(answered) = self.answer_guest(n, hello, verdict) else { return self.drop_halfway(n) };
        self.pairs[answered.pair].answered = Some(n);
        if let Some(Knock::Near(_, place)) = self.halfway.get_mut(&n) {
            *place = Some(answered);
        }
    }

    fn answer_guest(
        &mut self,
        n: u32,
        hello: &Hello,
        verdict: Result<(usize, HelloAck), Option<HelloAck>>,
    ) -> Option<Answered> {
        let Some(Knock::Near(guest, _)) = self.halfway.get_mut(&n) else { return None };
        let (i, ack) = match verdict {
            Ok(good) => good,
            Err(refusal) => {
                if let Some(ack) = refusal {
                    guest.refuse(&ack);
                }
                return None;
            }
        };
        let local = self.local.as_ref()?;
        if let Err(e) = guest.answer(&ack, &local.own, bit_of(i)) {
            base::log!(Info, "no shared memory for {}: {e}", hello.source);
            return None;
        }
        Some(Answered { pair: i, serial: self.pairs[i].serial, generation: ack.generation, received: hello.received })
    }

    // ---- those we go to

    /// Why there is no shared memory with a pair's process, as far as one can say without trying.
    pub(crate) fn why_far(&self, i: usize) -> Option<&'static str> {
        let contact = self.pairs[i].contact.as_ref();
        match &self.local {
            None if self.lanes.shm => Some("not to be had here"),
            None => Some("not allowed by MPI_CONNECT_LANES"),
            Some(_) if contact.is_none_or(|c| c.host == [0; 16]) => Some("its host is not known"),
            Some(_) if contact.is_none_or(|c| c.host != self.contact.host) => Some("other host"),
            Some(_) => None,
        }
    }

    /// Begins to dial, by shared memory if that can be; or says why it cannot.
    pub(crate) fn start_near(&mut self, i: usize, hello: &Hello, now: Instant) -> Result<(), String> {
        if let Some(why) = self.why_far(i) {
            return Err(why.into());
        }
        let pair = &mut self.pairs[i];
        let Some(contact) = &pair.contact else { return Err("nobody knows where it is".into()) };
        let attempt = Attempt::new(hello.clone(), contact.process, bit_of(i), now).map_err(|e| e.to_string())?;
        pair.dial = Dial::Near(Box::new(attempt));
        self.step_near(i, now);
        Ok(())
    }

    pub(crate) fn step_near(&mut self, i: usize, now: Instant) {
        let (pair, Some(local)) = (&mut self.pairs[i], &self.local) else { return };
        let Dial::Near(attempt) = &mut pair.dial else { return };
        match attempt.step(&local.own, now) {
            Step::NotYet => {
                // Before it is connected, there is nothing to see but time.
                if let Some(fd) = attempt.fd() {
                    self.watch.set(fd, Owner::Dial(i as u32), false);
                }
            }
            Step::Good(ack) => {
                let Some(attempt) = self.end_near(i) else { return };
                let pair = &self.pairs[i];
                if let Some(parts) = attempt.into_parts() {
                    let lane = ShmLane::new(parts, pair.local, pair.remote, ack.generation);
                    self.attach(i, Carrier::Shm(lane), ack.generation, ack.received, "dialled");
                }
            }
            Step::Better(generation) => {
                self.end_near(i);
                self.yield_to(i, generation, now);
            }
            Step::Failed(why) => {
                let Some(attempt) = self.end_near(i) else { return };
                base::log!(Debug, "{} has no shared memory for us: {why}", self.pairs[i].remote);
                self.pairs[i].has_no_door = why == Failure::Nobody;
                let gone = why == Failure::Nobody && self.pairs[i].was_shared;
                if self.lanes.tcp && !gone {
                    self.start_race(i, attempt.into_hello(), format!("refused: {why}"), now);
                } else {
                    // Its host's kernel says so; other failures say nothing.
                    let sign = if why == Failure::Nobody { Sign::Sure } else { Sign::None };
                    self.dial_failed(i, sign, false, &format!("shared memory: {why}"), now);
                }
            }
        }
    }

    /// Takes the attempt from a pair, if there is one.
    pub(crate) fn end_near(&mut self, i: usize) -> Option<Attempt> {
        match std::mem::replace(&mut self.pairs[i].dial, Dial::Idle) {
            Dial::Near(attempt) => {
                attempt.fd().into_iter().for_each(|fd| self.watch.unset(fd));
                Some(*attempt)
            }
            other => {
                self.pairs[i].dial = other;
                None
            }
        }
    }
}
