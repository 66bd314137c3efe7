//! Matching and the protocols of messages between jobs, without I/O, clock, threads or MPI. The engine steps on calls
//! and messages, and its outputs are what is to be done ([`Engine::next_output`]).
//!
//! A process has one engine, which its session owns. Invariants: all state is serialisable. User memory is touched only
//! through [`Memory`], under the number of the operation, and only while the operation is not complete. Input from
//! other processes never makes the engine panic: it is [`Malformed`], and takes no more memory than credit allows.
//!
//! `types` has the types of the interface. `state` has the data, with `arrived` for messages and `parts` for
//! partitioned sends. `send` with `announce`, `ready` (partitioned sends), `receive`, `beginning` (data that is sent before it is asked for), `now` (receives without an operation), `buffer`
//! (messages that are read before their receives), `put` (data that the sender writes to the receiver's memory) and `loss` have what happens to them, `detach` and `cut` what is written of them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ahead;
mod announce;
mod arrived;
mod beginning;
mod buffer;
mod context;
mod credit;
mod cut;
mod detach;
mod figures;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod intervals;
mod kept;
mod loss;
mod matching;
mod members;
mod now;
mod ops;
mod parts;
mod put;
mod ready;
mod receive;
mod send;
mod slots;
mod sound;
mod spare;
mod state;
#[cfg(test)]
mod tests;
mod types;
mod wildcards;
mod wire;

pub use context::ContextId;
pub use detach::without_addresses;
pub use figures::{Flow, Queues, Traffic};
pub use kept::{CutOf, Kept, Limits, Line, Resume, Wildcards};
pub use members::Members;
pub use now::Readable;
pub use types::*;
pub use wire::{EagerHead, MAX_NOTE, MAX_TOLD, Short};

use arrived::Arrived;
use base::bytes::Malformed;
use base::{Memory, Sorted, tight};
use credit::Freed;
use matching::{Posted, Unexpected};
use ops::Ops;
use serde::{Deserialize, Serialize};
use spare::Spare;
use state::{Ahead, Claimed, Context, Group, Hold, Now, Peer, State, To, Tracking};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{Eager, Message};

/// Ranges of contexts, of which a peer was told that they are closed, that are remembered. Beyond them it may be told
/// again, which changes nothing.
const MOST_TOLD: usize = 64;

/// Matching and the protocols of messages, for all peers of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Engine {
    cfg: Config,
    peers: Vec<Peer>,
    /// Removed peers, whose numbers are used again.
    vacant: Vec<PeerId>,
    groups: Sorted<u64, Group>,
    contexts: Vec<Option<Context>>,
    ops: Ops,
    /// What is noted for cuts.
    tracking: Option<Box<Tracking>>,
    last_claim: u64,
    /// Messages that matched probes have taken, by [`MessageId`].
    claimed: BTreeMap<u64, Claimed>,
    /// Sends that ended here while the peer still has their RTS: (peer, context). A CTS for one is refused.
    withdrawn: BTreeMap<u64, (PeerId, ContextId)>,
    out: VecDeque<Output>,
    #[serde(skip)]
    spare: Spare,
    /// A receive that has no operation.
    #[serde(skip)]
    now: Option<Now>,
    /// The last such receive has matched a message that is announced, and another one will take it.
    #[serde(skip)]
    missed_now: bool,
    /// Messages may wait whose data may be read before their receives.
    #[serde(skip)]
    to_buffer: bool,
    /// What a receive has got of a message that is not whole.
    #[serde(skip)]
    ahead: Option<Ahead>,
    /// Peers to which bulk is to be sent. They take turns.
    turns: VecDeque<PeerId>,
    /// Some peer is gone or has closed an inter-communicator. Only then do calls look for faults.
    troubled: bool,
    /// The number of peers that have used up their envelopes.
    at_end: usize,
}

impl Engine {
    /// An engine without peers.
    pub fn new(cfg: Config) -> Self {
        Engine {
            cfg,
            peers: Vec::new(),
            vacant: Vec::new(),
            groups: Sorted::default(),
            contexts: Vec::new(),
            ops: Ops::default(),
            tracking: None,
            last_claim: 0,
            claimed: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            out: VecDeque::new(),
            spare: Spare::default(),
            now: None,
            missed_now: false,
            to_buffer: false,
            ahead: None,
            turns: VecDeque::new(),
            troubled: false,
            at_end: 0,
        }
    }

