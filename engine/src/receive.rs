//! The receiving side: posted receives and arrived messages find each other; data is pulled. Part of the engine.
//! Invariant: within an inter-communicator no posted receive matches any message that is waiting, so a new message
//! looks at receives in the order of posting, and a new receive at messages in the order of arrival.

use crate::arrived::{Arrived, Body};
use crate::intervals::Intervals;
use crate::matching::Receive;
use crate::state::{Claimed, Context, Op, Pulling, State};
use crate::wire::{Eager, Head, Message, Pieces};
use crate::{
    ContextId, Ctx, Engine, Envelope, Fault, Gone, MessageId, OpId, Outcome, Output, PeerId, Probe, Source, Tag,
};
use base::Memory;
use base::bytes::Malformed;

/// More missing ranges than this are asked for as one.
const MOST_RANGES: usize = 64;
/// Into more separate pieces than this no message is let fall; what would make one more is dropped.
const MOST_PIECES: usize = 16 << 10;

/// A message and the receive that takes it.
struct Match {
    op: u64,
    capacity: u64,
    peer: PeerId,
    source: u32,
    tag: i64,
    sender_op: u64,
}

impl Match {
    #[inline]
    fn new((op, capacity): (u64, u64), peer: PeerId, head: &Head) -> Match {
        Match { op, capacity, peer, source: head.source, tag: head.tag, sender_op: head.op }
    }

    fn envelope(&self, size: u64) -> Envelope {
        Envelope { source: self.source, tag: self.tag, size }
    }
}

impl Engine {
    /// Posts a receive of up to `capacity` bytes into the buffer of `op`.
    #[allow(clippy::too_many_arguments)]
    pub fn recv<M: Memory>(&mut self, mem: &mut M, op: OpId, ctx: Ctx, source: Source, tag: Tag, capacity: u64) {
        if let Some(message) = self.take(ctx, source, tag) {
            self.deliver(mem, ctx, op.0, capacity, message);
        } else if let Some(fault) = self.fault(ctx, source) {
            self.end(op.0, Outcome::Failed(fault));
        } else {
            let context = self.contexts[ctx.0 as usize].as_mut().expect("fault found it open");
            self.ops.set(op.0, Op::new(State::Posted { ctx, source, tag, place: 0 }));
            let ops = &mut self.ops;
            context.posted.push(Receive { op: op.0, source, tag, capacity }, |op, at| {
                if let Some(Op { state: State::Posted { place, .. }, .. }) = ops.get_mut(op) {
                    *place = at;
                }
            });
            self.looked(ctx, source);
        }
    }

