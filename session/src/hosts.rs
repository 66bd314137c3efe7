//! Which hosts can be reached: at which addresses a dial has got through to them.
//!
//! Part of the session. Invariant: only a dial of this process, or of another on this host, proves that a host can be
//! reached.

use crate::action::Action;
use crate::action::ProbeId;
use crate::state::Session;
use crate::state::hosts::Proofs;
use crate::state::pair::PathRef;
use base::{Memory, Time};
use std::collections::BTreeSet;
use wire::lane::Lane;
use wire::{Contact, Contacts, Place, Scope, TransportId};

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Which processes a transport reaches; `None`: the transport is not known.
    pub(crate) fn scope(&self, transport: TransportId) -> Option<Scope> {
        self.own.transports.iter().find(|(about, _)| about.id == transport).map(|(about, _)| about.scope)
    }

    /// Whether a process is on this host; `None` if the host of either is not known.
    pub(crate) fn is_on_host(&self, contact: &Contact) -> Option<bool> {
        let known = contact.host != [0; 16] && self.own.host != [0; 16];
        known.then_some(contact.host == self.own.host)
    }

    /// A dial to pair `i` has got through at this place.
    pub(crate) fn prove(&mut self, i: usize, place: &Place) {
        if self.scope(place.transport) != Some(Scope::Anywhere) {
            return;
        }
        let pair = &mut self.pairs[i];
        pair.evidence.worked = Some(place.clone());
        let host = pair.who.contact.as_ref().map_or([0; 16], |contact| contact.host);
        self.hosts.prove(host, pair.process(), place);
    }

    /// Pair `i` has a lane of a transport of this scope: remembers which way leads to its host.
    pub(crate) fn note_way(&mut self, i: usize, scope: Option<Scope>, now: Time) {
        let Some(host) = self.pairs[i].who.contact.as_ref().map(|contact| contact.host) else { return };
        match scope {
            Some(Scope::Passed) if host != [0; 16] => self.hosts.passed.entry(host).or_default().left(now),
            Some(Scope::Anywhere) => drop(self.hosts.passed.remove(&host)),
            _ => (),
        }
    }

    /// Whether the host of pair `i` was reached last by a transport that passes on, and by no other since. From time to
    /// time, and less and less often, the answer is no: pairs may be too short-lived for moves of their own.
    pub(crate) fn is_passed(&mut self, i: usize, now: Time) -> bool {
        let Some(contact) = &self.pairs[i].who.contact else { return false };
        let Some(again) = self.hosts.passed.get_mut(&contact.host) else { return false };
        let is_due = again.is_due(now);
        if is_due {
            again.failed(now);
        }
        !is_due
    }

    /// What this process has proven of the hosts of these contact records, for other processes of this host.
    pub fn proofs(&self, contacts: &Contacts) -> Proofs {
        let hosts: BTreeSet<[u8; 16]> = contacts.iter().map(|contact| contact.host).collect();
        let reached = self.hosts.proven.iter().filter(|(host, ..)| hosts.contains(host)).cloned().collect();
        Proofs { from: self.own.host, reached }
    }

    /// Takes over what another process has proven; ignored if it is of another host.
    pub fn learn(&mut self, proofs: Proofs) {
        if proofs.from == self.own.host && proofs.from != [0; 16] {
            self.hosts.proven.extend(proofs.reached);
        }
    }

    /// Whether a dial to the host of pair `i` is known to get through at this address. It always does on this host.
    pub(crate) fn is_proven(&self, i: usize, place: &Place) -> bool {
        let pair = &self.pairs[i];
        let Some(contact) = &pair.who.contact else { return false };
        pair.evidence.worked.as_ref().is_some_and(|worked| worked.is_same_host(place))
            || contact.host != [0; 16] && (contact.host == self.own.host || self.hosts.is_proven(contact.host, place))
    }

    /// Probes whether a dial gets through to the host of a pair whose process has dialled us: once for each host, and
    /// while the process lives, since a refusal after its death proves nothing at a host that was never reached.
    pub(crate) fn probe_host(&mut self, i: usize) {
        let pair = &self.pairs[i];
        let (Some(contact), Some(seen)) = (&pair.who.contact, &pair.evidence.seen_at) else { return };
        let Some(entry) = contact.entry(seen.transport).filter(|_| pair.lane().is_some()) else { return };
        let (entry, seen) = (entry.to_vec(), seen.clone());
        let key = (contact.host, seen.transport, seen.host().into());
        let asked = contact.host != [0; 16] && self.hosts.asked.contains(&key);
        if asked || self.is_proven(i, &seen) {
            return;
        }
        let path = PathRef { slot: i, serial: pair.serial };
        self.hosts.asked.insert(key);
        self.hosts.last_probe += 1;
        let probe = ProbeId(self.hosts.last_probe);
        self.hosts.probes.insert(probe, path);
        self.act(Action::Probe { probe, transport: seen.transport, entry, seen });
    }

    /// Reports the end of a probe, and the place if it got through: the answer to [`Action::Probe`].
    pub fn probed(&mut self, probe: ProbeId, through: Option<Place>) {
        let Some(path) = self.hosts.probes.remove(&probe) else { return };
        if let (Some(i), Some(place)) = (self.of_path(path), through) {
            self.prove(i, &place);
        }
    }

    /// Whether a probe of the host behind this path is open.
    pub(crate) fn is_probing(&self, path: PathRef) -> bool {
        self.hosts.probes.values().any(|probed| *probed == path)
    }
}
