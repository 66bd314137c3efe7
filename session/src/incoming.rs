//! Incoming connections: accepted, and without a lane yet.
//!
//! Part of the session. Invariant: all of them together take no more than their part of the program's descriptors.

use crate::action::Action;
use crate::action::IncomingId;
use crate::state::Session;
use crate::state::incoming::{Incoming, State};
use base::{Memory, Time};
use wire::lane::Lane;

/// The most incoming connections at a time.
const MOST: usize = 64;
/// They take at most one in this many of the program's descriptors.
const PART: usize = 8;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Reports an accepted connection, and returns its number. If there are too many, the oldest is dismissed.
    pub fn arrived(&mut self, now: Time) -> IncomingId {
        let most = (self.own.descriptors / PART).clamp(1, MOST);
        #[cfg(feature = "plant")]
        let most = if self.plant == crate::Plant::ManyIncoming { usize::MAX } else { most };
        if self.incoming.len() >= most {
            self.drop_oldest_incoming();
        }
        self.incoming.last = self.incoming.last.wrapping_add(1);
        let id = IncomingId(self.incoming.last);
        self.incoming.table.insert(id, Incoming { since: now, state: State::Silent });
        id
    }

    /// Dismisses the oldest incoming connection, to free its descriptor; `false`: there is none.
    pub fn drop_oldest_incoming(&mut self) -> bool {
        let Some((incoming, _)) = self.incoming.table.pop_first() else { return false };
        self.act(Action::Dismiss { incoming });
        true
    }

    /// Reports that an incoming connection was closed, or that what it said is not this protocol.
    pub fn incoming_left(&mut self, incoming: IncomingId) {
        self.incoming.take(incoming);
    }
}
