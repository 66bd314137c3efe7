//! Which hosts can be reached: at which addresses a dial of ours has got through to them.
//!
//! Part of the session. Invariant: only a dial of this process, or of another on this host, proves anything.

use crate::action::Action;
use crate::action::ProbeId;
use crate::state::Session;
use crate::state::hosts::Proofs;
use crate::state::pair::PathRef;
use base::Memory;
use wire::lane::Lane;
use wire::{Contact, Place, Scope, TransportId};

impl<L: Lane<M>, M: Memory> Session<L, M> {
    pub(crate) fn scope(&self, transport: TransportId) -> Option<Scope> {
        self.own.transports.iter().find(|(about, _)| about.id == transport).map(|(about, _)| about.scope)
    }

    /// Whether a process is on this host; `None`: nobody knows.
    pub(crate) fn is_on_host(&self, contact: &Contact) -> Option<bool> {
        let known = contact.host != [0; 16] && self.own.host != [0; 16];
        known.then_some(contact.host == self.own.host)
    }

    /// A dial of ours has got through.
    pub(crate) fn prove(&mut self, i: usize, place: &Place) {
        if self.scope(place.transport) != Some(Scope::Anywhere) {
            return;
        }
        let pair = &mut self.pairs[i];
        pair.evidence.worked = Some(place.clone());
        if let Some(contact) = &pair.who.contact
            && contact.host != [0; 16]
        {
            self.hosts.proven.insert((contact.host, place.transport, place.host().into()));
        }
    }

    /// What this process knows of these hosts.
    pub fn proofs(&self, contacts: &[Contact]) -> Proofs {
        let of_these = |host: &[u8; 16]| contacts.iter().any(|c| c.host == *host);
        let reached = self.hosts.proven.iter().filter(|(host, ..)| of_these(host)).cloned().collect();
        Proofs { from: self.own.host, reached }
    }

    /// Takes over what was proven from this very host.
    pub fn learn(&mut self, proofs: Proofs) {
        if proofs.from == self.own.host && proofs.from != [0; 16] {
            self.hosts.proven.extend(proofs.reached);
        }
    }

    /// Whether a dial of ours would get, or has got, through to the pair's host at this address.
    pub(crate) fn is_proven(&self, i: usize, place: &Place) -> bool {
        let pair = &self.pairs[i];
        let Some(contact) = &pair.who.contact else { return false };
        pair.evidence.worked.as_ref().is_some_and(|worked| worked.is_same_host(place))
            || contact.host != [0; 16] && (contact.host == self.own.host || self.hosts.is_proven(contact.host, place))
    }

    /// A process of another host has come to us: does a dial of ours get through to it too? It is asked once for each
    /// host, while the process lives, since afterwards nobody could tell.
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

    /// A probe has ended: where it got through, if it did.
    pub fn probed(&mut self, probe: ProbeId, through: Option<Place>) {
        let Some(path) = self.hosts.probes.remove(&probe) else { return };
        if let (Some(i), Some(place)) = (self.of_path(path), through) {
            self.prove(i, &place);
        }
    }

    /// Whether it is being asked if we get through to the host behind this path.
    pub fn is_probing(&self, path: PathRef) -> bool {
        self.hosts.probes.values().any(|probed| *probed == path)
    }
}
