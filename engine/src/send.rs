//! The sending side: a message leaves eager, or by rendezvous: its envelope first (RTS), and the data when the receiver
//! asks for it (CTS). Part of the engine. Invariant: per peer, envelopes leave in the order in which `send` was called.

use crate::announce::Announce;
use crate::intervals::Intervals;
use crate::parts::Parts;
use crate::state::{Hold, More, Op, Sending, State, To};
use crate::wire::{EagerHead, Head, MAX_NOTE, MOST_DESCRIBED, Message, Pieces, Short};
use crate::{Ctx, Engine, Fault, Mode, OpId, Outcome, Output, PeerId, Source};
use base::Memory;
use base::bytes::Malformed;
use base::protocol::message::READ_FROM;

/// Ranges of one message that are sent one by one. More are sent as one range; a receiver asks for far fewer.
const MOST_ASKED: usize = 1024;

/// The partitions of a partitioned send.
#[inline]
fn parts_of(mode: Mode, size: u64) -> Option<Parts> {
    if let Mode::Partitioned(count) = mode { Some(Parts::new(count, size)) } else { None }
}

impl Engine {
    /// Starts a send of `size` packed bytes from the buffer of `op` to rank `dest` of the remote group.
    ///
    /// The send may be complete when the call returns ([`Engine::outcome`]). It fails with [`Fault::Revoked`] if the
    /// inter-communicator is closed, and with another fault if the peer is gone.
    #[allow(clippy::too_many_arguments)]
    pub fn send<M: Memory>(&mut self, mem: &M, op: OpId, ctx: Ctx, dest: u32, tag: i64, size: u64, mode: Mode) {
        let more = parts_of(mode, size).map(|parts| Box::new(More { parts: Some(parts), ..More::default() }));
        self.send_with(mem, op, ctx, dest, tag, size, mode, more);
    }

