//! Whether an engine that was read from bytes keeps the invariants that its code relies on. Part of the engine.
//!
//! A snapshot has a checksum, so this is for bytes that were made wrongly, not for those that were damaged. Invariant: a
//! sound engine does not panic, and takes no memory for a number that stands in its bytes.

use crate::arrived::{Arrived, Body};
use crate::intervals::MOST;
use crate::state::{Context, Hold, Op, Resuming, State, To};
use crate::wire::{MAX_NOTE, MOST_DESCRIBED};
use crate::{Config, Ctx, Engine, PeerId};
use base::protocol::frame::MAX_PAYLOAD;
use std::collections::BTreeSet;

/// Room for all that a message has besides its eager data: head, note, and the description of its memory.
const HEAD_ROOM: usize = 64 + MAX_NOTE + MOST_DESCRIBED * 16;

fn is_sound_config(cfg: &Config) -> bool {
    let counts = [cfg.envelopes, cfg.eager_bytes, cfg.extra_envelopes].iter().all(|n| *n < MOST >> 1);
    counts && is_chunk(cfg.chunk) && cfg.most_eager() <= (MAX_PAYLOAD - HEAD_ROOM) as u64
}

fn is_chunk(bytes: u64) -> bool {
    (1..=MAX_PAYLOAD as u64).contains(&bytes)
}

/// The engine that is looked at, and which of its peers are in use.
struct Look<'a> {
    engine: &'a Engine,
    live: Vec<bool>,
}

impl Engine {
    /// Whether the state, which was read from bytes, is one that [`Engine::detach`] can leave: all that it refers to is
    /// there, and what it counts is right.
    pub fn is_sound(&self) -> bool {
        let look = Look { engine: self, live: self.peers_in_use() };
        let at_end = self.peers.iter().filter(|p| p.granting.at_end()).count();
        is_sound_config(&self.cfg)
            && self.out.is_empty()
            && self.at_end == at_end
            && self.last_claim < MOST
            && self.claimed.keys().all(|claim| *claim <= self.last_claim)
            && look.peers_are_sound()
            && look.groups_are_sound()
            && self.contexts.iter().enumerate().all(|(at, c)| look.is_sound_context(at, c.as_ref()))
            && look.ops_are_sound()
            && self.claimed.values().all(|claimed| look.is_sound_message(&claimed.message))
            && self.withdrawn.values().all(|(peer, _)| look.is_live(*peer))
    }

    /// For each peer whether it is in use.
    pub fn peers_in_use(&self) -> Vec<bool> {
        let mut live = vec![true; self.peers.len()];
        for vacant in &self.vacant {
            if let Some(live) = live.get_mut(vacant.0 as usize) {
                *live = false;
            }
        }
        live
    }

    /// The number of the group of a peer.
    pub fn group_of(&self, peer: PeerId) -> Option<u64> {
        self.peers.get(peer.0 as usize).map(|p| p.group)
    }

    /// The numbers of all groups.
    pub fn groups(&self) -> impl Iterator<Item = u64> {
        self.groups.keys().copied()
    }

    /// The inter-communicators that are open.
    pub fn opened_all(&self) -> impl Iterator<Item = Ctx> {
        let open = |(at, context): (usize, &Option<Context>)| context.as_ref().map(|_| Ctx(at as u32));
        self.contexts.iter().enumerate().filter_map(open)
    }
}

