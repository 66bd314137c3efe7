//! Incoming connections: accepted, and without a lane yet.
//!
//! Part of the session. Invariants: all of them together take no more than their part of the program's descriptors; none that
//! has said nothing of the key takes the place of one that has; no host keeps others out.

use crate::action::Action;
use crate::action::IncomingId;
use crate::state::Session;
use crate::state::incoming::{Incoming, State};
use base::{Memory, Time};
use std::cmp::Reverse;
use std::collections::HashMap;
use wire::Place;
use wire::lane::Lane;

/// The most incoming connections at a time.
const MOST: usize = 64;
/// They take at most one in this many of the program's descriptors.
const PART: usize = 8;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// As [`Session::arrived_from`], from this host.
    pub fn arrived(&mut self, now: Time) -> IncomingId {
        self.arrived_from(now, None)
    }

    /// Reports an accepted connection, and returns its number. If there are too many, one of those that have said nothing of the
    /// key is dismissed, or else one of all: the oldest of the host that has most.
    pub fn arrived_from(&mut self, now: Time, from: Option<&Place>) -> IncomingId {
        let most = (self.own.descriptors / PART).clamp(1, MOST);
        #[cfg(feature = "plant")]
        let most = if self.plant == crate::Plant::ManyIncoming { usize::MAX } else { most };
        if self.incoming.len() >= most {
            self.drop_oldest_incoming();
        }
        self.incoming.last = self.incoming.last.wrapping_add(1);
        let id = IncomingId(self.incoming.last);
        self.incoming
            .table
            .insert(id, Box::new(Incoming { since: now, from: from.cloned(), answered: false, state: State::Silent }));
        id
    }

    /// Reports that the other side has known the key, or repeats who has.
    pub fn incoming_answered(&mut self, incoming: IncomingId) {
        if let Some(known) = self.incoming.get_mut(incoming) {
            known.answered = true;
        }
    }

    /// Dismisses an incoming connection as [`Session::arrived_from`] does, to free its descriptor; `false`: there is none.
    pub fn drop_oldest_incoming(&mut self) -> bool {
        let mut of_host: HashMap<_, usize> = HashMap::new();
        self.incoming.table.values().for_each(|known| *of_host.entry(known.host()).or_default() += 1);
        let count = |known: &Incoming| of_host.get(&known.host()).copied();
        // Numbers grow, but for one wrap in 2^32 connections.
        let key = |id: &IncomingId, known: &Incoming| (known.is_answered(), Reverse(count(known)), *id);
        let oldest = self.incoming.table.iter().min_by_key(|(id, known)| key(id, known));
        let Some(incoming) = oldest.map(|(id, _)| *id) else { return false };
        self.incoming.take(incoming);
        self.act(Action::Dismiss { incoming });
        true
    }

    /// Reports that an incoming connection was closed, or that what it said is not this protocol.
    pub fn incoming_left(&mut self, incoming: IncomingId) {
        self.incoming.take(incoming);
    }
}