    /// As [`Engine::send`], with a note of at most [`crate::MAX_NOTE`] bytes. The receiver gets it as
    /// [`Output::Noted`].
    #[allow(clippy::too_many_arguments)]
    pub fn send_noted<M: Memory>(
        &mut self,
        mem: &M,
        op: OpId,
        ctx: Ctx,
        dest: u32,
        tag: i64,
        size: u64,
        (mode, note): (Mode, Vec<u8>),
    ) {
        debug_assert!(note.len() <= MAX_NOTE);
        let more = More { parts: parts_of(mode, size), note };
        self.send_with(mem, op, ctx, dest, tag, size, mode, Some(Box::new(more)));
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn send_with<M: Memory>(
        &mut self,
        mem: &M,
        op: OpId,
        ctx: Ctx,
        dest: u32,
        tag: i64,
        size: u64,
        mode: Mode,
        more: Option<Box<More>>,
    ) {
        let state = match self.contexts.get(ctx.0 as usize).and_then(Option::as_ref) {
            None => State::Over(Outcome::Failed(Fault::Revoked)),
            Some(context) => match self.fault(ctx, Source::Rank(dest)) {
                Some(fault) => State::Over(Outcome::Failed(fault)),
                None => State::Queued(To {
                    peer: context.members.get(dest).expect("a rank that is sent to has a peer"),
                    ctx,
                    tag,
                    size,
                    sync: mode != Mode::Standard,
                    described: false,
                    is_put: false,
                    begun: false,
                }),
            },
        };
        let queued = if let State::Queued(to) = &state { Some(to.peer) } else { None };
        let Some(started) = self.ops.set(op.0, || state) else { return };
        started.more = more;
        let leaves = started.parts().is_none_or(Parts::may_leave);
        if let Some(peer) = queued.filter(|_| leaves) {
            self.line_up(mem, peer, op.0);
        }
    }

    /// Starts an eager send that can leave at once and needs no operation: it is complete when the caller has sent it.
    ///
    /// Its credit is spent. The caller sends the head and `size` bytes of data to the peer as one message, before any
    /// further output of the engine. `None` means that nothing has changed, and that the caller has to use
    /// [`Engine::send`].
    #[inline(always)]
    pub fn start_eager(&mut self, ctx: Ctx, dest: u32, tag: i64, size: u64, mode: Mode) -> Option<(PeerId, EagerHead)> {
        let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
        let peer = context.members.get(dest)?;
        let p = &mut self.peers[peer.0 as usize];
        if mode != Mode::Standard || !p.is_free(&self.out) || !p.may_go_eager(&self.cfg, size) {
            return None;
        }
        if size >= READ_FROM && p.is_announced(size) || self.troubled && self.fault(ctx, Source::Rank(dest)).is_some() {
            return None;
        }
        self.peers[peer.0 as usize].leaves(size, true);
        // No message ever names this operation.
        Some((peer, EagerHead::new(false, Head { tag, source: context.rank, context: context.context, op: 0 })))
    }

    /// Starts a send of `size` bytes that lie at `at` in one piece, if it is announced and its RTS can leave at once. In all else it is as after
    /// [`Engine::send`].
    ///
    /// The caller sends the RTS to the peer, before any further output of the engine. `None` means that nothing has changed, and that the
    /// caller has to use [`Engine::send`].
    #[inline(always)]
    pub fn start_announced(
        &mut self,
        op: OpId,
        (ctx, dest, tag): (Ctx, u32, i64),
        (at, size): (u64, u64),
        mode: Mode,
    ) -> Option<(PeerId, Short)> {
        let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
        let peer = context.members.get(dest)?;
        let p = &mut self.peers[peer.0 as usize];
        let may = p.may_go_eager(&self.cfg, size);
        let is_announced = if may { p.is_announced(size) } else { p.max_segments > 0 };
        if !is_announced || !p.is_free(&self.out) || !p.spending.has_envelope() || self.tracking.is_some() {
            return None;
        }
        if matches!(mode, Mode::Partitioned(_)) || self.troubled && self.fault(ctx, Source::Rank(dest)).is_some() {
            return None;
        }
        let sync = mode != Mode::Standard;
        let to = To { peer, ctx, tag, size, sync, described: true, is_put: false, begun: false };
        self.ops.set(op.0, || State::Announced(to))?;
        self.peers[peer.0 as usize].leaves(size, false);
        let head = Head { tag, source: context.rank, context: context.context, op: op.0 };
        let (pieces, may_buffer) = (Pieces::One(at, size), may && !sync);
        Some((peer, Short::new(&Message::Rts { head, size, begun: 0, note: &[], pieces, may_buffer })))
    }

    /// The number of a send that is complete: its message is sent from a copy, as an operation of its own.
    pub fn sent_as_copy(&mut self) -> OpId {
        let op = self.next_op();
        self.ops.set(op.0, || State::Over(Outcome::Sent));
        op
    }

    /// Lets a send wait for its turn.
    pub(crate) fn line_up<M: Memory>(&mut self, mem: &M, peer: PeerId, id: u64) {
        if self.peers[peer.0 as usize].hold.has(Hold::SKIPPING) && self.skip(peer, id) {
            return;
        }
        self.peers[peer.0 as usize].waiting.push_back(id);
        self.drain(mem, peer);
    }

    /// Whether the path to a peer is backlogged. While it is, sends to the peer wait, and no bulk for it is put out.
    pub fn set_backlogged<M: Memory>(&mut self, mem: &M, peer: PeerId, backlogged: bool) {
        self.peers[peer.0 as usize].hold.set(Hold::BACKLOGGED, backlogged);
        if !backlogged {
            self.drain(mem, peer);
        }
    }

    /// Sets the longest BULK frame to this peer, in bytes. 0 counts as 1.
    pub fn set_chunk(&mut self, peer: PeerId, bytes: u64) {
        self.peers[peer.0 as usize].chunk = bytes.max(1);
    }

    /// Has messages of up to this many bytes go to this peer eager, if that is more than goes so to all, and as far as peers take it; and of
    /// up to `alone` bytes, if each follows one of the peer's. It has a new lane, or none: what was measured of the one before is forgotten.
    pub fn set_eager_max(&mut self, peer: PeerId, bytes: u64, alone: u64) {
        let most = bytes.min(self.cfg.most_eager());
        let p = &mut self.peers[peer.0 as usize];
        p.more_eager = most.saturating_sub(self.cfg.eager_max);
        p.eager_alone = alone.min(self.cfg.most_eager());
        (p.announce, p.read_sooner) = (Announce::default(), 0);
    }

    /// Whether a thread of the peer is in a call and polls its lanes. A message that could go eager is announced only to one that does: it
    /// would wait for a program that works.
    pub fn set_polls(&mut self, peer: PeerId, yes: bool) {
        self.peers[peer.0 as usize].polls = yes;
    }

    /// Whether the peer can read our memory. If it can, a send whose data lies in at most `most_pieces` pieces tells
    /// where. 0 if it cannot.
    pub fn set_max_segments(&mut self, peer: PeerId, most_pieces: usize) {
        self.peers[peer.0 as usize].max_segments = most_pieces.min(MOST_DESCRIBED);
    }

    /// Sends the messages that wait, as far as credit allows.
    pub(crate) fn drain<M: Memory>(&mut self, mem: &M, peer: PeerId) {
        loop {
            let p = &mut self.peers[peer.0 as usize];
            if p.hold.has(Hold::BACKLOGGED) || !p.spending.has_envelope() {
                return;
            }
            let Some(id) = p.waiting.pop_front() else {
                return;
            };
            let Some(Op { state: State::Queued(to), more, .. }) = self.ops.get(id) else {
                continue;
            };
            let mut to = *to;
            let context = self.contexts[to.ctx.0 as usize].as_ref().expect("close ends what waits");
            let head = Head { tag: to.tag, source: context.rank, context: context.context, op: id };
            let parted = more.as_ref().is_some_and(|more| more.parts.is_some());
            let note = more.as_ref().map_or(Vec::new(), |more| more.note.clone());
            let may = !parted && p.may_go_eager(&self.cfg, to.size);
            let mut pieces = std::mem::take(&mut self.spare.described);
            pieces.clear();
            // Where checkpoints are made it goes eager, so that the receiver's image or log has its data.
            if !may || self.tracking.is_none() && p.is_announced(to.size) {
                describe(mem, id, to.size, if parted { 0 } else { p.max_segments }, &mut pieces);
            }
            // Only where its data lies can it be read.
            let eager = may && pieces.is_empty();
            let whole_announced = !eager && pieces.is_empty() && !parted && self.tracking.is_none();
            let begun = if whole_announced { p.begins(&self.cfg, to.size) } else { 0 };
            p.leaves(to.size, eager);
            if eager {
                let head = EagerHead::new(to.sync, head);
                let mut bytes = if note.is_empty() {
                    head.with_room(to.size as usize)
                } else {
                    head.noted(&note, to.size as usize)
                };
                if to.size > 0 {
                    mem.read(id, 0, to.size as usize, &mut bytes);
                }
                self.out.push_back(Output::Message { peer, bytes });
            } else {
                to.described = !pieces.is_empty();
                let may_buffer = may && to.described && !to.sync;
                to.begun = begun > 0;
                let (size, pieces) = (to.size, Pieces::new(&pieces));
                self.say(peer, &Message::Rts { head, size, begun, note: &note, pieces, may_buffer });
                self.begin(peer, id, begun);
            }
            self.spare.described = pieces;
            if eager && !to.sync {
                self.end(id, Outcome::Sent);
            } else {
                let op = self.ops.get_mut(id).expect("seen above");
                op.state = if eager { State::Awaiting(to) } else { State::Announced(to) };
                if self.tracking.is_some() {
                    self.note_left(id, peer);
                }
            }
        }
    }

    /// Drops what has ended from the queue of waiting sends.
    pub(crate) fn tidy_waiting(&mut self, peer: PeerId) {
        let ops = &self.ops;
        self.peers[peer.0 as usize]
            .waiting
            .retain(|id| matches!(ops.get(*id), Some(Op { state: State::Queued(_), .. })));
    }

    /// The peer asks for a range of the data of a send.
    pub(crate) fn on_cts(&mut self, peer: PeerId, id: u64, asker: u64, offset: u64, len: u64) -> Result<(), Malformed> {
        if let Some(&(to, context)) = self.withdrawn.get(&id) {
            if to != peer {
                return Err(Malformed);
            }
            self.withdrawn.remove(&id);
            self.say(peer, &Message::Revoked { context, op: asker });
            return Ok(());
        }
        // The operation is over: the receiver needs no more of its data.
        let Some(op) = self.ops.get_mut(id) else {
            return Ok(());
        };
        let end = offset.checked_add(len).ok_or(Malformed)?;
        if let State::Announced(To { peer: to, size, .. }) | State::Exposed { peer: to, size, .. } = op.state {
            // Checked before anything changes: a malformed CTS must not count as a match.
            if to != peer || end > size || len == 0 {
                return Err(Malformed);
            }
            let at = match op.state {
                State::Announced(to) => {
                    if to.begun {
                        self.peers[peer.0 as usize].heard_of_beginning(offset);
                    }
                    self.contexts[to.ctx.0 as usize].as_ref().map(|open| (open.context, to.tag))
                }
                _ => None,
            };
            let ranges = Intervals::default();
            op.state = State::Sending(Box::new(Sending { peer, at, size, receiver_op: asker, ranges, queued: false }));
        }
        match &mut op.state {
            State::Sending(sending) => {
                let Sending { peer: to, size, receiver_op, ranges, queued, .. } = &mut **sending;
                if *to != peer || *receiver_op != asker || end > *size || len == 0 {
                    return Err(Malformed);
                }
                match op.more.as_mut().and_then(|more| more.parts.as_mut()) {
                    None => {
                        ranges.insert(offset, end);
                        ranges.join_beyond(MOST_ASKED);
                    }
                    Some(parts) => parts.asked(offset, end, MOST_ASKED, ranges),
                }
                let leaves = !*queued && !ranges.is_empty();
                if leaves {
                    *queued = true;
                    self.queue_bulk(peer, id);
                }
                Ok(())
            }
            State::Delivered | State::Over(_) => Ok(()),
            _ => Err(Malformed),
        }
    }

    /// Lets a send take turns with the others to this peer.
    pub(crate) fn queue_bulk(&mut self, peer: PeerId, id: u64) {
        let p = &mut self.peers[peer.0 as usize];
        p.bulk.push_back(id);
        if !p.in_turn {
            p.in_turn = true;
            self.turns.push_back(peer);
        }
    }

    /// The peer has, or needs, nothing more of a send, which is over when the program has marked all its partitions.
    pub(crate) fn delivered(&mut self, id: u64) {
        match self.ops.get_mut(id) {
            Some(op) if !op.parts().is_none_or(Parts::all_ready) => op.state = State::Delivered,
            _ => self.end(id, Outcome::Sent),
        }
    }

    /// The peer has got all that it wants of a send.
    pub(crate) fn on_done(&mut self, peer: PeerId, id: u64, sooner: u8) {
        self.peers[peer.0 as usize].announce.heard(sooner);
        self.peers[peer.0 as usize].is_answering = true;
        match self.ops.get_mut(id) {
            Some(op) if op.state.is_out() && op.state.needs() == Some(peer) => self.delivered(id),
            // Of another peer's send nothing is known here.
            _ if self.withdrawn.get(&id).is_some_and(|(to, _)| *to == peer) => drop(self.withdrawn.remove(&id)),
            _ => (),
        }
    }

    /// The next piece of bulk. Pieces are not made in advance, so the memory of a transfer does not grow with its
    /// length.
    pub(crate) fn next_bulk(&mut self) -> Option<Output> {
        for _ in 0..self.turns.len() {
            let peer = self.turns.pop_front()?;
            let p = &mut self.peers[peer.0 as usize];
            if p.hold.has(Hold::BACKLOGGED) {
                self.turns.push_back(peer);
                continue;
            }
            let chunk = p.chunk;
            while let Some(id) = p.bulk.pop_front() {
                let Some(Op { state: State::Sending(sending), .. }) = self.ops.get_mut(id) else {
                    continue;
                };
                let Sending { receiver_op, ranges, queued, .. } = &mut **sending;
                let Some((start, end)) = ranges.take_first(chunk) else {
                    *queued = false;
                    continue;
                };
                *queued = !ranges.is_empty();
                if *queued {
                    p.bulk.push_back(id);
                }
                self.turns.push_back(peer);
                let receiver_op = *receiver_op;
                return Some(Output::Bulk { peer, receiver_op, op: OpId(id), offset: start, len: end - start });
            }
            p.in_turn = false;
        }
        None
    }
}

/// Writes where the data of a send lies, as an RTS describes it. Nothing if it lies in more than `most` pieces.
fn describe<M: Memory>(mem: &M, id: u64, size: u64, most: usize, out: &mut Vec<u8>) {
    let Ok(len) = usize::try_from(size) else { return };
    if most == 0 || len == 0 {
        return;
    }
    mem.with_slices(id, 0, len, most, |pieces| {
        if pieces.iter().map(|p| p.len()).sum::<usize>() == len {
            Pieces::encode(pieces.iter().map(|piece| (piece.as_ptr() as u64, piece.len() as u64)), out);
        }
    });
}
