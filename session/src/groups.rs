//! The groups that this process is in, and what the pairs of two groups share.
//!
//! Part of the session. Invariants: a group that was removed is kept as long as a pair has it; what is known of two groups,
//! as long as ours stands or a pair does, but of few that have left.

use crate::state::Session;
use crate::state::groups::{Group, Registered};
use crate::state::pair::PathRef;
use base::{Memory, ProcId};
use engine::ContextId;
use std::collections::VecDeque;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    pub fn add_group(&mut self, group: Group) {
        self.groups.own.insert(group.incarnation, Registered { group, removed: false, callers: None, pairs: 0 });
    }

    /// A port: a place to which leaders may come who are not expected, for [`Session::next_caller`]. Removed as groups are.
    pub fn add_port(&mut self, port: ProcId, cookie: [u8; 16]) {
        let (group, callers) = (Group::of_port(port, cookie), Some(VecDeque::new()));
        self.groups.own.insert(group.incarnation, Registered { group, removed: false, callers, pairs: 0 });
    }

    /// Those who have come to a port and were not answered yet, in order.
    pub fn callers(&self, port: ProcId) -> Vec<PathRef> {
        self.groups.callers(port.incarnation)
    }

    /// The next one who has come to a port, whom nobody else will ask for.
    pub fn next_caller(&mut self, port: ProcId) -> Option<PathRef> {
        self.groups.own.get_mut(&port.incarnation)?.callers.as_mut()?.pop_front()
    }

    /// Nobody new may connect to this group; those who have go on.
    pub fn remove_group(&mut self, incarnation: u64) {
        let Some(known) = self.groups.own.get_mut(&incarnation) else { return };
        known.removed = true;
        if known.pairs == 0 {
            self.groups.own.remove(&incarnation);
        }
        // With the group goes the memory of those whose pair has ended.
        let engine = &mut self.engine;
        self.groups.between.retain(|(ours, _), between| {
            let stays = *ours != incarnation || between.pairs > 0;
            if !stays {
                engine.remove_group(between.number);
            }
            stays
        });
        let its: Vec<_> = self.pairs.of_group(incarnation).collect();
        self.agenda.leaving.extend(its);
        self.leave_all();
    }

    /// That leader agreed to a context which nobody here will open: whoever sends to it is told.
    pub fn refuse(&mut self, path: PathRef, context: ContextId) {
        let Some(i) = self.of_path(path) else { return };
        self.refuse_among(i, context);
    }

    /// Nobody here will open this context, counted among the pairs of pair `i`'s incarnations.
    pub(crate) fn refuse_among(&mut self, i: usize, context: ContextId) {
        let (ours, theirs) = (self.pairs[i].local().incarnation, self.pairs[i].remote().incarnation);
        if let Some(between) = self.groups.between(ours, theirs) {
            self.engine.refuse(between.number, context);
            self.settle();
        }
    }

    /// How many groups of others there are, or were.
    pub fn groups_known(&self) -> usize {
        self.groups.between.len()
    }
}