    /// Looks for a message without taking it.
    pub fn probe(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Probe {
        if let Some(at) = self.find(ctx, source, tag) {
            let context = self.contexts[ctx.0 as usize].as_ref().expect("find found it");
            let found = context.unexpected.get(at);
            return Probe::Found(Envelope { source: found.source, tag: found.tag, size: found.body.size() });
        }
        if let Some(fault) = self.fault(ctx, source) {
            return Probe::Failed(fault);
        }
        self.looked(ctx, source);
        Probe::None
    }

    /// Takes the message that a probe would find out of matching.
    pub fn claim(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Option<MessageId> {
        let message = self.take(ctx, source, tag)?;
        self.last_claim += 1;
        self.claimed.insert(self.last_claim, Claimed { ctx, message });
        Some(MessageId(self.last_claim))
    }

    /// Receives a claimed message into the buffer of `op`: the claim is over.
    pub fn recv_claimed<M: Memory>(&mut self, mem: &mut M, op: OpId, claim: MessageId, capacity: u64) {
        let Some(Claimed { ctx, message }) = self.claimed.remove(&claim.0) else {
            debug_assert!(false, "a claim is received once");
            return;
        };
        match self.peers[message.peer.0 as usize].gone {
            // Its data will never come.
            Some(gone) if matches!(message.body.plain(), Body::Rts { .. }) => {
                let fault = if gone == Gone::Dead { Fault::PeerDead } else { Fault::PeerFinished };
                self.end(op.0, Outcome::Failed(fault));
            }
            _ => self.deliver(mem, ctx, op.0, capacity, message),
        }
    }

    /// The place of the oldest message that a receive for these takes.
    fn find(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Option<u32> {
        let context = self.contexts.get_mut(ctx.0 as usize)?.as_mut()?;
        #[cfg(feature = "plant")]
        match self.cfg.plant {
            crate::Plant::None => {}
            crate::Plant::Order => return context.unexpected.newest(source, tag),
            crate::Plant::Match => return context.unexpected.find(source, Tag::Any),
        }
        context.unexpected.find(source, tag)
    }

    fn take(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Option<Arrived> {
        let at = self.find(ctx, source, tag)?;
        Some(self.contexts[ctx.0 as usize].as_mut()?.unexpected.remove(at))
    }

    /// A look found nothing: senders that are at the end of their envelopes may hold what is looked for.
    #[inline]
    fn looked(&mut self, ctx: Ctx, source: Source) {
        if self.at_end > 0 {
            self.extend_credits(ctx, source);
        }
    }

    #[cold]
    fn extend_credits(&mut self, ctx: Ctx, source: Source) {
        for rank in 0.. {
            if self.at_end == 0 {
                return;
            }
            let Some(&peer) = self.sources(ctx, source).get(rank) else { return };
            self.extend_credit(peer);
        }
    }

    fn extend_credit(&mut self, peer: PeerId) {
        let extra = self.cfg.extra_envelopes;
        if self.peers[peer.0 as usize].granting.look(extra) {
            self.tell_credit(peer);
        }
    }

    /// Receives from `ctx` cannot be served any more, unless what is here serves them.
    #[inline]
    pub(crate) fn fault(&self, ctx: Ctx, source: Source) -> Option<Fault> {
        match self.contexts.get(ctx.0 as usize) {
            Some(Some(context)) if self.troubled => self.fault_in(context, source),
            Some(Some(_)) => None,
            _ => Some(Fault::Revoked),
        }
    }

    #[cold]
    fn fault_in(&self, context: &Context, source: Source) -> Option<Fault> {
        let of = |rank: u32, peer: &PeerId| match self.peers[peer.0 as usize].gone {
            Some(crate::Gone::Dead) => Some(Fault::PeerDead),
            Some(crate::Gone::Finished) => Some(Fault::PeerFinished),
            None => context.revoked.contains(&rank).then_some(Fault::Revoked),
        };
        match source {
            Source::Rank(rank) => of(rank, context.peers.get(rank as usize)?),
            Source::Any => {
                let mut last = None;
                let mut all = true;
                for (rank, peer) in context.peers.iter().enumerate() {
                    match of(rank as u32, peer) {
                        Some(Fault::PeerDead) => return Some(Fault::PeerDead),
                        Some(fault) => last = Some(fault),
                        None => all = false,
                    }
                }
                if all { last } else { None }
            }
        }
    }

    // ---- messages

    #[inline]
    pub(crate) fn on_eager<M: Memory>(
        &mut self,
        mem: &mut M,
        peer: PeerId,
        eager: Eager<'_>,
        body: &[u8],
    ) -> Result<(), Malformed> {
        self.take_eager(mem, peer, &[], eager, body)
    }

    pub(crate) fn on_rts(
        &mut self,
        peer: PeerId,
        head: &Head,
        size: u64,
        (note, pieces): (&[u8], Pieces<'_>),
        body: &[u8],
    ) -> Result<(), Malformed> {
        match self.arrived(peer, head, 0)? {
            // That is the one that the peer's latest message was for.
            Some(receive) => {
                self.noted(peer, receive.0, note);
                let ctx = self.peers[peer.0 as usize].latest;
                self.take_announced(ctx, &Match::new(receive, peer, head), size, pieces.iter());
            }
            None => self.keep(peer, body)?,
        }
        Ok(())
    }

    /// An EAGER with a note.
    #[cold]
    pub(crate) fn on_noted<M: Memory>(
        &mut self,
        mem: &mut M,
        peer: PeerId,
        note: &[u8],
        eager: Eager<'_>,
        body: &[u8],
    ) -> Result<(), Malformed> {
        self.take_eager(mem, peer, note, eager, body)
    }

    /// An empty note is none, and costs nothing where that is known.
    #[inline(always)]
    fn take_eager<M: Memory>(
        &mut self,
        mem: &mut M,
        peer: PeerId,
        note: &[u8],
        eager: Eager<'_>,
        body: &[u8],
    ) -> Result<(), Malformed> {
        let Eager { notify, head, data } = eager;
        if data.len() as u64 > self.cfg.eager_max {
            return Err(Malformed);
        }
        match self.arrived(peer, &head, data.len() as u64)? {
            Some(receive) => {
                self.noted(peer, receive.0, note);
                self.take_whole(mem, &Match::new(receive, peer, &head), notify, data);
            }
            None => self.keep(peer, body)?,
        }
        Ok(())
    }

    #[inline]
    fn noted(&mut self, peer: PeerId, op: u64, note: &[u8]) {
        if !note.is_empty() {
            self.out.push_back(Output::Noted { peer, op: OpId(op), note: note.to_vec() });
        }
    }

    /// An envelope came that costs so many bytes of credit: operation and capacity of the receive that waits for it, which
    /// is posted no more.
    #[inline]
    fn arrived(&mut self, peer: PeerId, head: &Head, bytes: u64) -> Result<Option<(u64, u64)>, Malformed> {
        let p = &mut self.peers[peer.0 as usize];
        self.at_end += usize::from(p.granting.arrive(bytes)?);
        let context = match self.contexts.get_mut(p.latest.0 as usize) {
            Some(Some(context)) if context.context == head.context && context.group == p.group => context,
            _ => match self.opened(peer, head.context) {
                Some(context) => context,
                None => return Ok(None),
            },
        };
        if context.peers.get(head.source as usize) != Some(&peer) {
            return Err(Malformed);
        }
        Ok(context.posted.take(head.source, head.tag))
    }

    /// The inter-communicator that a peer calls so. The next message is probably for the same.
    #[inline(never)]
    fn opened(&mut self, peer: PeerId, name: ContextId) -> Option<&mut Context> {
        let p = &mut self.peers[peer.0 as usize];
        p.latest = *self.groups[&p.group].open.get(&name)?;
        self.contexts[p.latest.0 as usize].as_mut()
    }

    /// Nothing waits for a message: it stays, if it is for an inter-communicator that is open here, or may be once.
    #[inline(never)]
    fn keep(&mut self, peer: PeerId, body: &[u8]) -> Result<(), Malformed> {
        let (head, body) = match Message::decode(body)? {
            Message::Eager(Eager { notify, head, data }) => (head, Body::Eager { notify, data: self.spare.copy(data) }),
            Message::NotedEager { note, eager: Eager { notify, head, data } } => {
                (head, with_note(note, Body::Eager { notify, data: self.spare.copy(data) }))
            }
            Message::Rts { head, size, note, pieces } => {
                (head, with_note(note, Body::Rts { size, pieces: pieces.iter().collect() }))
            }
            _ => return Err(Malformed),
        };
        let message = Arrived { peer, source: head.source, tag: head.tag, op: head.op, body };
        if let Some(context) = self.opened(peer, head.context) {
            context.unexpected.push(message);
            self.still_looking(peer);
            return Ok(());
        }
        if self.peers[peer.0 as usize].only_control {
            return Err(Malformed);
        }
        let group = self.groups.get_mut(&self.peers[peer.0 as usize].group).expect("add_peer made it");
        if group.closed.contains(head.context) {
            self.give_back(peer, &message.body);
            self.say_revoked(peer, head.context);
        } else {
            group.early.entry(head.context).or_default().push_back(message);
            self.still_looking(peer);
        }
        Ok(())
    }

    /// Nothing waited for what just came. If it was the last that the peer might send, and some receive waits for a
    /// message of this peer, the peer gets more envelopes.
    fn still_looking(&mut self, peer: PeerId) {
        if !self.peers[peer.0 as usize].granting.at_end() {
            return;
        }
        let waited_for = self.contexts.iter().flatten().any(|c| {
            let rank = c.peers.iter().position(|p| *p == peer);
            rank.is_some_and(|rank| c.posted.any_from(rank as u32))
        });
        if waited_for {
            self.extend_credit(peer);
        }
    }

    /// A message that has waited is received.
    fn deliver<M: Memory>(&mut self, mem: &mut M, ctx: Ctx, op: u64, capacity: u64, message: Arrived) {
        let Arrived { peer, source, tag, op: sender_op, body } = message;
        let met = Match { op, capacity, peer, source, tag, sender_op };
        match body {
            Body::Eager { notify, data } => {
                self.take_whole(mem, &met, notify, &data);
                self.spare.give(data);
            }
            Body::Rts { size, pieces } => self.take_announced(ctx, &met, size, pieces.into_iter()),
            body @ Body::Noted(_) => {
                self.deliver_noted(mem, ctx, (op, capacity), Arrived { peer, source, tag, op: sender_op, body });
            }
        }
    }

    /// One with a note, which has no other within.
    #[cold]
    fn deliver_noted<M: Memory>(&mut self, mem: &mut M, ctx: Ctx, (op, capacity): (u64, u64), message: Arrived) {
        if let Body::Noted(noted) = message.body {
            let (note, body) = *noted;
            self.noted(message.peer, op, &note);
            self.deliver(mem, ctx, op, capacity, Arrived { body, ..message });
        }
    }

    #[inline(always)]
    fn take_whole<M: Memory>(&mut self, mem: &mut M, met: &Match, notify: bool, data: &[u8]) {
        let len = data.len() as u64;
        let size = met.capacity.min(len);
        if size > 0 {
            mem.write(met.op, 0, &data[..size as usize]);
        }
        self.end(met.op, received(met.envelope(size), len));
        self.free_credit(met.peer, len);
        if notify {
            self.say_done(met.peer, met.sender_op);
        }
    }

    #[inline(never)]
    fn say_done(&mut self, peer: PeerId, op: u64) {
        self.say(peer, &Message::Done { op });
    }

    fn take_announced(&mut self, ctx: Ctx, met: &Match, size: u64, pieces: impl Iterator<Item = (u64, u64)>) {
        let want = met.capacity.min(size);
        let envelope = met.envelope(want);
        self.free_credit(met.peer, 0);
        if want == 0 {
            self.end(met.op, received(envelope, size));
            self.say(met.peer, &Message::Done { op: met.sender_op });
            return;
        }
        let Match { op: id, peer, sender_op, .. } = *met;
        let pieces = if self.peers[peer.0 as usize].pull { first_bytes(pieces, want) } else { Vec::new() };
        let reads = (!pieces.is_empty()).then_some(ctx);
        let op = self.ops.get_mut(id).expect("a receive is an operation");
        let got = Intervals::default();
        op.state = State::Pulling(Box::new(Pulling { peer, reads, sender_op, got, envelope, whole: size }));
        if reads.is_some() {
            self.out.push_back(Output::Get { peer, sender_op, op: OpId(id), pieces, size: want });
        } else {
            self.say(peer, &Message::Cts { sender_op, receiver_op: id, offset: 0, len: want });
        }
    }

    /// Whether we can read the peer's memory.
    pub fn set_pull(&mut self, peer: PeerId, can: bool) {
        self.peers[peer.0 as usize].pull = can;
    }

    /// What [`Output::Get`] wants cannot be read, or not all of it: the rest is asked for.
    pub fn pull_failed(&mut self, op: OpId) {
        if let Some(State::Pulling(pulling)) = self.ops.get_mut(op.0).map(|op| &mut op.state) {
            let peer = pulling.peer;
            let questions = pulling.ask(op.0);
            questions.iter().for_each(|question| self.say(peer, question));
        }
    }

    // ---- bulk

    /// Whether these bytes may be written into the buffer of `receiver_op` now.
    pub fn bulk_wanted(&self, peer: PeerId, receiver_op: u64, offset: u64, len: u64) -> bool {
        match self.ops.get(receiver_op).map(|op| &op.state) {
            Some(State::Pulling(p)) => {
                let fits = |end| end <= p.envelope.size && p.got.takes(offset, end, MOST_PIECES);
                p.peer == peer && offset.checked_add(len).is_some_and(fits)
            }
            _ => false,
        }
    }

    /// Bytes that were wanted have been written.
    pub fn on_bulk(&mut self, peer: PeerId, receiver_op: u64, offset: u64, len: u64) {
        if !self.bulk_wanted(peer, receiver_op, offset, len) {
            return;
        }
        let op = self.ops.get_mut(receiver_op).expect("bulk_wanted found it");
        let State::Pulling(pulling) = &mut op.state else {
            return;
        };
        let Pulling { sender_op, got, envelope, whole: size, .. } = &mut **pulling;
        // What comes all at once is not written down first.
        let whole = len == envelope.size;
        if !whole {
            got.insert(offset, offset + len);
        }
        if whole || got.covers(0, envelope.size) {
            let (sender_op, outcome) = (*sender_op, received(*envelope, *size));
            self.end(receiver_op, outcome);
            self.say(peer, &Message::Done { op: sender_op });
        }
    }

    /// Whether these bytes are in the buffer of a receive, or it is over, however that came.
    pub fn has_arrived(&self, op: OpId, offset: u64, len: u64) -> bool {
        match self.ops.get(op.0).map(|op| &op.state) {
            Some(State::Pulling(pulling)) => pulling.got.covers(offset, offset.saturating_add(len)),
            Some(State::Over(_)) => true,
            _ => false,
        }
    }

    /// Bytes that are still to come of all transfers from a peer. On lanes that may lose, ask again when this stands
    /// still.
    pub fn bulk_missing(&self, peer: PeerId) -> u64 {
        let missing = |state: &State| match state {
            State::Pulling(p) if p.peer == peer => p.envelope.size - p.got.count(),
            _ => 0,
        };
        self.ops.iter().map(|(_, op)| missing(&op.state)).sum()
    }

    /// A lane to this peer was lost, or some time has passed on lanes that may lose: asks again for what is missing of
    /// all transfers from it.
    pub fn on_lane_lost(&mut self, peer: PeerId) {
        // What comes by itself is asked for as well: nobody knows yet how the next lane is.
        self.out.retain(|o| !matches!(o, Output::Get { peer: from, .. } if *from == peer));
        let mut again = Vec::new();
        for (id, op) in self.ops.iter_mut() {
            if let State::Pulling(pulling) = &mut op.state
                && pulling.peer == peer
            {
                again.extend(pulling.ask(id));
            }
        }
        again.iter().for_each(|question| self.say(peer, question));
    }
}

impl Pulling {
    /// What is missing is asked for.
    fn ask(&mut self, receiver_op: u64) -> Vec<Message<'static>> {
        self.reads = None;
        let mut gaps = self.got.gaps(self.envelope.size);
        if gaps.len() > MOST_RANGES {
            gaps.truncate(MOST_RANGES);
            gaps[MOST_RANGES - 1].1 = self.envelope.size;
        }
        let question =
            |(start, end)| Message::Cts { sender_op: self.sender_op, receiver_op, offset: start, len: end - start };
        gaps.into_iter().map(question).collect()
    }
}

/// The pieces that hold the first `size` bytes.
fn first_bytes(pieces: impl Iterator<Item = (u64, u64)>, size: u64) -> Vec<(u64, u64)> {
    let mut left = size;
    let cut = pieces.map_while(|(at, len)| {
        let len = len.min(left);
        left -= len;
        (len > 0).then_some((at, len))
    });
    cut.collect()
}

/// The outcome of a receive that has got the beginning of a message, or all of it.
fn received(envelope: Envelope, whole: u64) -> Outcome {
    let Envelope { source, tag, size } = envelope;
    if size < whole { Outcome::Truncated { source, tag, size, whole } } else { Outcome::Received(envelope) }
}

fn with_note(note: &[u8], body: Body) -> Body {
    if note.is_empty() { body } else { Body::Noted(Box::new((note.to_vec(), body))) }
}
