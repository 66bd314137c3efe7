//! The receiving side: posted receives are matched with messages, and the data of a rendezvous is asked for or read.
//! Part of the engine. Invariant: within an inter-communicator, no posted receive matches an unexpected message. So a
//! new message is compared only with posted receives, in the order of posting, and a new receive only with unexpected
//! messages, in the order of arrival.

use crate::arrived::{Arrived, Body};
use crate::intervals::Intervals;
use crate::matching::Receive;
use crate::ops::Ops;
use crate::state::{Ahead, Claimed, Context, EXPECTED, Now, Op, Pulling, State};
use crate::wire::{Eager, Head, Message, Pieces};
use crate::{
    ContextId, Ctx, Engine, Envelope, Fault, MessageId, NOW, OpId, Outcome, Output, PeerId, Probe, Source, Tag,
};
use base::Memory;
use base::bytes::Malformed;
use base::protocol::message::CAME_EARLY;

/// Missing ranges that are asked for one by one. More are asked for as one range.
const MOST_RANGES: usize = 64;
/// Separate pieces that a message may arrive in. Data that would make one more is dropped and asked for again.
const MOST_PIECES: usize = 16 << 10;

/// A message and the receive that it has matched.
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

    #[inline(always)]
    fn envelope(&self, size: u64) -> Envelope {
        Envelope { source: self.source, tag: self.tag, size }
    }
}

