//! The groups of this process, and what the pairs between two groups share.
//!
//! Part of the session. Invariants: a removed group is kept as long as a pair has it. What is known between two groups
//! is kept as long as our group or one of their pairs stands; of remote groups that have left, only a few are
//! remembered.

use crate::state::Session;
use crate::state::groups::Group;
use crate::state::pair::PathRef;
use base::{Memory, ProcId};
use engine::ContextId;
use std::collections::VecDeque;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Registers a group of ours: from now on members of other jobs may connect to it.
    pub fn add_group(&mut self, group: Group) {
        self.groups.register(group, None);
    }

    /// Opens a port, to which any leader with its cookie may connect. [`Session::remove_group`] with the incarnation of
    /// `port` closes it.
    pub fn add_port(&mut self, port: ProcId, cookie: [u8; 16]) {
        let (group, callers) = (Group::of_port(port, cookie), Some(VecDeque::new()));
        self.groups.register(group, callers);
    }

    /// The callers of a port that were not answered yet, in order of arrival.
    pub(crate) fn callers(&self, port: ProcId) -> Vec<PathRef> {
        self.groups.callers(port.incarnation)
    }

    /// Takes the first caller of a port off its list; [`Session::accept`] does not answer it any more.
    pub fn next_caller(&mut self, port: ProcId) -> Option<PathRef> {
        self.groups.own.get_mut(&port.incarnation)?.callers.as_mut()?.pop_front()
    }

    /// Removes a group or a port: it takes no new connections. Open inter-communicators go on; the other pairs say BYE
    /// and end.
    pub fn remove_group(&mut self, incarnation: u64) {
        let Some(known) = self.groups.own.get_mut(&incarnation) else { return };
        known.removed = true;
        let asked = known.directory.is_some();
        self.groups.end_removed(incarnation);
        // What is remembered of pairs that have ended goes with the group.
        let engine = &mut self.engine;
        self.groups.between.retain(|(ours, _), between| {
            let stays = *ours != incarnation || between.is_used() || asked;
            if !stays {
                engine.remove_group(between.number);
            }
            stays
        });
        let its: Vec<_> = self.pairs.of_group(incarnation).collect();
        self.agenda.leaving.extend(its);
        self.leave_all();
        self.end_old_directories();
    }

    /// Refuses a context that was agreed with the leader behind a path and that is not opened here: a process that
    /// sends there gets an error.
    pub fn refuse(&mut self, path: PathRef, context: ContextId) {
        let Some(i) = self.of_path(path) else { return };
        self.refuse_between(self.pairs[i].local().incarnation, self.pairs[i].remote().incarnation, context);
    }

    /// Refuses a context between a group of ours and another one.
    pub(crate) fn refuse_between(&mut self, ours: u64, theirs: u64, context: ContextId) {
        if let Some(between) = self.groups.between(ours, theirs) {
            self.engine.refuse(between.number, context);
            self.settle();
        }
    }

    /// Whether this group is one of ours, or one that another group of ours is or was connected with.
    pub fn knows_group(&self, incarnation: u64) -> bool {
        self.groups.own.contains_key(&incarnation)
            || self.groups.between.keys().any(|(ours, theirs)| *ours == incarnation || *theirs == incarnation)
    }

    /// How many pairs of groups, one of ours and one remote, are remembered.
    pub fn groups_known(&self) -> usize {
        self.groups.between.len()
    }
}
