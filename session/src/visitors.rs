//! Pending handshakes: those who have come and have no lane yet.
//!
//! Part of the session. Invariant: all of them together take no more than their part of the program's descriptors.

use crate::action::Action;
use crate::action::VisitorId;
use crate::state::Session;
use crate::state::visitors::{State, Visitor};
use base::{Memory, Time};
use wire::lane::Lane;

/// Connections without a good HELLO that are borne at a time, and the part of the program's descriptors that they may
/// take.
const MOST: usize = 64;
const PART: usize = 8;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Somebody has come. If there are too many, the one that came first gives way.
    pub fn arrived(&mut self, now: Time) -> VisitorId {
        let most = (self.own.descriptors / PART).clamp(1, MOST);
        if self.visitors.len() >= most {
            self.drop_oldest_visitor();
        }
        self.visitors.last = self.visitors.last.wrapping_add(1);
        let id = VisitorId(self.visitors.last);
        self.visitors.table.insert(id, Visitor { since: now, state: State::Silent });
        id
    }

    /// Those who have said nothing give way to those who may have something to say. Whether there was one.
    pub fn drop_oldest_visitor(&mut self) -> bool {
        let Some((visitor, _)) = self.visitors.table.pop_first() else { return false };
        self.act(Action::Dismiss { visitor });
        true
    }

    /// It has hung up, or has said nothing that could be answered.
    pub fn visitor_left(&mut self, visitor: VisitorId) {
        self.visitors.take(visitor);
    }
}
