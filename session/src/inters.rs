//! Open inter-communicators, and the pairs that are their remote groups.
//!
//! Part of the session. Invariant: a pair lives as long as an open inter-communicator has it.

use crate::action::Action;
use crate::state::Session;
use crate::state::groups::RemoteGroup;
use crate::state::inters::{Inter, InterId};
use base::{Memory, ProcId};
use engine::{ContextId, Ctx, PeerId, Source};
use std::sync::Arc;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Opens an inter-communicator of our rank `local` and a remote group, with the context that the leaders have
    /// agreed on. Its pairs get their lanes when there is something to send.
    pub fn open(&mut self, local: ProcId, remote: &RemoteGroup, context: ContextId) -> InterId {
        let members = (0u32..)
            .zip(&remote.contacts)
            .map(|(rank, contact)| {
                self.know(local, ProcId { incarnation: remote.incarnation, rank }, remote.cookie, contact)
            })
            .collect();
        if let Some(between) = self.groups.between_mut(local.incarnation, remote.incarnation) {
            between.size = u32::try_from(remote.contacts.len()).ok();
        }
        self.open_with(members, context, local.rank)
    }

    /// Opens an inter-communicator made from `parent`, for example by MPI_Comm_split: `rank` is our rank in its local
    /// group, `members` are its remote group by their ranks in the parent.
    ///
    /// # Panics
    /// If the parent is closed, or has no such rank.
    pub fn open_child(&mut self, parent: InterId, context: ContextId, rank: u32, members: &[u32]) -> InterId {
        let of_parent = &self.inters.get(parent).expect("an open parent").members;
        let members = members.iter().map(|&rank| of_parent[rank as usize]).collect();
        self.open_with(members, context, rank)
    }

    /// Refuses the context of an inter-communicator that was made from `parent` without this process: a process that
    /// sends there gets an error.
    ///
    /// # Panics
    /// If the parent is closed.
    pub fn refuse_child(&mut self, parent: InterId, context: ContextId) {
        let member = self.inters.get(parent).expect("an open parent").members[0];
        self.refuse_among(member, context);
    }

    /// Opens an inter-communicator with these pairs as its remote group and our rank in its local group.
    fn open_with(&mut self, members: Arc<[usize]>, context: ContextId, rank: u32) -> InterId {
        for &i in members.iter() {
            self.pairs[i].inters += 1;
        }
        let peers = members.iter().map(|&i| PeerId(i as u32)).collect();
        let ctx = self.engine.open(context, rank, peers);
        let inters = &mut self.inters;
        inters.last_serial += 1;
        let serial = inters.last_serial;
        let slot = inters.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            inters.slots.push(None);
            inters.slots.len() - 1
        });
        inters.slots[slot] = Some(Inter { serial, ctx, members });
        self.act(Action::Neighbours);
        // Messages may have arrived before.
        self.settle();
        InterId { slot: slot as u32, serial }
    }

    /// Closes an inter-communicator. Its pairs stay as long as others, or our group, need them.
    pub fn close(&mut self, inter: InterId) {
        if self.inters.get(inter).is_none() {
            return;
        }
        let Some(Inter { ctx, members, .. }) = self.inters.slots[inter.slot as usize].take() else { return };
        self.engine.close(ctx);
        self.settle();
        for &i in members.iter() {
            self.pairs[i].inters -= 1;
            self.agenda.leaving.insert(i);
        }
        self.leave_all();
    }

    /// The engine's context of an inter-communicator. For a closed one it is a context that the engine does not know, and
    /// answers with "revoked".
    #[inline]
    pub fn ctx(&self, inter: InterId) -> Ctx {
        self.inters.get(inter).map_or(Ctx(u32::MAX), |inter| inter.ctx)
    }

    /// The numbers of the pairs that a source stands for; none if the inter-communicator is closed.
    pub fn sources(&self, inter: InterId, source: Source) -> Vec<usize> {
        let Some(Inter { members, .. }) = self.inters.get(inter) else { return Vec::new() };
        match source {
            Source::Any => members.to_vec(),
            Source::Rank(r) => members.get(r as usize).copied().into_iter().collect(),
        }
    }
}