impl Look<'_> {
    fn is_live(&self, peer: PeerId) -> bool {
        self.live.get(peer.0 as usize).is_some_and(|live| *live)
    }

    fn open_context(&self, ctx: Ctx) -> Option<&Context> {
        self.engine.contexts.get(ctx.0 as usize)?.as_ref()
    }

    fn peers_are_sound(&self) -> bool {
        let vacant: BTreeSet<_> = self.engine.vacant.iter().collect();
        let turns: BTreeSet<_> = self.engine.turns.iter().collect();
        let in_range = |p: &&PeerId| (p.0 as usize) < self.engine.peers.len();
        let all = (0u32..).map(PeerId).zip(&self.engine.peers);
        vacant.len() == self.engine.vacant.len()
            && turns.len() == self.engine.turns.len()
            && vacant.iter().all(in_range)
            && turns.iter().all(in_range)
            && all.into_iter().all(|(id, p)| {
                let is_vacant = vacant.contains(&id);
                (p.spending.is_sound() && p.granting.is_sound() && p.told_closed.is_sound())
                    && is_chunk(p.chunk)
                    && (p.max_segments == 0 && !p.pull && p.more_eager == 0)
                    && (p.hold.is_sound() && p.resume.as_ref().is_none_or(|resume| self.is_sound_restart(id, resume)))
                    && p.hold.has(Hold::SKIPPING) == p.resume.as_ref().is_some_and(|resume| resume.skipping.is_some())
                    && p.in_turn == turns.contains(&id)
                    && (self.engine.troubled || p.gone.is_none() || is_vacant)
                    && if is_vacant { p.gone.is_some() } else { self.engine.groups.contains_key(&p.group) }
            })
    }

    /// A restart that is under way: its numbers can be counted on, and there is always something left to be done.
    fn is_sound_restart(&self, id: PeerId, resume: &Resuming) -> bool {
        let Resuming { skipping, lacking, arrived, line, came } = resume;
        let numbers = lacking.iter().chain(&line.lacking).chain(&line.wanted).chain([arrived]);
        let kept = line.kept.iter().all(|kept| kept.number < MOST && kept.note.len() <= MAX_NOTE);
        numbers.into_iter().all(|number| (1..MOST).contains(number) || number == arrived && *arrived < MOST)
            && kept
            && skipping.is_none_or(|(next, last)| 0 < next && next <= last && last < MOST)
            && came.iter().all(|(_, message)| message.peer == id && self.is_sound_message(message))
            && !resume.is_over()
    }

    fn groups_are_sound(&self) -> bool {
        self.engine.groups.iter().all(|(number, group)| {
            group.closed.is_sound()
                && group.open.iter().all(|(name, ctx)| {
                    self.open_context(*ctx).is_some_and(|c| c.context == *name && c.group == *number)
                })
                && group.early.values().flatten().all(|message| self.is_sound_message(message))
        })
    }

    fn is_sound_message(&self, message: &Arrived) -> bool {
        let bounded = |body: &Body| match body {
            Body::Eager { data, .. } => data.len() <= MAX_PAYLOAD || message.free,
            Body::Rts { pieces, .. } => pieces.pieces().is_empty(),
            Body::Noted(_) => false,
        };
        self.is_live(message.peer)
            && match &message.body {
                Body::Noted(noted) => (1..=MAX_NOTE).contains(&noted.0.len()) && bounded(&noted.1),
                body => bounded(body),
            }
    }

    fn is_sound_context(&self, at: usize, context: Option<&Context>) -> bool {
        let Some(context) = context else { return true };
        let its: BTreeSet<_> = context.members.iter().map(|(_, peer)| peer).collect();
        let Some(group) = self.engine.groups.get(&context.group) else { return false };
        let ctx = Ctx(at as u32);
        let mut posted = BTreeSet::new();
        group.open.get(&context.context) == Some(&ctx)
            && !group.early.contains_key(&context.context)
            && context.members.is_sound()
            && its.len() == context.members.iter().count()
            && its.iter().all(|p| self.is_live(*p) && self.engine.peers[p.0 as usize].group == context.group)
            && context
                .unexpected
                .iter()
                .all(|m| self.is_sound_message(m) && context.members.get(m.source) == Some(m.peer))
            && context.posted.iter().all(|receive| {
                let rank = if let crate::Source::Rank(rank) = receive.source { rank } else { 0 };
                let is_its = |op: &Op| match op.state {
                    State::Posted { ctx: of, source, tag, .. } => {
                        (of, source, tag) == (ctx, receive.source, receive.tag)
                    }
                    _ => false,
                };
                posted.insert(receive.op)
                    && (rank < context.members.size() && receive.capacity < MOST)
                    && self.engine.ops.get(receive.op).is_some_and(is_its)
            })
    }

    fn ops_are_sound(&self) -> bool {
        let posted: usize = self.engine.contexts.iter().flatten().map(|context| context.posted.iter().count()).sum();
        let listed = self.engine.ops.iter().filter(|(_, op)| matches!(op.state, State::Posted { .. })).count();
        self.engine.ops.is_sound()
            && listed == posted
            && self.engine.ops.iter().all(|(_, op)| self.is_sound_op(op))
            && {
                // Together they can be added too.
                let sizes = self
                    .engine
                    .ops
                    .iter()
                    .map(|(_, op)| if let State::Pulling(p) = &op.state { p.envelope.size } else { 0 });
                sizes.into_iter().try_fold(0u64, |sum, size| sum.checked_add(size)).is_some()
            }
    }

    fn is_sound_op(&self, op: &Op) -> bool {
        let needs = op.state.needs().is_none_or(|p| self.is_live(p) && self.engine.peers[p.0 as usize].gone.is_none());
        let to_open = |to: &To| {
            to.size < MOST
                && self.open_context(to.ctx).is_some_and(|context| context.members.rank_of(to.peer).is_some())
        };
        let (state, size) = match &op.state {
            State::Queued(to) | State::Awaiting(to) | State::Announced(to) => (to_open(to), Some(to.size)),
            State::Exposed { size, .. } => (*size < MOST, Some(*size)),
            State::Sending(s) => (s.size < MOST && s.ranges.is_sound(s.size), Some(s.size)),
            State::Pulling(p) => {
                let size = p.envelope.size;
                let fits = p.reads.is_none() && (1..MOST).contains(&size) && size <= p.whole;
                (fits && p.got.is_sound(size) && !p.got.covers(0, size), None)
            }
            State::Posted { ctx, .. } => (self.open_context(*ctx).is_some(), None),
            State::Reserved | State::Delivered | State::Over(_) => (true, None),
        };
        let more = op.more.as_ref().is_none_or(|more| {
            more.note.len() <= MAX_NOTE && more.parts.as_ref().is_none_or(|parts| parts.is_sound(size))
        });
        needs && state && more
    }
}
