//! The calls for the path to another leader: negotiation, ports, and why a path is not connected.
//!
//! Part of the core, for callers that hold the lock over several steps.

use crate::state::Core;
use base::ProcId;
use base::bytes::Malformed;
use engine::Gone;
use session::leaders::{Agreement, Looking, Party, Turn};
use session::{Called, Directory, InterId, Obstacle, PathRef, RemoteGroup};
use std::net::SocketAddr;
use std::time::Instant;
use transports::registry::ip_addresses;
use wire::{Contact, Contacts};

impl Core {
    /// Whether the path has a lane now.
    pub fn is_connected(&self, path: PathRef) -> bool {
        self.session.is_connected(path)
    }

    /// The next CONTROL message from a leader. `None`: there is none yet.
    pub fn recv_control(&mut self, path: PathRef) -> Option<Vec<u8>> {
        self.session.recv_control(path)
    }

    /// Offers an inter-communicator to a leader; `None` as the limit waits for ever. `decider` says that this side's
    /// incarnation is the smaller one. [`Core::talk`] gives the outcome.
    pub fn offer(&mut self, path: PathRef, decider: bool, party: &Party, limit: Option<Instant>) {
        let limit = limit.map(|limit| self.time(limit));
        self.session.offer(path, decider, party, limit);
    }

    /// Continues the negotiation of an offer, and says how far it is.
    pub fn talk(&mut self, path: PathRef) -> Turn {
        let now = self.now();
        self.session.talk(path, now)
    }

    /// Says whether the leader behind a path can still be found by its name. A leader that cannot be found for long is
    /// not waited for.
    pub fn is_found(&mut self, path: PathRef, found: bool) {
        let now = self.now();
        self.session.is_found(path, found, now);
    }

    /// Whether this side's offer was withdrawn, so that only the answer to the withdrawal is waited for.
    pub fn is_withdrawn(&self, path: PathRef) -> bool {
        self.session.is_withdrawn(path)
    }

    /// The job that the other leader looks for at present, if that is another one than ours.
    pub fn looking(&self, path: PathRef) -> Option<&Looking> {
        self.session.looking(path)
    }

    /// Ends the negotiation on a path without waiting for an answer.
    pub fn break_off(&mut self, path: PathRef) {
        self.session.break_off(path);
    }

    /// Reads the offers of all callers of a port, and agrees with the first caller that still waits. `None`: there is
    /// none.
    pub fn accept(&mut self, port: ProcId, offer: &Party) -> Option<Agreement> {
        let now = self.now();
        self.session.accept(port, offer, now)
    }

    /// Whether that leader has died or finalized. `None` also while CONTROL messages of it are still to be received.
    pub fn path_gone(&self, path: PathRef) -> Option<Gone> {
        self.session.path_gone(path)
    }

    /// The reason why this process and a leader can never be connected as they are set, if there is one.
    pub fn path_obstacle(&self, path: PathRef) -> Option<Obstacle> {
        self.session.path_obstacle(path)
    }

    /// See [`crate::Node::path_trouble`].
    pub fn path_trouble(&self, path: PathRef) -> Option<(String, Vec<SocketAddr>)> {
        let i = self.session.pair_of(path)?;
        Some((self.describe_trouble(i)?, ip_addresses(&self.registry.contact())))
    }

    /// Why the process of a pair is not connected, in words. `None`: it is connected.
    pub(crate) fn describe_trouble(&self, i: usize) -> Option<String> {
        let mut said = self.session.describe_trouble(i)?;
        let own = self.session.own().host;
        // One that does not use TCP has no addresses.
        let at_loopback = |at: Vec<SocketAddr>| !at.is_empty() && at.iter().all(|a| a.ip().is_loopback());
        if let Some(contact) = self.session.pair(i).contact()
            && contact.host != own
            && at_loopback(ip_addresses(contact))
        {
            said += if contact.host == [0; 16] {
                // A port's name does not contain the host.
                " (it listens on loopback alone; if that is another host: see its MPI_CONNECT_IFACE)"
            } else {
                " (it listens on loopback alone, on another host: see its MPI_CONNECT_IFACE)"
            };
        }
        Some(said)
    }

    /// The leaders whose CONTROL messages to `local`, the leader of its group, were not received yet, with these
    /// messages.
    pub fn unheard(&self, local: ProcId) -> impl Iterator<Item = (PathRef, impl Iterator<Item = &[u8]>)> {
        self.session.unheard(local)
    }

    /// Whether this process of another job is known, and is another one than in this contact record.
    pub fn contradicts(&self, local: ProcId, remote: ProcId, contact: &Contact) -> bool {
        self.session.contradicts(local, remote, contact)
    }

    // ---- contact records of large groups

    /// Sets the place of this process among those of its group that ask each other for contact records of large groups.
    pub fn set_directory(&mut self, incarnation: u64, directory: Directory) {
        self.session.set_directory(incarnation, directory);
    }

    /// Makes a remote group known before it is opened. `false`: ask again after some progress.
    pub fn acquaint(&mut self, local: ProcId, remote: &RemoteGroup) -> bool {
        // Both groups have met in the same way.
        if self.trust.has_pass(local.incarnation) {
            self.pass_to(remote.incarnation, &remote.cookie);
        }
        self.session.acquaint(local, remote)
    }

    /// The contact records of all processes of the group that this inter-communicator was made of. `None`: ask again after some
    /// progress. `Err`: nobody can tell them.
    pub fn all_records(&mut self, inter: InterId) -> Option<Result<Contacts, Malformed>> {
        self.session.all_records_of(inter)
    }

    /// Says that a path leads to one of the processes of these contact records. Its process number tells which of them.
    pub fn introduce(&mut self, path: PathRef, contacts: &Contacts) {
        self.session.introduce(path, contacts);
    }

    /// Gives up a path that can never be connected, as both sides are set. [`Core::path_gone`] then says that the
    /// leader is dead.
    pub fn abandon(&mut self, path: PathRef) {
        self.session.abandon(path);
    }

    /// The path to the next caller of a port. Each caller is returned once.
    pub fn next_caller(&mut self, port: ProcId) -> Option<PathRef> {
        self.session.next_caller(port)
    }

    /// The state of a caller that this side has dialled for a port.
    pub fn called(&self, path: PathRef) -> Called {
        self.session.called(path)
    }

    /// Gives up a caller that this side has dialled for a port, as if it had never been dialled.
    pub fn call_off(&mut self, path: PathRef) {
        self.session.call_off(path);
    }
}
