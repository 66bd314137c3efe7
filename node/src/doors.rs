//! Handshakes: those we dial, those who come, and whether one gets through to a host.
//!
//! Part of the core. The session decides; here its decisions meet descriptors. Invariant: what is kept here is watched, and
//! known to the session by the same number.

use crate::state::Core;
use crate::sys::most_descriptors;
use crate::watch::Owner;
use session::{Action, AttemptId, ProbeId, VisitorId};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use transports::registry::AnyLane;
use transports::transport::{Attempt, Guest, Said, Step, Target};

/// How long a host is asked whether we get through to it.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Out of descriptors, nobody is accepted for so long.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// Accepted at one door before others get their turn.
const MOST_AT_ONCE: usize = 64;

impl Core {
    /// Takes what depends on time as far as it has come.
    pub(crate) fn tick(&mut self, instant: Instant) {
        if self.doors.accept_again.is_some_and(|t| instant >= t) {
            self.doors.accept_again = None;
            let watch = &self.watch;
            for (n, transport) in self.registry.opened() {
                transport.doors(&mut |door, fd| watch.set(fd, Owner::door(n, door), false));
            }
        }
        if !self.doors.attempts.is_empty() {
            for attempt in self.doors.attempts.keys().copied().collect::<Vec<_>>() {
                self.step_attempt(attempt);
            }
        }
        if !self.doors.probes.is_empty() {
            for probe in self.doors.probes.keys().copied().collect::<Vec<_>>() {
                self.step_probe(probe);
            }
        }
        let now = self.time(instant);
        self.session.tick(now);
        self.act();
    }

    // ---- those we go to

    pub(crate) fn go(&mut self, action: Action<AnyLane>) {
        match action {
            Action::Resolve { pair, transport, entry, process, same_host, worked } => {
                let target = Target { entry: &entry, process, same_host, worked: worked.as_ref() };
                let places = self.registry.get(transport).map(|t| t.places(&target)).unwrap_or_default();
                let now = self.now();
                self.session.places(pair, transport, places, now);
            }
            Action::Dial { attempt, pair, place, hello } => {
                let begun = match self.registry.get(place.transport) {
                    Some(transport) => transport.dial(&place, &hello, pair as u32),
                    None => Err(ErrorKind::Unsupported.into()),
                };
                match begun {
                    Ok(begun) => {
                        self.doors.attempts.insert(attempt, begun);
                        self.step_attempt(attempt);
                    }
                    Err(e) => {
                        let now = self.now();
                        self.session.dial_failed(attempt, &e, now);
                    }
                }
            }
            Action::Abandon { attempt } => drop(self.take_attempt(attempt)),
            Action::Probe { probe, transport, entry, seen } => {
                match self.registry.get(transport).and_then(|t| t.probe(&entry, &seen)) {
                    Some((place, begun)) => {
                        self.watch.set(begun.fd(), Owner::Probe(probe.0), true);
                        self.doors.probes.insert(probe, (place, begun, Instant::now()));
                    }
                    None => self.session.probed(probe, None),
                }
            }
            _ => unreachable!("no dial"),
        }
    }

    fn take_attempt(&mut self, attempt: AttemptId) -> Option<Box<dyn Attempt>> {
        let taken = self.doors.attempts.remove(&attempt)?;
        taken.fd().into_iter().for_each(|(fd, _)| self.watch.unset(fd));
        Some(taken)
    }

    /// Takes a dial as far as it goes.
    pub(crate) fn step_attempt(&mut self, attempt: AttemptId) {
        let Some(dialled) = self.doors.attempts.get_mut(&attempt) else { return };
        let step = dialled.step();
        if let Step::NotYet = step {
            if let Some((fd, write)) = dialled.fd() {
                self.watch.set(fd, Owner::Dial(attempt.0), write);
            }
            if dialled.is_greeted() {
                let heard = dialled.is_heard();
                let now = self.now();
                self.session.dial_greeted(attempt, heard, now);
            }
            return;
        }
        let Some(dialled) = self.take_attempt(attempt) else { return };
        let now = self.now();
        match step {
            Step::NotYet => (),
            Step::Failed(e) => self.session.dial_failed(attempt, &e, now),
            Step::Answered(ack) => {
                if let Some((pair, generation, received)) = self.session.dial_answered(attempt, &ack, now) {
                    match dialled.finish(generation).map(AnyLane::from) {
                        Ok(lane) => self.attach(pair, lane, generation, received, true),
                        Err(e) => self.session.lane_not_made(pair, &e, now),
                    }
                }
            }
        }
    }

    pub(crate) fn step_probe(&mut self, probe: ProbeId) {
        let Some((_, probed, since)) = self.doors.probes.get(&probe) else { return };
        let through = match probed.result() {
            Err(e) if e.kind() == ErrorKind::WouldBlock && since.elapsed() < PROBE_LIMIT => return,
            result => result.is_ok(),
        };
        let Some((place, probed, _)) = self.doors.probes.remove(&probe) else { return };
        self.watch.unset(probed.fd());
        self.session.probed(probe, through.then_some(place));
    }

    // ---- those who come

