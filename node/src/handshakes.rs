//! Handshakes: dials, accepted connections, and probes whether a host can be reached.
//!
//! Part of the core. The session decides, and this file applies its decisions to descriptors. Invariant: each handshake
//! that is kept here is watched by epoll, and has the number by which the session knows it.

use crate::state::Core;
use crate::sys::most_descriptors;
use crate::watch::Owner;
use session::{Action, AttemptId, Hold, IncomingId, ProbeId, TICK};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use transports::registry::AnyLane;
use transports::transport::{Attempt, Incoming, Said, Step, Target};

/// How long a probe may take before the host counts as not reachable.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How long no connection is accepted when the process has run out of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// Connections that are accepted at one listener before other events get their turn.
const MOST_AT_ONCE: usize = 64;

impl Core {
    /// Does what is due by now: accepts again, continues dials and probes, and lets the session look at its time
    /// limits.
    pub(crate) fn tick(&mut self, instant: Instant) {
        if self.handshakes.accept_again.is_some_and(|t| instant >= t) {
            self.handshakes.accept_again = None;
            self.watch.set_listeners(&self.registry);
        }
        // Epoll tells of those that have a descriptor; the others are continued whenever there is time.
        let is_due = self.handshakes.next_look.is_none_or(|t| instant >= t);
        if is_due {
            self.handshakes.next_look = Some(instant + TICK);
        }
        if !self.handshakes.attempts.is_empty() {
            let due = |attempt: &dyn Attempt| is_due || attempt.fd().is_none();
            let all = self.handshakes.attempts.iter().filter(|(_, attempt)| due(&***attempt));
            for attempt in all.map(|(attempt, _)| *attempt).collect::<Vec<_>>() {
                self.step_attempt(attempt);
            }
        }
        if is_due && !self.handshakes.probes.is_empty() {
            for probe in self.handshakes.probes.keys().copied().collect::<Vec<_>>() {
                self.step_probe(probe);
            }
        }
        let now = self.time(instant);
        let was_closing = self.session.is_held() == Hold::Closing;
        self.session.tick(now);
        self.act();
        if was_closing && self.session.is_held() != Hold::Closing {
            self.is_held_now();
        }
        if !self.leaving.is_empty() {
            self.step_leaving(instant);
            self.act();
        }
    }

    // ---- dials and probes

