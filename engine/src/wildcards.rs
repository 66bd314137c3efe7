//! Receives from any source, in cuts and at restarts: after a restart, each gets the message that it had got before. Part
//! of the engine.
//!
//! What a receive from one source gets follows from the order of posting and sending. What a receive from any source gets
//! does not, so it is put out ([`Output::Chosen`]). Such receives are numbered in each inter-communicator, in the order of
//! posting. A program that does again what it did after its cut posts the same ones, in the same order.
//!
//! Invariant: a limited receive gets no other message than the one that it is limited to. A message that such a receive, as the
//! oldest that fits, may not get is held for it: no later receive gets it, and no probe finds it, nor what came behind it from the
//! same source, as it would have been if the receive had had its message in time. So limits delay, and nothing is overtaken,
//! whenever they end.

use crate::arrived::Arrived;
use crate::matching::{Receive, fits};
use crate::state::Wild;
use crate::{ContextId, Ctx, Engine, Limits, OpId, Output, PeerId, Source, Tag, Wildcards};
use base::Memory;
use std::collections::BTreeSet;

/// The message that the receive of an operation is limited to: its source and number.
fn limit(wild: &Wild, op: u64) -> Option<(u32, u64)> {
    let (at, ordinal) = wild.ops.get(op)?;
    wild.limits.get(&at)?.chosen.get(&ordinal).copied()
}

/// Whether a receive matches a message.
fn matches(receive: &Receive, message: &Arrived) -> bool {
    fits(receive.source, receive.tag, message.source, message.tag)
}

/// Whether a receive would overtake with a message behind these: one of them is from the same source, and fits too.
fn overtakes<'a>(receive: &Receive, source: u32, mut before: impl Iterator<Item = &'a Arrived>) -> bool {
    before.any(|message| message.source == source && matches(receive, message))
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
                let source = context.members.rank_of(got.peer)?;
                Some((*ordinal, source, got.number))
            };
            let chosen = pending.iter().filter_map(choice).collect();
            let pending = pending.into_iter().map(|(ordinal, _)| ordinal).collect();
            Wildcards { group: at.0, context: at.1, pending, chosen, posted: *posted }
        };
        wild.posted.iter().map(of).collect()
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
        if tracking.wild.limits.remove(&at).is_some() {
            self.match_held(mem, ctx);
        }
    }

    /// Gives messages that were held to the receives that may get them now.
    fn match_held<M: Memory>(&mut self, mem: &mut M, ctx: Ctx) {
        while let Some((at, Receive { op, capacity, .. })) = self.next_match(ctx) {
            self.unpost(op);
            if let Some(context) = self.contexts.get_mut(ctx.0 as usize).and_then(Option::as_mut) {
                let message = context.unexpected.remove(at);
                self.deliver(mem, ctx, op, capacity, message);
            }
        }
    }

    /// The oldest message that waits though the oldest receive that fits it may get it.
    fn next_match(&self, ctx: Ctx) -> Option<(u32, Receive)> {
        let (wild, context) = (&self.tracking.as_ref()?.wild, self.contexts.get(ctx.0 as usize)?.as_ref()?);
        let (mut found, mut before) = (None, 0);
        let at = context.unexpected.position(|message| {
            let receive = context.posted.iter().find(|receive| matches(receive, message));
            found = receive.copied().filter(|receive| match limit(wild, receive.op) {
                Some(exactly) => exactly == (message.source, message.number),
                None => !overtakes(receive, message.source, context.unexpected.iter().take(before)),
            });
            before += 1;
            found.is_some()
        })?;
        Some((at, found?))
    }

    /// A message has come: a receive may have got the one that it was limited to, and others are held no longer.
    #[cold]
    pub(crate) fn match_all_held<M: Memory>(&mut self, mem: &mut M) {
        let limited = self.tracking.iter().flat_map(|tracking| tracking.wild.limits.keys());
        let open = limited.filter_map(|(group, context)| self.groups.get(group)?.open.get(context));
        let all: Vec<Ctx> = open.copied().collect();
        all.into_iter().for_each(|ctx| self.match_held(mem, ctx));
    }

    fn note_wildcard(&mut self, ctx: Ctx, op: u64) {
        let Some(context) = self.contexts.get(ctx.0 as usize).and_then(Option::as_ref) else { return };
        // In a remote group of one there is nothing to choose.
        if context.members.size() < 2 {
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

    /// The message that a receive gets which is about to be posted, out of the queue.
    fn take_limited(&mut self, ctx: Ctx, op: u64, source: Source, tag: Tag) -> Option<Arrived> {
        let limit = limit(&self.tracking.as_ref()?.wild, op);
        let at = self.find_limited(ctx, source, tag, limit)?;
        Some(self.contexts.get_mut(ctx.0 as usize)?.as_mut()?.unexpected.remove(at))
    }

    /// The place of the oldest message that waits and fits, while some are held: this one, or one that is not behind another from
    /// the same source which fits and is held.
    #[cold]
    pub(crate) fn find_limited(&self, ctx: Ctx, source: Source, tag: Tag, limit: Option<(u32, u64)>) -> Option<u32> {
        let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
        let mut behind = BTreeSet::new();
        context.unexpected.position(|message| {
            if !fits(source, tag, message.source, message.tag) || behind.contains(&message.source) {
                return false;
            }
            let is_held = context.posted.iter().any(|receive| matches(receive, message));
            match limit {
                Some(exactly) => !is_held && exactly == (message.source, message.number),
                None if is_held => !behind.insert(message.source),
                None => true,
            }
        })
    }

    /// The oldest posted receive that a message fits which has just come, out of the queue, if it may get it.
    pub(crate) fn take_posted(&mut self, ctx: Ctx, source: u32, tag: i64, number: u64) -> Option<(u64, u64)> {
        let wild = &self.tracking.as_ref()?.wild;
        let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
        let found = context.posted.iter().find(|receive| fits(receive.source, receive.tag, source, tag));
        let found = found.copied().filter(|receive| match limit(wild, receive.op) {
            Some(exactly) => exactly == (source, number),
            None => !overtakes(receive, source, context.unexpected.iter()),
        });
        let Receive { op, capacity, .. } = found?;
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
