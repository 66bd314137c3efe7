//! Open inter-communicators, and the pairs of their remote groups.
//!
//! Part of the session. Invariants: a pair lives as long as an open inter-communicator has it. Whoever is a member of an open
//! inter-communicator and has a pair is known to the engine as a peer there.

use crate::state::Session;
use crate::state::groups::RemoteGroup;
use crate::state::inters::{Inter, InterId};
use base::{Memory, ProcId, tight};
use engine::{ContextId, Ctx, Members, PeerId, Source};
use std::sync::Arc;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Opens an inter-communicator of our rank `local` and a remote group, with the context that the leaders have
    /// agreed on. Its pairs get their lanes when there is something to send.
    pub fn open(&mut self, local: ProcId, remote: &RemoteGroup, context: ContextId) -> InterId {
        let theirs = remote.incarnation;
        self.acquaint(local, remote);
        // Of those that came before their records, only the right ones stay.
        for (i, rank) in self.pairs_between(local, theirs).map(|i| (i, self.pairs[i].remote().rank)).collect::<Vec<_>>()
        {
            if self.lacks_record(i) && self.pairs[i].is_stranger() {
                self.forget_stranger(i);
                continue;
            }
            self.meet_member(local, ProcId { incarnation: theirs, rank });
        }
        self.open_with(local, theirs, remote.contacts.len(), None, context, local.rank)
    }

    /// Opens an inter-communicator made from `parent`, for example by MPI_Comm_split: `rank` is our rank in its local
    /// group, `members` are its remote group by their ranks in the parent.
    ///
    /// # Panics
    /// If the parent is closed, or has no such rank.
    pub fn open_child(&mut self, parent: InterId, context: ContextId, rank: u32, members: &[u32]) -> InterId {
        let parent = self.inters.get(parent).expect("an open parent");
        let (local, theirs) = (parent.local, parent.theirs);
        let ranks = members.iter().map(|rank| parent.member(*rank).expect("a rank of the parent").rank).collect();
        self.open_with(local, theirs, members.len() as u32, Some(ranks), context, rank)
    }

    /// Refuses the context of an inter-communicator that was made from `parent` without this process: a process that
    /// sends there gets an error.
    ///
    /// # Panics
    /// If the parent is closed.
    pub fn refuse_child(&mut self, parent: InterId, context: ContextId) {
        let parent = self.inters.get(parent).expect("an open parent");
        self.refuse_between(parent.local.incarnation, parent.theirs, context);
    }

    /// Opens an inter-communicator with these ranks of a remote group, and our rank in its local group.
    fn open_with(
        &mut self,
        local: ProcId,
        theirs: u64,
        size: u32,
        ranks: Option<Arc<[u32]>>,
        context: ContextId,
        rank: u32,
    ) -> InterId {
        let between = self.groups.meet(local.incarnation, theirs);
        between.inters += 1;
        let group = between.number;
        let is_whole = size <= self.most_at_once;
        let inters = &mut self.inters;
        inters.last_serial += 1;
        let serial = inters.last_serial;
        let mut inter = Inter { serial, ctx: Ctx(u32::MAX), local, theirs, size, ranks, is_whole, watched: 0 };
        let mut members = Members::of_size(size);
        if is_whole {
            for rank in 0..size {
                let made = inter.member(rank).and_then(|process| self.meet_member(local, process));
                made.into_iter().for_each(|i| self.enter(i, rank, &mut members));
            }
        } else {
            for i in self.pairs_between(local, theirs).collect::<Vec<_>>() {
                let rank = inter.rank_of(self.pairs[i].remote());
                rank.into_iter().for_each(|rank| self.enter(i, rank, &mut members));
            }
        }
        inter.ctx = self.engine.open_among(group, context, rank, members);
        let slots = &mut self.inters.slots;
        let slot = slots.iter().position(Option::is_none).unwrap_or_else(|| {
            tight::push(slots, None);
            slots.len() - 1
        });
        slots[slot] = Some(inter);
        // Messages may have arrived before.
        self.settle();
        InterId { slot: slot as u32, serial }
    }

    fn enter(&mut self, i: usize, rank: u32, members: &mut Members) {
        self.pairs[i].inters += 1;
        members.set(rank, self.pairs[i].peer);
    }

    /// The pairs of a process of ours and members of another group.
    pub(crate) fn pairs_between(&self, local: ProcId, theirs: u64) -> impl Iterator<Item = usize> {
        let is_between = move |pair: &crate::Pair<L>| {
            pair.serial != 0 && pair.local() == local && pair.remote().incarnation == theirs
        };
        self.pairs.iter().filter(move |(_, pair)| is_between(pair)).map(|(i, _)| i)
    }

    /// The pair of a process of ours and a member of a group that is known, which is made if there is none. Of a large group its
    /// contact record comes when it is needed. `None`: the group is not known, or has no such rank.
    pub fn meet_member(&mut self, local: ProcId, remote: ProcId) -> Option<usize> {
        let between = self.groups.between(local.incarnation, remote.incarnation)?;
        let known = between.known.as_ref()?;
        let cookie = known.cookie;
        match between.contact(remote.rank) {
            Some(contact) => Some(self.know(local, remote, cookie, &contact)),
            None if known.contacts.root().is_some() && remote.rank < known.contacts.len() => {
                let i = self.make_pair(local, remote);
                self.pairs[i].who.cookie.get_or_insert(cookie);
                Some(i)
            }
            None => None,
        }
    }

    /// A new pair takes its place in the inter-communicators that are open between the two groups.
    pub(crate) fn take_place(&mut self, i: usize) {
        let (local, remote, peer) = (self.pairs[i].local(), self.pairs[i].remote(), self.pairs[i].peer);
        for inter in self.inters.slots.iter().flatten().filter(|inter| inter.local == local) {
            if let Some(rank) = inter.rank_of(remote) {
                self.pairs[i].inters += 1;
                self.engine.introduce(inter.ctx, rank, peer);
            }
        }
    }

    /// Closes an inter-communicator. Its pairs stay as long as others, or our group, need them.
    pub fn close(&mut self, inter: InterId) {
        if self.inters.get(inter).is_none() {
            return;
        }
        let Some(Inter { ctx, local, theirs, .. }) = self.inters.slots[inter.slot as usize].take() else { return };
        let members: Vec<usize> = self.engine.sources(ctx, Source::Any).map(|peer| peer.0 as usize).collect();
        self.engine.close(ctx);
        self.settle();
        for i in members {
            self.pairs[i].inters -= 1;
            self.agenda.leaving.insert(i);
        }
        self.groups.end_inter(&mut self.engine, local.incarnation, theirs);
        self.leave_all();
        self.end_old_directories();
    }

    /// The engine's context of an inter-communicator. For a closed one it is a context that the engine does not know, and
    /// answers with "revoked".
    #[inline]
    pub fn ctx(&self, inter: InterId) -> Ctx {
        self.inters.get(inter).map_or(Ctx(u32::MAX), |inter| inter.ctx)
    }

    /// As [`Session::ctx`], for an operation with this rank: it has its pair then.
    #[inline]
    pub fn ctx_with(&mut self, inter: InterId, source: Source) -> Ctx {
        match self.inters.get(inter) {
            Some(of) if !of.is_whole => self.ctx_meeting(inter, source),
            of => of.map_or(Ctx(u32::MAX), |of| of.ctx),
        }
    }

    #[cold]
    fn ctx_meeting(&mut self, inter: InterId, source: Source) -> Ctx {
        if let Source::Rank(rank) = source {
            self.member(inter, rank);
        }
        self.ctx(inter)
    }

    /// The pair with the process of this rank in the remote group of an inter-communicator, which is made if there is none.
    pub fn member(&mut self, inter: InterId, rank: u32) -> Option<usize> {
        let of = self.inters.get(inter)?;
        match self.engine.members(of.ctx)?.get(rank) {
            Some(PeerId(i)) => Some(i as usize),
            None => self.meet_member(of.local, of.member(rank)?),
        }
    }

    /// The numbers of the pairs that a source stands for, as far as there are any; none if the inter-communicator is closed.
    pub fn sources(&self, inter: InterId, source: Source) -> Vec<usize> {
        self.engine.sources(self.ctx(inter), source).map(|peer| peer.0 as usize).collect()
    }

    /// Sets how large a remote group may be whose ranks have their pairs from the beginning; for tests.
    pub fn set_most_at_once(&mut self, most: u32) {
        self.most_at_once = most;
    }
}
