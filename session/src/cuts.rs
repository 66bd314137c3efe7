//! Cuts and restarts: what of the messages of one group belongs to them, and what processes tell each other of them.
//!
//! Part of the session. Invariants: what is told is opaque here, and changes nothing of the connections; what strangers tell costs
//! no more than all else that they say.

use crate::action::Action;
use crate::state::Session;
use crate::state::inters::InterId;
use crate::strangers::MAX_STRANGER_CONTROL;
use base::protocol::control::CHECKPOINT;
use base::{Memory, ProcId, Time};
use engine::{ContextId, CutOf, Gone, Kept, Limits, OpId, Resume, Source, Wildcards};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::frame::MAX_PAYLOAD;
use wire::lane::Lane;

/// Bytes under way to a process that has not acknowledged them, beyond which it is told no more of checkpoints: the rows of the
/// largest job, twice. And to a stranger, which only gets answers.
const MOST_UNHEARD: usize = 64 << 20;
const MOST_UNHEARD_BY_STRANGER: usize = 1 << 20;
/// What a stranger tells again, or beyond [`MAX_STRANGER_CONTROL`], is handed on once in this time: a leader that restarts asks as often.
pub(crate) const HAND_ON: Duration = Duration::from_millis(500);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Tells another process something of checkpoints, in less than 1 MiB. Nothing is sent if the two have no pair.
    pub fn tell_of_checkpoints(&mut self, local: ProcId, remote: ProcId, bytes: &[u8]) {
        let mut told = vec![CHECKPOINT];
        told.extend_from_slice(bytes);
        if told.len() >= MAX_PAYLOAD {
            base::log!(Error, "what is to be told {remote} of checkpoints is too long");
            return;
        }
        let Some(i) = self.pair_with(local, remote) else { return };
        let pair = &self.pairs[i];
        let most = if pair.is_stranger() { MOST_UNHEARD_BY_STRANGER } else { MOST_UNHEARD };
        if pair.path.retained_bytes() >= most {
            base::log_seldom!(Info, "{remote} asks of checkpoints and hears no answer: it is told nothing more");
            return;
        }
        self.engine.control(pair.peer, &told);
        self.settle();
    }

    /// Whether a CONTROL message is about checkpoints; it is handed on then. What a stranger tells is kept, and handed on again once
    /// a contact record shows that it is the process that it says.
    pub(crate) fn hear_of_checkpoints(&mut self, i: usize, bytes: &[u8]) -> bool {
        let Some((&CHECKPOINT, told)) = bytes.split_first() else { return false };
        let pair = &self.pairs[i];
        if pair.caller.is_some() {
            return true;
        }
        if !pair.is_stranger() {
            self.hand_on(i, told.to_vec(), false);
        } else if self.keep_early(i, told) {
            self.hand_on(i, told.to_vec(), true);
        }
        true
    }

    /// Keeps what a stranger tells, unless it has told that before. Returns whether it is to be handed on now.
    fn keep_early(&mut self, i: usize, told: &[u8]) -> bool {
        let is_new = !self.pairs[i].early.messages.iter().any(|before| before == told);
        if is_new && !self.has_control_room(i, told.len()) {
            self.says_too_much(i);
            return false;
        }
        let pair = &mut self.pairs[i];
        if is_new && !pair.early.put(told.to_vec()) {
            return false;
        }
        let is_little = is_new && pair.kept_control() <= MAX_STRANGER_CONTROL;
        let was_heard = std::mem::replace(&mut pair.early_heard, true);
        is_little || !was_heard
    }

    /// From time to time strangers are heard again that say the same.
    pub(crate) fn hear_strangers_again(&mut self, now: Time) {
        if now >= self.agenda.next_hearing {
            self.agenda.next_hearing = now + HAND_ON;
            for at in 0..self.pairs.strangers.len() {
                let i = self.pairs.strangers[at];
                self.pairs[i].early_heard = false;
            }
        }
    }

    fn hand_on(&mut self, i: usize, bytes: Vec<u8>, is_stranger: bool) {
        let (local, remote) = (self.pairs[i].local(), self.pairs[i].remote());
        self.act(Action::OfCheckpoints { local, remote, bytes, is_stranger });
    }

    /// Hands on what a process has told of checkpoints that is no stranger any more.
    pub(crate) fn hand_on_early(&mut self, i: usize) {
        while let Some(bytes) = self.pairs[i].early.take() {
            self.hand_on(i, bytes, false);
        }
    }

    /// The cut of this moment, of the messages between a group of ours and others.
    pub fn cut(&mut self, incarnation: u64) -> BTreeMap<ProcId, CutOf> {
        let cut = self.engine.cut(&self.mem);
        let of = cut.into_iter().filter_map(|(peer, of)| {
            let pair = &self.pairs[peer.0 as usize];
            (pair.serial != 0 && pair.local().incarnation == incarnation).then(|| (pair.remote(), of))
        });
        of.collect()
    }

    /// The receives from any source in the inter-communicators of a group of ours, by the group that is joined with it.
    pub fn wildcards(&self, incarnation: u64) -> Vec<(u64, Wildcards)> {
        let between = &self.groups.between;
        let its = |group: u64| between.iter().find(|((ours, _), b)| *ours == incarnation && b.number == group);
        let all = self.engine.wildcards().into_iter();
        all.filter_map(|of| Some((its(of.group)?.0.1, of))).collect()
    }

    /// What receives from any source may get in an inter-communicator, after a restart.
    pub fn limit(&mut self, inter: InterId, limits: Limits) {
        let ctx = self.ctx(inter);
        self.engine.limit(ctx, limits);
    }

    /// Receives from any source get whatever fits.
    pub fn unlimit(&mut self) {
        let all: Vec<_> = self.engine.opened_all().collect();
        all.into_iter().for_each(|ctx| self.engine.unlimit(&mut self.mem, ctx));
        self.settle();
    }

    /// The groups that a group of ours is joined with. One whose process has died is among them.
    pub fn joined(&self, incarnation: u64) -> BTreeSet<u64> {
        let open = self.pairs.iter().filter(|(_, pair)| pair.serial != 0 && pair.local().incarnation == incarnation);
        let open = open.filter(|(_, pair)| match pair.gone() {
            None => pair.inters > 0,
            Some(gone) => gone == Gone::Dead,
        });
        let between = self.groups.between.iter().filter(|((ours, _), between)| {
            // Of those that have no pair nobody knows that they are gone.
            let has_others = || between.size().is_some_and(|size| between.pairs + between.over.len() < size as usize);
            let is_dead = || between.over.values().any(|gone| *gone == Gone::Dead);
            *ours == incarnation && (between.inters > 0 && has_others() || is_dead())
        });
        open.map(|(_, pair)| pair.remote().incarnation).chain(between.map(|((_, theirs), _)| *theirs)).collect()
    }

    /// The remote group of an inter-communicator, and the group of ours that it belongs to.
    pub fn members(&self, inter: InterId) -> Option<(u64, Vec<ProcId>)> {
        let of = self.inters.get(inter)?;
        Some((of.local.incarnation, (0..of.size).filter_map(|rank| of.member(rank)).collect()))
    }

    /// The pair of these two processes, which is made if the other one's group is known and there is none.
    fn pair_with(&mut self, local: ProcId, remote: ProcId) -> Option<usize> {
        self.pairs.find(local, remote).or_else(|| self.meet_member(local, remote))
    }

    /// The pair of these two processes.
    pub fn pair_between(&self, local: ProcId, remote: ProcId) -> Option<usize> {
        self.pairs.find(local, remote)
    }

    /// The number of ranks of a group that a group of ours is joined with.
    pub fn size_of(&self, ours: u64, theirs: u64) -> Option<u32> {
        self.groups.between(ours, theirs)?.size()
    }

    /// Has the messages between these two processes begin where a cut was.
    pub fn resume_messages(&mut self, local: ProcId, remote: ProcId, resume: Resume) {
        if let Some(i) = self.pair_with(local, remote) {
            self.engine.resume(self.pairs[i].peer, resume);
            self.settle();
        }
    }

    /// Sends a message of the own image to this rank of an inter-communicator, whose data is in the buffer of `op`.
    pub fn send_again(&mut self, op: OpId, inter: InterId, dest: u32, kept: &Kept) {
        let ctx = self.ctx_with(inter, Source::Rank(dest));
        self.engine.send_again(&self.mem, op, ctx, dest, kept);
        self.settle();
    }

    /// The processes from which a process of ours still awaits messages of its images.
    pub fn not_resumed(&self, local: ProcId) -> impl Iterator<Item = ProcId> {
        let its = self.pairs.iter().map(|(_, pair)| pair).filter(move |pair| pair.serial != 0 && pair.local() == local);
        its.filter(|pair| !self.engine.is_resumed(pair.peer)).map(|pair| pair.remote())
    }

    /// The processes of another group with which a process of ours has a pair.
    pub fn processes_of(&self, local: ProcId, group: u64) -> Vec<ProcId> {
        let its = self.pairs.iter().map(|(_, pair)| pair).filter(|pair| pair.serial != 0 && pair.local() == local);
        its.map(|pair| pair.remote()).filter(|remote| remote.incarnation == group).collect()
    }

    /// The numbers up to this one are those of contexts that a restart has opened: the leaders agree on others.
    pub fn skip_contexts(&mut self, local: ProcId, remote: ProcId, last: ContextId) {
        if let Some(talk) = self.pairs.find(local, remote).and_then(|i| self.pairs[i].talk.as_mut()) {
            talk.negotiation.skip_contexts(last.root_number());
        }
    }
}
