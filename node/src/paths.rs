//! What leaders ask of the core while they agree: paths, and what stands in their way.
//!
//! Part of the core, for whoever holds the lock over several steps.

use crate::state::Core;
use base::ProcId;
use engine::Gone;
use session::leaders::{Agreement, Looking, Party, Turn};
use session::{Called, Obstacle, PathRef};
use std::net::SocketAddr;
use std::time::Instant;
use transports::registry::ip_addresses;
use wire::Contact;

impl Core {
    /// Whether the other side can be talked to now.
    pub fn is_connected(&self, path: PathRef) -> bool {
        self.session.is_connected(path)
    }

    /// At most 1 MiB less one byte.
    pub fn send_control(&mut self, path: PathRef, bytes: &[u8]) {
        self.session.send_control(path, bytes);
    }

    pub fn recv_control(&mut self, path: PathRef) -> Option<Vec<u8>> {
        self.session.recv_control(path)
    }

    /// Offers an inter-communicator to a leader, until `limit`: see [`Core::talk`].
    pub fn offer(&mut self, path: PathRef, decider: bool, party: &Party, limit: Option<Instant>) {
        let limit = limit.map(|limit| self.time(limit));
        self.session.offer(path, decider, party, limit);
    }

    /// How it stands with our offer.
    pub fn talk(&mut self, path: PathRef) -> Turn {
        let now = self.now();
        self.session.talk(path, now)
    }

    /// Whether the leader behind a path can still be found by its name. Nobody that cannot for long is waited for.
    pub fn is_found(&mut self, path: PathRef, found: bool) {
        let now = self.now();
        self.session.is_found(path, found, now);
    }

    /// Whether our offer was withdrawn: only the answer to that is waited for.
    pub fn is_withdrawn(&self, path: PathRef) -> bool {
        self.session.is_withdrawn(path)
    }

    /// Whom the other leader looks for at present, if it is not us.
    pub fn looking(&self, path: PathRef) -> Option<&Looking> {
        self.session.looking(path)
    }

    /// Stops waiting for whatever the other leader may answer.
    pub fn break_off(&mut self, path: PathRef) {
        self.session.break_off(path);
    }

    /// Hears all who have come to a port, and agrees with the first that still waits.
    pub fn accept(&mut self, port: ProcId, offer: &Party) -> Option<Agreement> {
        let now = self.now();
        self.session.accept(port, offer, now)
    }

    /// Whether that leader is gone and all that it said has been read.
    pub fn path_gone(&self, path: PathRef) -> Option<Gone> {
        self.session.path_gone(path)
    }

    /// What no waiting will mend between us and a leader.
    pub fn path_obstacle(&self, path: PathRef) -> Option<Obstacle> {
        self.session.path_obstacle(path)
    }

    /// Why a leader is not connected, and where it could have come to; `None`: it is.
    pub fn path_trouble(&self, path: PathRef) -> Option<(String, Vec<SocketAddr>)> {
        let i = self.session.pair_of(path)?;
        Some((self.describe_trouble(i)?, ip_addresses(&self.registry.contact())))
    }

    /// How it stands with the dials to a process that is not connected.
    pub(crate) fn describe_trouble(&self, i: usize) -> Option<String> {
        let mut said = self.session.describe_trouble(i)?;
        let own = self.session.own().host;
        if let Some(contact) = self.session.pair(i).contact()
            && contact.host != own
            && ip_addresses(contact).iter().all(|a| a.ip().is_loopback())
        {
            said += if contact.host == [0; 16] {
                // A port's name does not tell whose it is.
                " (it listens on loopback alone; if that is another host: see its MPI_CONNECT_IFACE)"
            } else {
                " (it listens on loopback alone, on another host: see its MPI_CONNECT_IFACE)"
            };
        }
        Some(said)
    }

    /// Leaders that have said something to this one, the first of its group, for which nobody has asked yet.
    pub fn unheard(&self, local: ProcId) -> impl Iterator<Item = (PathRef, impl Iterator<Item = &[u8]>)> {
        self.session.unheard(local)
    }

    /// Learns which process it is that this path leads to, among these.
    pub fn introduce(&mut self, path: PathRef, contacts: &[Contact]) {
        self.session.introduce(path, contacts);
    }

    /// Nothing can carry messages to that leader, as both are set: nobody waits for it any more.
    pub fn abandon(&mut self, path: PathRef) {
        self.session.abandon(path);
    }

    /// The next one who has come to a port.
    pub fn next_caller(&mut self, port: ProcId) -> Option<PathRef> {
        self.session.next_caller(port)
    }

    /// How it stands with one that was dialled for a port.
    pub fn called(&self, path: PathRef) -> Called {
        self.session.called(path)
    }

    /// Has nothing more to do with one that was dialled for a port, as if that had never been.
    pub fn call_off(&mut self, path: PathRef) {
        self.session.call_off(path);
    }
}