    /// Somebody is at a door.
    pub(crate) fn on_door(&mut self, transport: usize, door: u32, instant: Instant) {
        for _ in 0..MOST_AT_ONCE {
            let Some(opened) = self.registry.at(transport) else { return };
            match opened.accept(door) {
                Ok(guest) => {
                    self.session.set_descriptors(most_descriptors());
                    let now = self.time(instant);
                    let visitor = self.session.arrived(now);
                    self.act();
                    self.watch.set(guest.fd(), Owner::Guest(visitor.0), false);
                    self.doors.guests.insert(visitor, guest);
                    // The HELLO has often come along.
                    self.on_guest(visitor);
                    self.act();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if self.out_of_descriptors(&e, instant) => return,
                // That one connection was broken, or its place is free now.
                Err(_) => (),
            }
        }
    }

    /// What to do about an error of accept: whether to stop for a while.
    fn out_of_descriptors(&mut self, e: &io::Error, instant: Instant) -> bool {
        if !matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS)) {
            return false;
        }
        if self.session.drop_oldest_visitor() {
            self.act();
            return false;
        }
        base::log_seldom!(Error, "cannot accept a connection: {e}");
        let watch = &self.watch;
        for (_, transport) in self.registry.opened() {
            transport.doors(&mut |_, fd| watch.pause(fd));
        }
        self.doors.accept_again = Some(instant + ACCEPT_AGAIN);
        true
    }

    fn take_guest(&mut self, visitor: VisitorId) -> Option<Box<dyn Guest>> {
        let guest = self.doors.guests.remove(&visitor)?;
        self.watch.unset(guest.fd());
        Some(guest)
    }

    /// A visitor has said something, or hung up.
    pub(crate) fn on_guest(&mut self, visitor: VisitorId) {
        let Some(guest) = self.doors.guests.get_mut(&visitor) else { return };
        match guest.step() {
            Said::Nothing => (),
            Said::Foreign => {
                base::log_seldom!(Debug, "a connection that is not one of ours was closed");
                drop(self.take_guest(visitor));
                self.session.visitor_left(visitor);
            }
            Said::Hello(hello) => {
                let now = self.now();
                self.session.hello(visitor, &hello, now);
            }
            Said::Ready => self.finish_guest(visitor),
        }
    }

    fn finish_guest(&mut self, visitor: VisitorId) {
        let Some(guest) = self.take_guest(visitor) else { return };
        let Some((pair, generation, received)) = self.session.visitor_ready(visitor) else { return };
        let (local, remote) = (self.session.pair(pair).local(), self.session.pair(pair).remote());
        match guest.finish(local, remote, generation).map(AnyLane::from) {
            Ok(lane) => self.attach(pair, lane, generation, received, false),
            Err(e) => base::log!(Info, "no lane for {remote}: {e}"),
        }
    }

    /// What the session decides about one who has come.
    pub(crate) fn receive_visitor(&mut self, action: Action<AnyLane>) {
        match action {
            Action::Answer { visitor, pair, ack } => {
                let Some(guest) = self.doors.guests.get_mut(&visitor) else { return };
                match guest.answer(&ack, pair as u32) {
                    Ok(true) => self.finish_guest(visitor),
                    Ok(false) => (),
                    Err(e) => {
                        base::log!(Info, "no lane for {}: {e}", self.session.pair(pair).remote());
                        drop(self.take_guest(visitor));
                        self.session.visitor_left(visitor);
                    }
                }
            }
            Action::Join { visitor, pair, number, ack } => {
                let Some(guest) = self.take_guest(visitor) else { return };
                if let Some(up) = self.session.pair_mut(pair).lane_mut() {
                    up.lane.join(guest, &ack, number);
                }
                self.check_signs(pair);
                self.session.mark(pair);
            }
            Action::Refuse { visitor, ack } => {
                if let Some(mut guest) = self.take_guest(visitor) {
                    guest.refuse(&ack);
                }
            }
            Action::Dismiss { visitor } => drop(self.take_guest(visitor)),
            Action::Pause { visitor } => {
                self.doors.guests.get(&visitor).into_iter().for_each(|guest| self.watch.pause(guest.fd()));
            }
            Action::Ask { visitor, mute } => {
                let Some(guest) = self.doors.guests.get(&visitor) else { return };
                if guest.has_hung_up() {
                    drop(self.take_guest(visitor));
                    return self.session.visitor_left(visitor);
                }
                self.watch.set(guest.fd(), Owner::Guest(visitor.0), false);
                let now = self.now();
                self.session.visitor_stands(visitor, mute, now);
            }
            _ => unreachable!("no visitor"),
        }
    }

    /// Watches what a lane has now, if that has changed.
    pub(crate) fn check_signs(&mut self, pair: usize) {
        let watch = &self.watch;
        let Some(up) = self.session.pair_mut(pair).lane_mut() else { return };
        if up.lane.changed(&mut |fd| watch.unset(fd)) {
            up.lane.signs(&mut |_, fd, write| watch.set(fd, Owner::Lane(pair as u32), write));
        }
    }

    // ---- where they come to

    /// Listens at this address and this port too, where `None` is each address where it listens already, and any port, until
    /// each who asked has said [`Core::stop_listening`]. The addresses.
    pub(crate) fn listen_at(&mut self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        let addresses = self.registry.listen_at(ip, port)?;
        let watch = &self.watch;
        for (n, transport) in self.registry.opened() {
            transport.doors(&mut |door, fd| watch.set(fd, Owner::door(n, door), false));
        }
        Ok(addresses)
    }

    /// These are not needed any more by one of those who asked for them.
    pub(crate) fn stop_listening(&mut self, addresses: &[SocketAddr]) {
        let watch = &self.watch;
        self.registry.stop_listening(addresses, &mut |fd| watch.unset(fd));
    }

    pub(crate) fn close_doors(&mut self) {
        let watch = &self.watch;
        for (_, transport) in self.registry.opened() {
            transport.doors(&mut |_, fd| watch.unset(fd));
        }
        self.registry.close();
        self.doors.attempts.drain().for_each(|(_, a)| a.fd().into_iter().for_each(|(fd, _)| watch.unset(fd)));
        self.doors.guests.drain().for_each(|(_, guest)| watch.unset(guest.fd()));
        self.doors.probes.drain().for_each(|(_, (_, probe, _))| watch.unset(probe.fd()));
        self.doors.accept_again = None;
    }
}