    // ---- peers and inter-communicators

    /// Adds a peer. All peers between the same two incarnations have the same `group`. A [`ContextId`] stands for one
    /// inter-communicator within a group.
    pub fn add_peer(&mut self, group: u64) -> PeerId {
        self.groups.get_or_insert_with(group, Group::default);
        let peer = Peer::new(group, &self.cfg);
        self.at_end += usize::from(peer.granting.at_end());
        match self.vacant.pop() {
            Some(id) => {
                self.at_end -= usize::from(self.peers[id.0 as usize].granting.at_end());
                self.peers[id.0 as usize] = peer;
                id
            }
            None => {
                tight::push(&mut self.peers, peer);
                PeerId(self.peers.len() as u32 - 1)
            }
        }
    }

    /// This peer will be in no inter-communicator. All messages but CONTROL and BYE are malformed from now on.
    pub fn only_control(&mut self, peer: PeerId) {
        self.peers[peer.0 as usize].only_control = true;
    }

    /// Forgets a peer, whose number is used again. It must be in no inter-communicator, and no operation may depend on
    /// it ([`Engine::depends_on`]).
    pub fn remove_peer(&mut self, peer: PeerId) {
        debug_assert!(
            !self.depends_on(peer) && !self.contexts.iter().flatten().any(|c| c.members.rank_of(peer).is_some())
        );
        let p = &mut self.peers[peer.0 as usize];
        let group = p.group;
        self.at_end -= usize::from(p.granting.at_end());
        *p = Peer::new(group, &self.cfg);
        // No message is sent to a peer that is gone.
        p.gone = Some(Gone::Finished);
        self.at_end += usize::from(p.granting.at_end());
        self.turns.retain(|p| *p != peer);
        self.withdrawn.retain(|_, (to, _)| *to != peer);
        self.out.retain(|o| o.peer() != peer);
        if let Some(shared) = self.groups.get_mut(&group) {
            shared.early.retain(|_, messages| {
                messages.retain(|m| m.peer != peer);
                !messages.is_empty()
            });
        }
        self.vacant.push(peer);
    }

    /// Forgets what the peers of a group shared, once all of them are removed.
    pub fn remove_group(&mut self, group: u64) {
        self.groups.remove(&group);
    }

    /// Whether an operation or a claimed message of ours needs this peer.
    pub fn depends_on(&self, peer: PeerId) -> bool {
        self.claimed.values().any(|c| c.message.peer == peer)
            || self.ops.iter().any(|(_, op)| op.state.needs() == Some(peer))
    }

    /// Whether messages of this peer wait for an inter-communicator that is not open yet.
    pub fn keeps_early(&self, peer: PeerId) -> bool {
        let group = self.groups.get(&self.peers[peer.0 as usize].group);
        group.is_some_and(|g| g.early.values().flatten().any(|m| m.peer == peer))
    }

    /// Opens an inter-communicator. `rank` is the rank of this process in the local group. `peers` are the processes of
    /// the remote group, by rank, all with the same `group`. Messages that came early are matched from now on.
    ///
    /// # Panics
    /// If `peers` is empty.
    pub fn open(&mut self, context: ContextId, rank: u32, peers: Vec<PeerId>) -> Ctx {
        let group = self.peers[peers.first().expect("a remote group has members").0 as usize].group;
        self.open_among(group, context, rank, peers.into())
    }

    /// As [`Engine::open`], with a remote group whose ranks need not all have a peer yet: [`Engine::introduce`] adds one before
    /// something is sent to it or comes from it.
    pub fn open_among(&mut self, group: u64, context: ContextId, rank: u32, members: Members) -> Ctx {
        debug_assert!(members.iter().all(|(_, p)| self.peers[p.0 as usize].group == group));
        let slot = self.contexts.iter().position(Option::is_none).unwrap_or_else(|| {
            tight::push(&mut self.contexts, None);
            self.contexts.len() - 1
        });
        let ctx = Ctx(slot as u32);
        let shared = self.groups.get_or_insert_with(group, Group::default);
        debug_assert!(!shared.closed.contains(context));
        let before = shared.open.insert(context, ctx);
        debug_assert!(before.is_none());
        let early = shared.early.remove(&context).unwrap_or_default();
        self.to_buffer |= !early.is_empty();
        let (good, bad): (VecDeque<_>, VecDeque<_>) =
            early.into_iter().partition(|a| members.get(a.source) == Some(a.peer));
        let mut unexpected = Unexpected::default();
        good.into_iter().for_each(|message| unexpected.push(message));
        self.contexts[slot] = Some(Context {
            group,
            context,
            rank,
            members,
            revoked: BTreeSet::new(),
            unexpected,
            posted: Posted::default(),
        });
        for arrived in bad {
            self.give_back(&arrived);
        }
        ctx
    }