    /// Carries out an action of the session about a dial or a probe.
    pub(crate) fn connect(&mut self, action: Action<AnyLane>) {
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
                        self.handshakes.attempts.insert(attempt, begun);
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
                        self.handshakes.probes.insert(probe, (place, begun, Instant::now()));
                    }
                    None => self.session.probed(probe, None),
                }
            }
            _ => unreachable!("no dial"),
        }
    }

    fn take_attempt(&mut self, attempt: AttemptId) -> Option<Box<dyn Attempt>> {
        let taken = self.handshakes.attempts.remove(&attempt)?;
        taken.fd().into_iter().for_each(|(fd, _)| self.watch.unset(fd));
        Some(taken)
    }

    /// Continues a dial as far as is possible without blocking.
    pub(crate) fn step_attempt(&mut self, attempt: AttemptId) {
        let Some(dialled) = self.handshakes.attempts.get_mut(&attempt) else { return };
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
                if let Some(agreed) = self.session.dial_answered(attempt, &ack, now) {
                    match dialled.finish(agreed.generation).map(AnyLane::from) {
                        Ok(lane) => self.attach(agreed, lane, true),
                        Err(e) => self.session.lane_not_made(agreed.pair, &e, now),
                    }
                }
            }
        }
    }

    /// Looks whether a probe has a result, or has taken too long, and tells the session.
    pub(crate) fn step_probe(&mut self, probe: ProbeId) {
        let Some((_, probed, since)) = self.handshakes.probes.get(&probe) else { return };
        let through = match probed.result() {
            Err(e) if e.kind() == ErrorKind::WouldBlock && since.elapsed() < PROBE_LIMIT => return,
            result => result.is_ok(),
        };
        let Some((place, probed, _)) = self.handshakes.probes.remove(&probe) else { return };
        self.watch.unset(probed.fd());
        self.session.probed(probe, through.then_some(place));
    }

    // ---- accepted connections

    /// A listener is readable: accepts the connections there.
    pub(crate) fn on_listener(&mut self, transport: usize, listener: u32, instant: Instant) {
        for _ in 0..MOST_AT_ONCE {
            let Some(opened) = self.registry.at(transport) else { return };
            match opened.accept(listener) {
                Ok(incoming) => {
                    self.session.set_descriptors(most_descriptors());
                    let now = self.time(instant);
                    let id = self.session.arrived_from(now, incoming.from().as_ref());
                    self.act();
                    self.watch.set(incoming.fd(), Owner::Incoming(id.0), false);
                    self.handshakes.pending.insert(id, incoming);
                    // The HELLO has often come with the connection.
                    self.on_incoming(id);
                    self.act();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if self.out_of_descriptors(&e, instant) => return,
                // Either this one connection was broken, or an older one has been closed and there is a descriptor
                // again.
                Err(_) => (),
            }
        }
    }

    /// Handles an error of accept. True: the process is out of descriptors and no connection can be dropped, so
    /// accepting stops for [`ACCEPT_AGAIN`].
    fn out_of_descriptors(&mut self, e: &io::Error, instant: Instant) -> bool {
        if !matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS)) {
            return false;
        }
        if self.session.drop_oldest_incoming() {
            self.act();
            return false;
        }
        base::log_seldom!(Error, "cannot accept a connection: {e}");
        let watch = &self.watch;
        for (_, transport) in self.registry.opened() {
            transport.listeners(&mut |_, fd| watch.pause(fd));
        }
        self.handshakes.accept_again = Some(instant + ACCEPT_AGAIN);
        true
    }

    fn take_incoming(&mut self, id: IncomingId) -> Option<Box<dyn Incoming>> {
        let incoming = self.handshakes.pending.remove(&id)?;
        self.watch.unset(incoming.fd());
        Some(incoming)
    }

    /// An incoming connection has sent something, or was closed by its other side.
    pub(crate) fn on_incoming(&mut self, id: IncomingId) {
        let Some(incoming) = self.handshakes.pending.get_mut(&id) else { return };
        match incoming.step() {
            Said::Nothing if incoming.is_answered() => self.session.incoming_answered(id),
            Said::Nothing => (),
            Said::Foreign => {
                base::log_seldom!(Debug, "a connection that is not one of ours was closed");
                drop(self.take_incoming(id));
                self.session.incoming_left(id);
            }
            Said::Hello(hello) => {
                let now = self.now();
                self.session.hello(id, &hello, now);
            }
            Said::Ready => self.finish_incoming(id),
            Said::Control => {
                let stream = self.take_incoming(id).and_then(|incoming| incoming.into_control());
                self.session.incoming_left(id);
                stream.into_iter().for_each(|stream| self.operators.take(stream));
            }
        }
    }

    fn finish_incoming(&mut self, id: IncomingId) {
        let Some(incoming) = self.take_incoming(id) else { return };
        let Some(agreed) = self.session.incoming_ready(id) else { return };
        let pair = self.session.pair(agreed.pair);
        let (local, remote) = (pair.local(), pair.remote());
        match incoming.finish(local, remote, agreed.generation).map(AnyLane::from) {
            Ok(lane) => self.attach(agreed, lane, false),
            Err(e) => base::log!(Info, "no lane for {remote}: {e}"),
        }
    }

    /// Carries out an action of the session about an incoming connection.
    pub(crate) fn receive_incoming(&mut self, action: Action<AnyLane>) {
        match action {
            Action::Answer { incoming: id, pair, ack } => {
                let Some(incoming) = self.handshakes.pending.get_mut(&id) else { return };
                match incoming.answer(&ack, pair as u32) {
                    Ok(true) => self.finish_incoming(id),
                    Ok(false) => (),
                    Err(e) => {
                        base::log!(Info, "no lane for {}: {e}", self.session.pair(pair).remote());
                        drop(self.take_incoming(id));
                        self.session.incoming_left(id);
                    }
                }
            }
            Action::Join { incoming: id, pair, number, ack } => {
                let Some(incoming) = self.take_incoming(id) else { return };
                if let Some(up) = self.session.pair_mut(pair).lane_mut() {
                    up.lane.join(incoming, &ack, number);
                }
                self.update_watched(pair);
                self.session.mark(pair);
            }
            Action::Refuse { incoming: id, ack } => {
                if let Some(mut incoming) = self.take_incoming(id) {
                    incoming.refuse(&ack);
                }
            }
            Action::Dismiss { incoming: id } => drop(self.take_incoming(id)),
            Action::Pause { incoming: id } => {
                self.handshakes.pending.get(&id).into_iter().for_each(|incoming| self.watch.pause(incoming.fd()));
            }
            Action::Ask { incoming: id, mute } => {
                let Some(incoming) = self.handshakes.pending.get(&id) else { return };
                if incoming.has_hung_up() {
                    drop(self.take_incoming(id));
                    return self.session.incoming_left(id);
                }
                self.watch.set(incoming.fd(), Owner::Incoming(id.0), false);
                let now = self.now();
                self.session.incoming_stands(id, mute, now);
            }
            _ => unreachable!("no incoming connection"),
        }
    }

    /// Watches a lane's descriptors anew if they have changed.
    pub(crate) fn update_watched(&mut self, pair: usize) {
        let watch = &self.watch;
        let Some(up) = self.session.pair_mut(pair).lane_mut() else { return };
        if up.lane.changed(&mut |fd| watch.unset(fd)) {
            self.watch_lane(pair);
        }
    }

    // ---- listeners

    /// See [`crate::Node::listen_at`].
    pub(crate) fn listen_at(&mut self, ip: Option<IpAddr>, port: Option<u16>) -> io::Result<Vec<SocketAddr>> {
        let addresses = self.registry.listen_at(ip, port)?;
        self.watch.set_listeners(&self.registry);
        Ok(addresses)
    }

    /// See [`crate::Node::stop_listening`].
    pub(crate) fn stop_listening(&mut self, addresses: &[SocketAddr]) {
        let watch = &self.watch;
        self.registry.stop_listening(addresses, &mut |fd| watch.unset(fd));
    }

    /// Closes all listeners, and all handshakes that are under way.
    pub(crate) fn close_handshakes(&mut self) {
        let watch = &self.watch;
        for (_, transport) in self.registry.opened() {
            transport.listeners(&mut |_, fd| watch.unset(fd));
        }
        self.registry.close();
        self.handshakes.attempts.drain().for_each(|(_, a)| a.fd().into_iter().for_each(|(fd, _)| watch.unset(fd)));
        self.handshakes.pending.drain().for_each(|(_, incoming)| watch.unset(incoming.fd()));
        self.handshakes.probes.drain().for_each(|(_, (_, probe, _))| watch.unset(probe.fd()));
        self.handshakes.accept_again = None;
    }
}
