//! Receives from any source, in cuts and at restarts: after a restart, each gets the message that it had got before. Part
//! of the engine.
//!
//! What a receive from one source gets follows from the order of posting and sending. What a receive from any source gets
//! does not, so it is put out ([`Output::Chosen`]). Such receives are numbered in each inter-communicator, in the order of
//! posting. A program that does again what it did after its cut posts the same ones, in the same order.
//!
//! Invariant: a limited receive gets no other message than the one that it is limited to, and none that came before the
//! end of the record if the record has none for it. Receives are compared in the order of posting, limited or not.

use crate::arrived::Arrived;
use crate::matching::fits;
use crate::state::Wild;
use crate::{ContextId, Ctx, Engine, Limits, OpId, Output, PeerId, Source, Tag, Wildcards};
use base::Memory;

/// Whether the receive of an operation may get this message.
fn allows(wild: &Wild, op: u64, source: u32, number: u64) -> bool {
    let Some((at, ordinal)) = wild.ops.get(op) else { return true };
    let Some(limits) = wild.limits.get(&at) else { return true };
    match limits.chosen.get(&ordinal) {
        Some(exactly) => *exactly == (source, number),
        // It had no message when the record ended.
        None if ordinal < limits.until => limits.floors.get(source as usize).is_none_or(|floor| number > *floor),
        None => true,
    }
}

impl Engine {
    /// The receives from any source of all inter-communicators, for a cut: those whose outcome was not fetched, and how many
    /// were posted. [`Engine::cut`] was called just before.
    pub fn wildcards(&self) -> Vec<Wildcards> {
        let Some(tracking) = &self.tracking else { return Vec::new() };
        let wild = &tracking.wild;
        let of = |(at, posted): (&(u64, ContextId), &u64)| {
            let its = wild.ops.iter().filter(|(_, (other, _))| other == at);
            let mut pending: Vec<(u64, u64)> = its.map(|(op, (_, ordinal))| (ordinal, op)).collect();
            pending.sort_unstable();
            let choice = |(ordinal, op): &(u64, u64)| {
                let got = tracking.got.get(*op)?;
                let ctx = self.groups.get(&at.0)?.open.get(&at.1)?;
                let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
                let source = context.peers.iter().position(|peer| *peer == got.peer)?;
                Some((*ordinal, source as u32, got.number))
            };
            let chosen = pending.iter().filter_map(choice).collect();
            let pending = pending.into_iter().map(|(ordinal, _)| ordinal).collect();
            Wildcards { group: at.0, context: at.1, pending, chosen, posted: *posted }
        };
        wild.posted.iter().map(of).collect()
    }

    /// Messages that have come from a peer. [`Engine::track`] was called before any message.
    pub fn arrived_from(&self, peer: PeerId) -> u64 {
        self.counts(peer).1
    }

    /// At a restart, before the program posts a receive: what those from any source may get in an inter-communicator.
    pub fn limit(&mut self, ctx: Ctx, limits: Limits) {
        let Some(context) = self.contexts.get(ctx.0 as usize).and_then(Option::as_ref) else { return };
        let at = (context.group, context.context);
        if let Some(tracking) = &mut self.tracking {
            tracking.wild.limits.insert(at, limits);
        }
    }

    /// The record is over: receives from any source get whatever fits.
    pub fn unlimit<M: Memory>(&mut self, mem: &mut M, ctx: Ctx) {
        let Some(context) = self.contexts.get(ctx.0 as usize).and_then(Option::as_ref) else { return };
        let at = (context.group, context.context);
        let Some(tracking) = &mut self.tracking else { return };
        if tracking.wild.limits.remove(&at).is_none() {
            return;
        }
        let receives: Vec<_> = context.posted.iter().copied().filter(|r| r.source == Source::Any).collect();
        for receive in receives {
            // Messages that it was not allowed to get may have come meanwhile.
            if let Some(message) = self.take_message(ctx, Source::Any, receive.tag) {
                self.unpost(receive.op);
                self.deliver(mem, ctx, receive.op, receive.capacity, message);
            }
        }
    }

    fn note_wildcard(&mut self, ctx: Ctx, op: u64) {
        let Some(context) = self.contexts.get(ctx.0 as usize).and_then(Option::as_ref) else { return };
        // In a remote group of one there is nothing to choose.
        if context.peers.len() < 2 {
            return;
        }
        let at = (context.group, context.context);
        if let Some(tracking) = &mut self.tracking {
            let posted = tracking.wild.posted.entry(at).or_default();
            tracking.wild.ops.insert(op, (at, *posted));
            *posted += 1;
        }
    }

    /// Whether some receives may not get whatever fits.
    pub(crate) fn is_limited(&self) -> bool {
        self.tracking.as_ref().is_some_and(|tracking| !tracking.wild.limits.is_empty())
    }

    /// Numbers a receive that is about to be posted, if it is from any source, and takes the message that it gets out of
    /// the queue.
    #[cold]
    pub(crate) fn take_noted(&mut self, ctx: Ctx, op: u64, source: Source, tag: Tag) -> Option<Arrived> {
        if source == Source::Any {
            self.note_wildcard(ctx, op);
        }
        if self.is_limited() { self.take_limited(ctx, op, source, tag) } else { self.take_message(ctx, source, tag) }
    }

    /// The oldest message that waits, fits, and may be got by this receive, out of the queue.
    fn take_limited(&mut self, ctx: Ctx, op: u64, source: Source, tag: Tag) -> Option<Arrived> {
        let wild = &self.tracking.as_ref()?.wild;
        let context = self.contexts.get_mut(ctx.0 as usize)?.as_mut()?;
        let may = |m: &Arrived| fits(source, tag, m.source, m.tag) && allows(wild, op, m.source, m.number);
        let at = context.unexpected.position(may)?;
        Some(context.unexpected.remove(at))
    }

    /// The oldest posted receive that a message fits, and that may get it, out of the queue.
    pub(crate) fn take_posted(&mut self, ctx: Ctx, source: u32, tag: i64, number: u64) -> Option<(u64, u64)> {
        let wild = &self.tracking.as_ref()?.wild;
        let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
        let found = context.posted.iter().find(|receive| {
            fits(receive.source, receive.tag, source, tag)
                && (receive.source != Source::Any || allows(wild, receive.op, source, number))
        });
        let (op, capacity) = found.map(|receive| (receive.op, receive.capacity))?;
        self.unpost(op);
        Some((op, capacity))
    }

    /// Puts out which message a receive from any source has got.
    pub(crate) fn note_choice(&mut self, op: u64, peer: PeerId, source: u32, number: u64) {
        let Some(tracking) = &self.tracking else { return };
        if let Some(((_, context), ordinal)) = tracking.wild.ops.get(op)
            && (tracking.is_logging || !tracking.wild.limits.is_empty())
        {
            self.out.push_back(Output::Chosen { peer, op: OpId(op), context, ordinal, source, number });
        }
    }
}