    /// Closes an inter-communicator.
    ///
    /// Posted receives, and sends that are not matched, fail with [`Fault::Revoked`]. Unexpected messages are dropped.
    /// Transfers that are under way go on to their end, and so do sends whose data the peer may be reading by itself.
    pub fn close(&mut self, ctx: Ctx) {
        let Some(context) = self.contexts.get_mut(ctx.0 as usize).and_then(Option::take) else {
            return;
        };
        let group = self.groups.get_mut(&context.group).expect("add_peer made it");
        group.open.remove(&context.context);
        group.closed.insert(context.context);
        let (mut failed, mut exposed, mut reading) = (Vec::new(), Vec::new(), Vec::new());
        for (id, op) in self.ops.iter() {
            match &op.state {
                State::Queued(to) if to.ctx == ctx => failed.push(id),
                State::Awaiting(to) if to.ctx == ctx => failed.push(id),
                State::Announced(to) if to.ctx == ctx && to.described => exposed.push((id, *to)),
                State::Announced(to) if to.ctx == ctx => {
                    self.withdrawn.insert(id, (to.peer, context.context));
                    failed.push(id);
                }
                State::Posted { ctx: at, .. } if *at == ctx => failed.push(id),
                State::Pulling(pulling) if pulling.reads == Some(ctx) => reading.push(OpId(id)),
                _ => {}
            }
        }
        for id in failed {
            self.end(id, Outcome::Failed(Fault::Revoked));
        }
        for (id, To { peer, size, is_put, .. }) in exposed {
            let context = context.context;
            self.ops.get_mut(id).expect("seen above").state = State::Exposed { peer, context, size, is_put };
        }
        // A sender that is told of the close ends the sends whose data was not asked for.
        reading.into_iter().for_each(|op| self.ask_for_rest(op));
        for claim in self.claimed.values_mut().filter(|c| c.ctx == ctx) {
            claim.message.body.forget_pieces();
        }
        self.drop_unexpected(context.context, context.unexpected.into_messages());
        for (_, peer) in context.members.iter() {
            self.tidy_waiting(peer);
        }
    }

    /// A rank of an open inter-communicator has a peer from now on.
    pub fn introduce(&mut self, ctx: Ctx, rank: u32, peer: PeerId) {
        if let Some(context) = self.contexts.get_mut(ctx.0 as usize).and_then(Option::as_mut) {
            debug_assert_eq!(self.peers[peer.0 as usize].group, context.group);
            context.members.set(rank, peer);
        }
    }

    /// The remote group of an inter-communicator. `None` if it is closed.
    #[inline]
    pub fn members(&self, ctx: Ctx) -> Option<&Members> {
        self.contexts.get(ctx.0 as usize)?.as_ref().map(|context| &context.members)
    }

    /// A context was agreed on but will not be opened here. Messages for it are refused.
    pub fn refuse(&mut self, group: u64, context: ContextId) {
        let group = self.groups.get_or_insert_with(group, Group::default);
        group.closed.insert(context);
        let early = group.early.remove(&context).unwrap_or_default();
        self.drop_unexpected(context, early);
    }

    /// Gives the credit of these messages back, and tells senders that wait for a match.
    fn drop_unexpected(&mut self, context: ContextId, messages: impl IntoIterator<Item = Arrived>) {
        for arrived in messages {
            self.give_back(&arrived);
            if arrived.body.awaited() {
                self.say_revoked(arrived.peer, context);
            }
        }
    }