impl Engine {
    /// Posts a receive of up to `capacity` packed bytes into the buffer of `op`.
    ///
    /// The receive may be complete when the call returns ([`Engine::outcome`]). If no message matches, it fails where
    /// the inter-communicator is closed, where the source is gone or has closed it, and, for [`Source::Any`], where one
    /// process is dead or all have finished or closed it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn recv<M: Memory>(&mut self, mem: &mut M, op: OpId, ctx: Ctx, source: Source, tag: Tag, capacity: u64) {
        let is_simple = self.tracking.is_none() && !self.troubled;
        match self.contexts.get_mut(ctx.0 as usize) {
            Some(Some(context)) if is_simple && context.unexpected.is_empty() => {
                post(context, &mut self.ops, Receive { op: op.0, source, tag, capacity }, ctx);
                self.looked(ctx, source);
            }
            _ => self.recv_looking(mem, op, ctx, source, tag, capacity),
        }
    }

    /// As [`Engine::recv`], where a message may be here, or the receive may fail.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn recv_looking<M: Memory>(&mut self, mem: &mut M, op: OpId, ctx: Ctx, source: Source, tag: Tag, capacity: u64) {
        let message = match self.tracking {
            None => self.take_message(ctx, source, tag),
            Some(_) => self.take_noted(ctx, op.0, source, tag),
        };
        if let Some(message) = message {
            self.deliver(mem, ctx, op.0, capacity, message);
        } else if let Some(fault) = self.fault(ctx, source) {
            self.end(op.0, Outcome::Failed(fault));
        } else {
            let context = self.contexts[ctx.0 as usize].as_mut().expect("fault found it open");
            post(context, &mut self.ops, Receive { op: op.0, source, tag, capacity }, ctx);
            self.looked(ctx, source);
        }
    }

    /// Looks for a message without receiving it (MPI_Iprobe).
    pub fn probe(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Probe {
        if let Some(at) = self.find_for_probe(ctx, source, tag) {
            let context = self.contexts[ctx.0 as usize].as_ref().expect("find found it");
            let found = context.unexpected.get(at);
            if let (Body::Rts { .. }, Some(gone)) = (found.body.plain(), self.peers[found.peer.0 as usize].gone) {
                return Probe::Failed(gone.fault());
            }
            return Probe::Found(Envelope { source: found.source, tag: found.tag, size: found.body.size() });
        }
        if let Some(fault) = self.fault(ctx, source) {
            return Probe::Failed(fault);
        }
        self.looked(ctx, source);
        Probe::None
    }

    /// Takes the message that [`Engine::probe`] would find out of matching (MPI_Improbe). `None` if there is none.
    pub fn claim(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Option<MessageId> {
        let at = self.find_for_probe(ctx, source, tag)?;
        let message = self.contexts[ctx.0 as usize].as_mut()?.unexpected.remove(at);
        self.last_claim += 1;
        self.claimed.insert(self.last_claim, Claimed { ctx, message });
        Some(MessageId(self.last_claim))
    }

    /// Receives up to `capacity` packed bytes of a claimed message into the buffer of `op` (MPI_Mrecv). A claim can be
    /// received once.
    pub fn recv_claimed<M: Memory>(&mut self, mem: &mut M, op: OpId, claim: MessageId, capacity: u64) {
        let Some(Claimed { ctx, message }) = self.claimed.remove(&claim.0) else {
            debug_assert!(false, "a claim is received once");
            return;
        };
        self.deliver(mem, ctx, op.0, capacity, message);
    }

    /// The place of the oldest unexpected message that a receive for these matches.
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

    fn find_for_probe(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Option<u32> {
        if self.is_limited() { self.find_limited(ctx, source, tag, None) } else { self.find(ctx, source, tag) }
    }

    /// Takes that message out of the unexpected queue.
    pub(crate) fn take_message(&mut self, ctx: Ctx, source: Source, tag: Tag) -> Option<Arrived> {
        let at = self.find(ctx, source, tag)?;
        Some(self.contexts[ctx.0 as usize].as_mut()?.unexpected.remove(at))
    }

    /// A receive or a probe found nothing. A sender without envelopes may hold the message, so it gets more of them.
    #[inline]
    fn looked(&mut self, ctx: Ctx, source: Source) {
        if self.at_end > 0 {
            self.extend_credits(ctx, source);
        }
    }

    #[cold]
    fn extend_credits(&mut self, ctx: Ctx, source: Source) {
        for peer in self.sources(ctx, source).collect::<Vec<_>>() {
            if self.at_end == 0 {
                return;
            }
            self.extend_credit(peer);
        }
    }

    fn extend_credit(&mut self, peer: PeerId) {
        let extra = self.cfg.extra_envelopes;
        if self.peers[peer.0 as usize].granting.look(extra) {
            self.tell_credit(peer);
        }
    }

    /// Why a receive from this source fails if no message matches it yet. `None` if it may wait.
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
        let of = |rank: u32, peer: PeerId| match self.peers[peer.0 as usize].gone {
            Some(gone) => Some(gone.fault()),
            None => context.revoked.contains(&rank).then_some(Fault::Revoked),
        };
        match source {
            Source::Rank(rank) => of(rank, context.members.get(rank)?),
            Source::Any => {
                let mut last = None;
                let (mut failed, mut all) = (0, true);
                for (rank, peer) in context.members.iter() {
                    match of(rank, peer) {
                        Some(Fault::PeerDead) => return Some(Fault::PeerDead),
                        Some(fault) => (last, failed) = (Some(fault), failed + 1),
                        None => all = false,
                    }
                }
                if all && failed >= context.members.watched() { last } else { None }
            }
        }
    }

    // ---- messages

    /// Takes the usual message in few steps: an EAGER for the inter-communicator that the peer's last one was for, which the oldest
    /// posted receive, or the one without an operation, matches and has room for, and of which nobody is told. False: nothing has
    /// changed, and the message is taken in the general way.
    #[inline(always)]
    pub(crate) fn take_at_once<M: Memory>(&mut self, mem: &mut M, peer: PeerId, body: &[u8]) -> bool {
        let Some((head, data)) = Eager::decode_plain(body) else { return false };
        let Some(p) = self.peers.get_mut(peer.0 as usize) else { return false };
        let Some(Some(context)) = self.contexts.get_mut(p.latest.0 as usize) else { return false };
        let matched = match context.posted.front() {
            Some(first) => first.fits(head.source, head.tag).then_some((first.op, first.capacity)),
            None if context.posted.is_empty() => Now::take(&self.now, p.latest, head.source, head.tag),
            None => None,
        };
        let Some((id, capacity)) = matched else { return false };
        let size = data.len() as u64;
        let is_meant = context.is_meant((peer, p), head.context, head.source);
        if !is_meant || size > capacity.min(self.cfg.most_eager()) || self.tracking.is_some() {
            return false;
        }
        let outcome = Outcome::Received(Envelope { source: head.source, tag: head.tag, size });
        if id == NOW.0 {
            if !p.granting.pass(size) {
                return false;
            }
            Ahead::write_rest(&mut self.ahead, mem, (peer, id), data);
            self.complete_now(outcome);
            return true;
        }
        let Some(state) = self.ops.posted(id) else { return false };
        if !p.granting.pass(size) {
            return false;
        }
        context.posted.pop_front();
        Ahead::write_rest(&mut self.ahead, mem, (peer, id), data);
        state.replace(State::Over(outcome));
        true
    }

    #[inline]
    pub(crate) fn on_eager<M: Memory>(&mut self, mem: &mut M, peer: PeerId, eager: Eager<'_>) -> Result<(), Malformed> {
        self.take_eager(mem, peer, &[], eager)
    }

    pub(crate) fn on_rts(
        &mut self,
        peer: PeerId,
        head: &Head,
        (size, begun): (u64, u64),
        (note, pieces, may_buffer): (&[u8], Pieces<'_>, bool),
    ) -> Result<(), Malformed> {
        let matched = self.arrived(peer, head, 0)?;
        let p = &mut self.peers[peer.0 as usize];
        p.announced.1 = p.announced.1.saturating_add(size);
        if p.beginning.is_of_use && size > self.cfg.beginning {
            p.beginning.expected = EXPECTED;
        }
        if std::mem::take(&mut p.is_answering) {
            p.prompt = Some(head.op);
        }
        let is_missed = matched.is_some_and(|(op, _)| op == NOW.0);
        if is_missed {
            self.miss_now();
        }
        match matched.filter(|_| !is_missed) {
            // `arrived` has set `latest` to the inter-communicator of this message.
            Some(receive) => {
                self.noted(peer, receive.0, note);
                let ctx = self.peers[peer.0 as usize].latest;
                self.take_announced(ctx, &Match::new(receive, peer, head), (size, begun), pieces.iter(), false);
            }
            None => {
                self.to_buffer |= may_buffer;
                self.keep(peer, head, Body::Rts { size, pieces: pieces.described(), may_buffer }.with_note(note))?;
            }
        }
        Ok(())
    }

    /// Takes an EAGER with a note.
    #[cold]
    pub(crate) fn on_noted<M: Memory>(
        &mut self,
        mem: &mut M,
        peer: PeerId,
        note: &[u8],
        eager: Eager<'_>,
    ) -> Result<(), Malformed> {
        self.take_eager(mem, peer, note, eager)
    }

    /// Takes an EAGER. An empty note stands for none.
    // Inlined, so that a caller without notes pays nothing for them.
    #[inline(always)]
    fn take_eager<M: Memory>(
        &mut self,
        mem: &mut M,
        peer: PeerId,
        note: &[u8],
        eager: Eager<'_>,
    ) -> Result<(), Malformed> {
        let Eager { notify, head, data } = eager;
        if data.len() as u64 > self.cfg.most_eager() {
            return Err(Malformed);
        }
        let matched = self.arrived(peer, &head, data.len() as u64)?;
        if self.is_logging() {
            self.log_eager(peer, note, &head, data);
        }
        match matched {
            Some(receive) => {
                self.noted(peer, receive.0, note);
                self.take_whole(mem, &Match::new(receive, peer, &head), notify, data);
            }
            None => {
                let data = self.spare.copy(data);
                self.keep(peer, &head, Body::Eager { notify, data }.with_note(note))?;
            }
        }
        Ok(())
    }

    /// Puts a note out, unless it is empty.
    #[inline]
    fn noted(&mut self, peer: PeerId, op: u64, note: &[u8]) {
        if !note.is_empty() {
            self.out.push_back(Output::Noted { peer, op: OpId(op), note: note.to_vec() });
        }
    }

    /// An envelope came that costs `bytes` of credit. Returns the operation and the capacity of the receive that it
    /// matches, and takes that receive out of the posted queue. `None` if nothing matches.
    #[inline]
    pub(crate) fn arrived(&mut self, peer: PeerId, head: &Head, bytes: u64) -> Result<Option<(u64, u64)>, Malformed> {
        let is_tracking = self.tracking.is_some();
        let p = &mut self.peers[peer.0 as usize];
        self.at_end += usize::from(p.granting.arrive(bytes)?);
        let taken = match self.context_of(peer, head.context) {
            Some(context) if context.members.get(head.source) != Some(peer) => return Err(Malformed),
            found if is_tracking => {
                let ctx = found.is_some().then(|| self.peers[peer.0 as usize].latest);
                return Ok(self.arrived_numbered(peer, ctx, head));
            }
            Some(context) => {
                let posted = context.posted.take(head.source, head.tag);
                posted.or_else(|| Now::take(&self.now, self.peers[peer.0 as usize].latest, head.source, head.tag))
            }
            None => None,
        };
        Ok(taken)
    }

    /// The open inter-communicator with this id: mostly the one of the peer's last message.
    #[inline]
    pub(crate) fn context_of(&mut self, peer: PeerId, name: ContextId) -> Option<&mut Context> {
        let p = &self.peers[peer.0 as usize];
        let latest = p.latest.0 as usize;
        match self.contexts.get(latest) {
            Some(Some(context)) if context.is_of(p, name) => self.contexts[latest].as_mut(),
            _ => self.opened(peer, name),
        }
    }

    /// The open inter-communicator with this id. It is remembered for the peer, since the next message is probably for
    /// the same one.
    #[inline(never)]
    fn opened(&mut self, peer: PeerId, name: ContextId) -> Option<&mut Context> {
        let p = &mut self.peers[peer.0 as usize];
        p.latest = *self.groups[&p.group].open.get(&name)?;
        self.contexts[p.latest.0 as usize].as_mut()
    }

    /// No receive matches a message. It is kept if its inter-communicator is open here, or may be opened yet.
    #[inline(never)]
    fn keep(&mut self, peer: PeerId, head: &Head, body: Body) -> Result<(), Malformed> {
        let number = self.last_number();
        let message = Arrived { peer, source: head.source, tag: head.tag, op: head.op, number, free: false, body };
        if self.awaits_others(peer, number) {
            self.put_with_others(peer, head.context, message);
            self.still_looking(peer);
            return Ok(());
        }
        if let Some(context) = self.context_of(peer, head.context) {
            context.unexpected.push(message);
            self.still_looking(peer);
            return Ok(());
        }
        if self.peers[peer.0 as usize].only_control {
            return Err(Malformed);
        }
        let group = self.groups.get_mut(&self.peers[peer.0 as usize].group).expect("add_peer made it");
        if group.closed.contains(head.context) {
            self.give_back(&message);
            self.say_revoked(peer, head.context);
        } else {
            group.early.entry(head.context).or_default().push_back(message);
            self.still_looking(peer);
        }
        Ok(())
    }

    /// Lets receives find a message that an image gave back.
    pub(crate) fn put_unexpected(&mut self, group: u64, context: ContextId, message: Arrived) {
        let Some(group) = self.groups.get_mut(&group) else { return };
        match group.open.get(&context).and_then(|ctx| self.contexts[ctx.0 as usize].as_mut()) {
            Some(open) => open.unexpected.push(message),
            None => group.early.entry(context).or_default().push_back(message),
        }
    }

    /// A message from this peer matched no receive, or has given back too little to tell. If it was the last that credit allowed,
    /// and a receive waits for a message of this peer, the peer gets more envelopes.
    #[inline]
    pub(crate) fn still_looking(&mut self, peer: PeerId) {
        if self.peers[peer.0 as usize].granting.at_end() {
            self.extend_if_waited_for(peer);
        }
    }

    #[cold]
    fn extend_if_waited_for(&mut self, peer: PeerId) {
        let waited_for = self.contexts.iter().flatten().any(|c| {
            let rank = c.members.rank_of(peer);
            rank.is_some_and(|rank| c.posted.any_from(rank))
        });
        if waited_for {
            self.extend_credit(peer);
        }
    }

    /// Receives a message that has waited.
    pub(crate) fn deliver<M: Memory>(&mut self, mem: &mut M, ctx: Ctx, op: u64, capacity: u64, message: Arrived) {
        if self.tracking.is_some()
            && let Some(context) = self.contexts.get(ctx.0 as usize).and_then(Option::as_ref)
        {
            let context = context.context;
            self.note_got(op, message.peer, message.source, message.number, context);
        }
        let Arrived { peer, source, tag, op: sender_op, number, free, body } = message;
        let met = Match { op, capacity, peer, source, tag, sender_op };
        match body {
            // Its sender waits for nothing. There may be room for another one.
            Body::Eager { data, .. } if free => {
                (self.to_buffer, self.missed_now) = (true, false);
                self.fill(mem, &met, &data);
            }
            Body::Eager { notify, mut data } => {
                self.take_whole(mem, &met, notify, &data);
                self.spare.give(&mut data);
            }
            Body::Rts { size, pieces, .. } => {
                let is_late = self.is_late(peer, sender_op);
                self.take_announced(ctx, &met, (size, 0), pieces.pieces().iter().copied(), is_late);
            }
            body @ Body::Noted(_) => {
                self.deliver_noted(
                    mem,
                    ctx,
                    (op, capacity),
                    Arrived { peer, source, tag, op: sender_op, number, free, body },
                );
            }
        }
    }

    /// Receives a message that has waited, with its note.
    #[cold]
    fn deliver_noted<M: Memory>(&mut self, mem: &mut M, ctx: Ctx, (op, capacity): (u64, u64), message: Arrived) {
        if let Body::Noted(noted) = message.body {
            let (note, body) = *noted;
            self.noted(message.peer, op, &note);
            self.deliver(mem, ctx, op, capacity, Arrived { body, ..message });
        }
    }

    /// Writes a message that is here into the buffer of its receive, which is over.
    #[inline(always)]
    fn fill<M: Memory>(&mut self, mem: &mut M, met: &Match, data: &[u8]) {
        let len = data.len() as u64;
        let size = met.capacity.min(len);
        if size > 0 {
            Ahead::write_rest(&mut self.ahead, mem, (met.peer, met.op), &data[..size as usize]);
        }
        let outcome = received(met.envelope(size), len);
        if met.op == NOW.0 { self.complete_now(outcome) } else { self.end(met.op, outcome) }
    }

    /// Receives an eager message.
    #[inline(always)]
    fn take_whole<M: Memory>(&mut self, mem: &mut M, met: &Match, notify: bool, data: &[u8]) {
        self.fill(mem, met, data);
        self.free_credit(met.peer, data.len() as u64);
        if notify {
            self.say_done(met.peer, met.sender_op);
        }
    }

    #[inline(never)]
    pub(crate) fn say_done(&mut self, peer: PeerId, op: u64) {
        self.say_read(peer, op, false);
    }

    /// Whether an announced message that waited came before its receive, and could have come after it.
    pub(crate) fn is_late(&mut self, peer: PeerId, op: u64) -> bool {
        !std::mem::take(&mut self.missed_now) && self.peers[peer.0 as usize].prompt != Some(op)
    }

    /// Receives a message whose RTS is here: reads its data, or asks for it, but for its first `begun` bytes, which come unasked.
    fn take_announced(
        &mut self,
        ctx: Ctx,
        met: &Match,
        (size, begun): (u64, u64),
        pieces: impl Iterator<Item = (u64, u64)>,
        is_late: bool,
    ) {
        if let Some(gone) = self.peers[met.peer.0 as usize].gone {
            // Its data will never come.
            return self.end(met.op, Outcome::Failed(gone.fault()));
        }
        let want = met.capacity.min(size);
        let envelope = met.envelope(want);
        self.free_credit(met.peer, 0);
        if want == 0 {
            self.end(met.op, received(envelope, size));
            self.log_whole(met.peer, met.op);
            self.say_done(met.peer, met.sender_op);
            return;
        }
        let Match { op: id, peer, sender_op, .. } = *met;
        let pieces = if self.peers[peer.0 as usize].pull { first_bytes(pieces, want) } else { Vec::new() };
        let reads = (!pieces.is_empty()).then_some(ctx);
        // A receive that has room for no more than the beginning is one of few, and asks for it.
        let is_begun = begun > 0 && begun < want && self.take_beginning(peer, sender_op, id);
        let begun = if is_begun { begun } else { 0 };
        let op = self.ops.get_mut(id).expect("a receive is an operation");
        let got = Intervals::default();
        let whole = size;
        let pulling =
            Pulling { peer, reads, sender_op, got, envelope, whole, is_read: false, is_late, begun, put: None };
        op.state = State::Pulling(Box::new(pulling));
        if reads.is_some() {
            self.out.push_back(Output::Get { peer, sender_op, op: OpId(id), pieces, size: want });
        } else {
            self.say(peer, &Message::Cts { sender_op, receiver_op: id, offset: begun, len: want - begun });
        }
    }

    /// Whether this process can read the peer's memory. If so, [`Output::Get`] takes the place of a CTS where the peer
    /// has told where its data lies.
    pub fn set_pull(&mut self, peer: PeerId, can: bool) {
        self.to_buffer |= can;
        self.peers[peer.0 as usize].pull = can;
    }

    /// Messages of these sizes are here sooner if this process reads the peer's memory than if they come eager: bit n is that of 16 KiB · 2^n
    /// and longer ones up to twice that. The peer hears it with the next transfer.
    pub fn set_read_sooner(&mut self, peer: PeerId, sizes: u8) {
        self.peers[peer.0 as usize].read_sooner = sizes;
    }

    /// The data of an [`Output::Get`] is not read, or not all of it. The engine asks for what is missing.
    pub fn ask_for_rest(&mut self, op: OpId) {
        if let Some(State::Pulling(pulling)) = self.ops.get_mut(op.0).map(|op| &mut op.state) {
            let peer = pulling.peer;
            let questions = pulling.ask(op.0);
            questions.iter().for_each(|question| self.say(peer, question));
        }
    }

    // ---- bulk

    /// Whether these bytes of a BULK frame may be written into the buffer of `receiver_op` now. `offset` and `len`
    /// count packed bytes.
    pub fn bulk_wanted(&self, peer: PeerId, receiver_op: u64, offset: u64, len: u64) -> bool {
        match self.ops.get(receiver_op).map(|op| &op.state) {
            Some(State::Pulling(p)) => {
                let fits = |end| end <= p.envelope.size && p.got.takes(offset, end, MOST_PIECES);
                p.peer == peer && offset.checked_add(len).is_some_and(fits)
            }
            _ => false,
        }
    }

    /// These bytes have been written into the buffer, as [`Engine::bulk_wanted`] allowed. The receive completes with
    /// the last of them.
    pub fn on_bulk(&mut self, peer: PeerId, receiver_op: u64, offset: u64, len: u64) {
        if !self.bulk_wanted(peer, receiver_op, offset, len) {
            return;
        }
        let op = self.ops.get_mut(receiver_op).expect("bulk_wanted found it");
        let State::Pulling(pulling) = &mut op.state else {
            return;
        };
        // A message that comes in one piece needs no record of its pieces.
        let whole = len == pulling.envelope.size && !pulling.is_in_use();
        if !whole {
            pulling.got.insert(offset, offset + len);
        }
        if whole || pulling.is_whole() {
            self.end_pulling(receiver_op);
        } else if pulling.has_no_beginning() {
            self.ask_for_rest(OpId(receiver_op));
        }
    }

    /// Ends a transfer of which all bytes are there, and whose buffers can be given back. Whether that is so.
    pub(crate) fn end_if_whole(&mut self, receiver_op: u64) -> bool {
        let state = self.ops.get(receiver_op).map(|op| &op.state);
        let is_whole = matches!(state, Some(State::Pulling(pulling)) if pulling.is_whole());
        if is_whole {
            self.end_pulling(receiver_op);
        }
        is_whole
    }

    /// From now on the sender's memory is read into the buffer of this receive, until [`Engine::end_read`]. Even if all bytes come
    /// by a lane meanwhile, the sender is not told before: it would use its memory for something else, and that would be read.
    pub fn begin_read(&mut self, op: OpId) {
        if let Some(State::Pulling(pulling)) = self.ops.get_mut(op.0).map(|op| &mut op.state) {
            pulling.is_read = true;
        }
    }

    /// Nobody reads the sender's memory for this receive any more.
    pub fn end_read(&mut self, op: OpId) {
        if let Some(State::Pulling(pulling)) = self.ops.get_mut(op.0).map(|op| &mut op.state) {
            pulling.is_read = false;
            self.end_if_whole(op.0);
        }
    }

    /// All bytes of a transfer are there: the receive is over, and the sender is told.
    fn end_pulling(&mut self, receiver_op: u64) {
        if let Some(State::Pulling(pulling)) = self.ops.get(receiver_op).map(|op| &op.state) {
            let Pulling { peer, sender_op, envelope, whole, is_late, .. } = **pulling;
            self.end(receiver_op, received(envelope, whole));
            self.log_whole(peer, receiver_op);
            self.say_read(peer, sender_op, is_late);
        }
    }

    /// Tells the sender of an announced message that its data is here.
    pub(crate) fn say_read(&mut self, peer: PeerId, op: u64, is_late: bool) {
        let done = self.done(peer, op, is_late);
        self.say(peer, &done);
    }

    /// The DONE that tells the sender so.
    #[inline]
    pub(crate) fn done(&self, peer: PeerId, op: u64, is_late: bool) -> Message<'static> {
        let sooner = if is_late { CAME_EARLY } else { self.peers[peer.0 as usize].read_sooner };
        Message::Done { op, sooner }
    }

    /// Whether these packed bytes are in the buffer of a receive (MPI_Parrived). True if the receive is over, even if
    /// it failed.
    pub fn has_arrived(&self, op: OpId, offset: u64, len: u64) -> bool {
        match self.ops.get(op.0).map(|op| &op.state) {
            Some(State::Pulling(pulling)) => pulling.got.covers(offset, offset.saturating_add(len)),
            Some(State::Over(_)) => true,
            _ => false,
        }
    }

    /// The bytes that are missing of all transfers from a peer. On an unreliable lane, the caller uses
    /// [`Engine::on_lane_lost`] when this number does not fall any more.
    pub fn bulk_missing(&self, peer: PeerId) -> u64 {
        let missing = |state: &State| match state {
            State::Pulling(p) if p.peer == peer => p.envelope.size - p.got.count(),
            _ => 0,
        };
        self.ops.iter().map(|(_, op)| missing(&op.state)).sum()
    }

    /// A lane to this peer was lost, or an unreliable lane may have lost data. Asks again for all that is missing of
    /// the transfers from this peer.
    pub fn on_lane_lost(&mut self, peer: PeerId) {
        // Data that was to be read is asked for as well, since the next lane may not allow reading.
        self.out.retain(|o| !matches!(o, Output::Get { peer: from, .. } if *from == peer));
        self.refuse_puts(Some(peer));
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
    /// Whether one of the two buffers is still read or written by address, so that its owner must not have it back.
    fn is_in_use(&self) -> bool {
        self.is_read || self.put.is_some()
    }

    /// Whether all bytes are there, and both buffers can be given back.
    fn is_whole(&self) -> bool {
        !self.is_in_use() && self.got.covers(0, self.envelope.size)
    }

    /// Whether all is here but a beginning that does not come.
    fn has_no_beginning(&self) -> bool {
        self.begun > 0 && self.got.covers(self.begun, self.envelope.size)
    }

    /// The questions (CTS) for what is missing.
    fn ask(&mut self, receiver_op: u64) -> Vec<Message<'static>> {
        (self.reads, self.begun) = (None, 0);
        let mut gaps = self.got.missing(self.envelope.size);
        if gaps.len() > MOST_RANGES {
            gaps.truncate(MOST_RANGES);
            gaps[MOST_RANGES - 1].1 = self.envelope.size;
        }
        let question =
            |(start, end)| Message::Cts { sender_op: self.sender_op, receiver_op, offset: start, len: end - start };
        gaps.into_iter().map(question).collect()
    }
}

/// Lets a receive wait for its message in this inter-communicator, whose number is `ctx`.
#[inline(always)]
fn post(context: &mut Context, ops: &mut Ops, receive: Receive, ctx: Ctx) {
    let Receive { op, source, tag, capacity } = receive;
    ops.set(op, || State::Posted { ctx, source, tag, place: 0 });
    context.posted.push(Receive { op, source, tag, capacity }, |op, at| {
        if let Some(Op { state: State::Posted { place, .. }, .. }) = ops.get_mut(op) {
            *place = at;
        }
    });
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

/// The outcome of a receive that has got the first bytes of a message of `whole` bytes, or all of them.
#[inline(always)]
fn received(envelope: Envelope, whole: u64) -> Outcome {
    let Envelope { source, tag, size } = envelope;
    if size < whole { Outcome::Truncated { source, tag, size, whole } } else { Outcome::Received(envelope) }
}