    /// Tells a peer that a context is closed here, once as far as is remembered. Then the peer's sends to it end, and
    /// it starts no more of them.
    fn say_revoked(&mut self, peer: PeerId, context: ContextId) {
        let told = &mut self.peers[peer.0 as usize].told_closed;
        if !told.contains(context) {
            told.insert(context);
            told.keep_last(context, MOST_TOLD);
            self.say(peer, &Message::Revoked { context, op: 0 });
        }
    }

    // ---- operations

    /// A number for the next send or receive. The memory must know the user buffer by this number before the operation
    /// starts.
    #[inline(always)]
    pub fn next_op(&mut self) -> OpId {
        OpId(self.ops.reserve())
    }

    /// The outcome of an operation. `None` if it is not complete, or forgotten.
    pub fn outcome(&self, op: OpId) -> Option<Outcome> {
        match self.ops.get(op.0)?.state {
            State::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The envelope of a receive that has got its whole message, which is then forgotten. `None`, and nothing changes, if there is
    /// another outcome or none.
    #[inline(always)]
    pub fn take_received(&mut self, op: OpId) -> Option<Envelope> {
        self.ops.take_received(op.0)
    }

    /// The outcome of an operation, which is then forgotten. `None`, and nothing changes, if it is not complete.
    pub fn finish(&mut self, op: OpId) -> Option<Outcome> {
        self.ops.finish(op.0)
    }

    /// Forgets the operation as soon as it is complete (MPI_Request_free). Its outcome will not be asked for.
    pub fn forget(&mut self, op: OpId) {
        if let Some(found) = self.ops.get_mut(op.0) {
            found.forgotten = true;
            if matches!(found.state, State::Over(_)) {
                self.ops.remove(op.0);
            }
        }
    }

    /// Whether the operation has started and is not complete. As long as it is so, the memory must know its buffer,
    /// even after [`Engine::forget`].
    pub fn pending(&self, op: OpId) -> bool {
        self.ops.get(op.0).is_some_and(|o| !matches!(o.state, State::Reserved | State::Over(_)))
    }

    /// All operations that have started and are not complete.
    pub fn going_on(&self) -> Vec<OpId> {
        self.ops.iter().filter(|(_, o)| !matches!(o.state, State::Over(_))).map(|(id, _)| OpId(id)).collect()
    }

    /// Cancels a receive that has no message (MPI_Cancel), and returns whether it did. A receive that has failed
    /// because its senders have finished or closed is cancelled as well.
    pub fn cancel_recv(&mut self, op: OpId) -> bool {
        let taken = match self.ops.get(op.0).map(|op| &op.state) {
            Some(State::Posted { .. }) if !self.has_part(op) => {
                self.unpost(op.0);
                true
            }
            Some(State::Over(Outcome::Failed(Fault::PeerFinished | Fault::Revoked))) => true,
            _ => false,
        };
        if taken {
            self.end(op.0, Outcome::Cancelled);
        }
        taken
    }

    /// Takes a receive out of the posted queue. The caller ends the operation.
    pub(crate) fn unpost(&mut self, id: u64) {
        if let Some(&State::Posted { ctx, place, .. }) = self.ops.get(id).map(|op| &op.state) {
            let context = self.contexts[ctx.0 as usize].as_mut().expect("close ends its receives");
            context.posted.remove(id, place);
        }
    }

    /// The peers, of those that are not gone, on which an operation of ours depends. A receive from any source depends
    /// on all peers of its inter-communicator.
    pub fn watching(&self) -> impl Iterator<Item = PeerId> + use<> {
        let mut peers = BTreeSet::new();
        // All receives from any source of one inter-communicator have the same peers.
        let mut any = Vec::new();
        for (_, op) in self.ops.iter() {
            if let State::Posted { ctx, source, .. } = &op.state
                && !any.contains(ctx)
            {
                peers.extend(self.sources(*ctx, *source));
                if *source == Source::Any {
                    any.push(*ctx);
                }
            }
            peers.extend(op.state.needs());
        }
        peers.retain(|p| self.peers[p.0 as usize].gone.is_none());
        peers.into_iter()
    }

    /// The inter-communicators in which a receive from any source waits.
    pub fn awaiting_any(&self) -> BTreeSet<Ctx> {
        let any = |state: &State| match state {
            State::Posted { ctx, source: Source::Any, .. } => Some(*ctx),
            _ => None,
        };
        self.ops.iter().filter_map(|(_, op)| any(&op.state)).collect()
    }

    /// What an operation waits for, for messages. `None` if it waits for nothing.
    pub fn awaited(&self, op: OpId) -> Option<Awaited> {
        match &self.ops.get(op.0)?.state {
            State::Queued(to) => Some(Awaited::Room(to.peer, to.tag)),
            State::Awaiting(to) | State::Announced(to) => Some(Awaited::Matched(to.peer, to.tag)),
            State::Exposed { peer, .. } => Some(Awaited::Taken(*peer)),
            State::Sending(sending) => Some(Awaited::Taken(sending.peer)),
            State::Posted { ctx, source, tag, .. } => Some(Awaited::Message(*ctx, *source, *tag)),
            State::Pulling(p) => Some(Awaited::Data(p.peer, p.got.count(), p.envelope.size)),
            State::Delivered => Some(Awaited::Partitions),
            State::Reserved | State::Over(_) => None,
        }
    }

    /// The peers that a source stands for, as far as there are any: none if the inter-communicator is closed.
    pub fn sources(&self, ctx: Ctx, source: Source) -> impl Iterator<Item = PeerId> {
        let members = self.members(ctx);
        let (one, all) = match source {
            Source::Any => (None, members),
            Source::Rank(rank) => (members.and_then(|members| members.get(rank)), None),
        };
        one.into_iter().chain(all.into_iter().flat_map(Members::iter).map(|(_, peer)| peer))
    }

    /// Completes an operation.
    // Inlined, so that the outcome is made where it stays: bytes that are copied at once after they were written cost more than all the
    // rest of it.
    #[inline(always)]
    fn end(&mut self, id: u64, outcome: Outcome) {
        if let Some(op) = self.ops.get_mut(id) {
            op.state = State::Over(outcome);
            if op.forgotten {
                self.ops.remove(id);
            }
        }
    }

    // ---- in and out

    /// Takes the body of a MSG frame from a peer. The caller hands them in in order, each once.
    ///
    /// [`Malformed`] if the message breaks the protocol: then the caller drops the lane that carried it.
    /// Messages of a peer that is gone are ignored.
    // Not inlined: several callers hand messages in, and all that the usual message takes is in it.
    #[inline(never)]
    pub fn on_message<M: Memory>(&mut self, mem: &mut M, peer: PeerId, body: &[u8]) -> Result<(), Malformed> {
        if self.take_at_once(mem, peer, body) { Ok(()) } else { self.on_any(mem, peer, body) }
    }

    /// As [`Engine::on_message`], for any message.
    #[inline(never)]
    fn on_any<M: Memory>(&mut self, mem: &mut M, peer: PeerId, body: &[u8]) -> Result<(), Malformed> {
        let eager = Eager::decode(body)?;
        if self.peers[peer.0 as usize].gone.is_some() {
            return Ok(());
        }
        match eager {
            Some(eager) => self.on_eager(mem, peer, eager)?,
            None => self.on_short(mem, peer, body)?,
        }
        if self.is_limited() {
            self.match_all_held(mem);
        }
        Ok(())
    }

    /// Takes a message that is not a plain EAGER.
    #[inline(never)]
    fn on_short<M: Memory>(&mut self, mem: &mut M, peer: PeerId, body: &[u8]) -> Result<(), Malformed> {
        let message = Message::decode(body)?;
        if self.peers[peer.0 as usize].only_control && !matches!(message, Message::Control(_) | Message::Bye) {
            return Err(Malformed);
        }
        match message {
            Message::Eager(_) => Err(Malformed),
            Message::NotedEager { note, eager } => self.on_noted(mem, peer, note, eager),
            Message::Rts { head, size, begun, note, pieces, may_buffer } => {
                self.on_rts(peer, &head, (size, begun), (note, pieces, may_buffer))
            }
            Message::Rtr { sender_op, receiver_op, offset, len, pieces } => {
                self.on_rtr(peer, (sender_op, receiver_op), (offset, len), pieces)
            }
            Message::Atp { receiver_op, done } => {
                self.on_atp(peer, receiver_op, done);
                Ok(())
            }
            Message::Cts { sender_op, receiver_op, offset, len } => {
                self.on_cts(peer, sender_op, receiver_op, offset, len)
            }
            Message::Done { op, sooner } => {
                self.on_done(peer, op, sooner);
                Ok(())
            }
            Message::Credit { envelopes, bytes } => {
                self.peers[peer.0 as usize].spending.raise(envelopes, bytes);
                self.drain(mem, peer);
                Ok(())
            }
            Message::Revoked { context, op } => {
                self.on_revoked(peer, context, op);
                Ok(())
            }
            Message::Control(bytes) => {
                self.out.push_back(Output::Control { peer, bytes: bytes.to_vec() });
                Ok(())
            }
            Message::Ask => {
                self.out.push_back(Output::Asked { peer });
                Ok(())
            }
            Message::Tell(bytes) => {
                self.out.push_back(Output::Told { peer, bytes: bytes.to_vec() });
                Ok(())
            }
            Message::Bye => {
                self.on_gone(peer, Gone::Finished);
                Ok(())
            }
        }
    }

    /// Sends a CONTROL message.
    pub fn control(&mut self, peer: PeerId, bytes: &[u8]) {
        self.say(peer, &Message::Control(bytes));
    }

    /// Asks a peer whether it is alive and what it waits for. Its library answers even if its program makes no MPI
    /// call. The answer comes as [`Output::Told`].
    pub fn ask(&mut self, peer: PeerId) {
        self.say(peer, &Message::Ask);
    }

    /// Answers [`Output::Asked`], in at most [`MAX_TOLD`] bytes.
    pub fn tell(&mut self, peer: PeerId, bytes: &[u8]) {
        debug_assert!(bytes.len() <= MAX_TOLD);
        self.say(peer, &Message::Tell(bytes));
    }

    /// Sends BYE. Nothing may be sent to this peer afterwards, nor written to its memory.
    pub fn bye(&mut self, peer: PeerId) {
        self.say(peer, &Message::Bye);
        self.peers[peer.0 as usize].hold.set(Hold::LEFT, true);
    }

    /// Whether [`Engine::next_output`] may have an output. It may have none, since bulk for backlogged peers is held
    /// back.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.has_answers() || !self.turns.is_empty()
    }

    /// Whether it has put out something else than bulk, which takes turns.
    #[inline]
    pub fn has_answers(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether any peer is gone, or has closed an inter-communicator, since the engine began.
    #[inline]
    pub fn has_trouble(&self) -> bool {
        self.troubled
    }

    /// The next output: messages first, then bulk. Peers take turns in sending bulk, and so do the transfers to one
    /// peer. Bulk for backlogged peers is held back.
    pub fn next_output(&mut self) -> Option<Output> {
        self.out.pop_front().or_else(|| self.next_bulk())
    }

    /// Puts out a message, unless the peer is gone.
    fn say(&mut self, peer: PeerId, message: &Message<'_>) {
        self.put_out(Output::Message { peer, bytes: message.encode() });
    }

    fn put_out(&mut self, output: Output) {
        if self.peers[output.peer().0 as usize].gone.is_none() {
            self.out.push_back(output);
        }
    }

    /// Gives the credit of a message back: the user has received it, or it was dropped.
    fn give_back(&mut self, message: &Arrived) {
        if message.free {
            self.to_buffer = true;
        } else {
            self.free_credit(message.peer, message.body.eager_bytes());
        }
    }

    #[inline(always)]
    fn free_credit(&mut self, peer: PeerId, bytes: u64) {
        match self.peers[peer.0 as usize].granting.free(bytes) {
            Freed::Little => {}
            Freed::Much => self.tell_credit(peer),
            // Another receive, that was posted before, may wait for the next message.
            Freed::AtEnd => self.still_looking(peer),
        }
    }

    #[cold]
    fn tell_credit(&mut self, peer: PeerId) {
        let granting = &mut self.peers[peer.0 as usize].granting;
        let before = granting.at_end();
        // Of messages that have waited the sender may have more, and with few bytes left it would announce them and wait.
        let is_urgent = before || !granting.has_all(self.cfg.eager_bytes);
        let (envelopes, bytes) = granting.tell();
        self.at_end = self.at_end + usize::from(granting.at_end()) - usize::from(before);
        let bytes = Message::Credit { envelopes, bytes }.encode();
        self.put_out(if is_urgent { Output::Message { peer, bytes } } else { Output::Credit { peer, bytes } });
    }
}
