//! What of the messages belongs to a cut: the state of one process at its checkpoint. Part of the engine.
//!
//! Messages to a peer are numbered from 1, in the order in which they leave; both sides count the same without a word
//! between them. A cut has how many have left and how many have come, the sends that are pending, and the messages that have come
//! and that the program has not. Any two cuts of two processes make a line: what was sent before the one and did not reach the
//! program before the other is late, and comes from the images; what reached the program before it was sent is early, and is
//! not sent again ([`Engine::resume`]).
//!
//! Invariant: nothing is noted, and no message costs more, before [`Engine::track`].

use crate::arrived::{Arrived, Body};
use crate::kept::{CutOf, Kept, Resume};
use crate::state::{Got, Hold, Resuming, State};
use crate::wire::Head;
use crate::{ContextId, Ctx, Engine, Mode, OpId, Outcome, Output, PeerId, Source};
use base::Memory;
use std::collections::BTreeMap;

impl Engine {
    /// From now on it is noted which message an operation has, so that [`Engine::cut`] can be called later.
    pub fn track(&mut self) {
        self.tracking.get_or_insert_default();
    }

    /// The numbers of the last message that was sent to a peer, and of the last that came from it.
    pub(crate) fn counts(&self, peer: PeerId) -> (u64, u64) {
        let p = &self.peers[peer.0 as usize];
        let (skipping, expecting) = p.resume.as_ref().map_or((None, None), |resume| {
            (resume.skipping.map(|(next, _)| next - 1), resume.is_expecting().then_some(resume.arrived))
        });
        let sent = skipping.unwrap_or_else(|| p.numbered.0.wrapping_add(p.spending.spent().0));
        (sent, expecting.unwrap_or_else(|| p.numbered.1.wrapping_add(p.granting.arrived().0)))
    }

    /// The number of the message that has just come from a peer.
    #[cold]
    fn number_arrival(&mut self, peer: PeerId) -> u64 {
        let resume = self.peers[peer.0 as usize].resume.as_mut();
        let number = resume.and_then(|resume| resume.next_number()).unwrap_or_else(|| self.counts(peer).1);
        if let Some(tracking) = &mut self.tracking {
            tracking.number = number;
        }
        number
    }

    /// A message has just come from a peer for an open inter-communicator, or `None`. Takes the receive that it matches out of the
    /// posted queue, as [`Engine::arrived`](crate::Engine) does where nothing is noted.
    #[cold]
    pub(crate) fn arrived_numbered(&mut self, peer: PeerId, ctx: Option<Ctx>, head: &Head) -> Option<(u64, u64)> {
        let number = self.number_arrival(peer);
        let taken = ctx.and_then(|ctx| {
            if self.is_limited() {
                return self.take_posted(ctx, head.source, head.tag, number);
            }
            self.contexts[ctx.0 as usize].as_mut()?.posted.take(head.source, head.tag)
        });
        if let Some((op, _)) = taken {
            self.note_got(op, peer, head.source, number, head.context);
        }
        self.drop_resume(peer);
        taken
    }

    /// The number of the message that came last, from any peer.
    pub(crate) fn last_number(&self) -> u64 {
        self.tracking.as_ref().map_or(0, |tracking| tracking.number)
    }

    /// A receive has got the message of this number.
    #[cold]
    pub(crate) fn note_got(&mut self, op: u64, peer: PeerId, source: u32, number: u64, context: ContextId) {
        self.note_choice(op, peer, source, number);
        if let Some(tracking) = &mut self.tracking {
            tracking.got.insert(op, Got { peer, number, context });
        }
    }

    /// The last message that was sent to a peer is that of a send which is not complete.
    #[cold]
    pub(crate) fn note_left(&mut self, op: u64, peer: PeerId) {
        let number = self.counts(peer).0;
        if let Some(tracking) = &mut self.tracking {
            // One that is sent again has its number already.
            if tracking.left.get(op).is_none() {
                tracking.left.insert(op, number);
            }
        }
    }

    /// Drops what is noted of operations that are no more.
    fn prune(&mut self) {
        let Some(tracking) = &mut self.tracking else { return };
        let ops = &self.ops;
        let is_open =
            |at: &(u64, ContextId)| self.groups.get(&at.0).is_some_and(|group| group.open.contains_key(&at.1));
        tracking.wild.ops.retain(|op, (at, _)| is_open(&at) && ops.get(op).is_some_and(|op| !op.forgotten));
        tracking.wild.posted.retain(|at, _| is_open(at));
        tracking.got.retain(|op, _| ops.get(op).is_some_and(|op| !op.forgotten));
        tracking
            .left
            .retain(|op, _| ops.get(op).is_some_and(|op| op.state.is_out() || matches!(op.state, State::Queued(_))));
    }

    /// The cut of this moment, by peer. [`Engine::track`] was called before any message.
    ///
    /// A receive whose outcome was not fetched counts as not posted, and its message as not received; a pending send counts as
    /// sent.
    pub fn cut<M: Memory>(&mut self, mem: &M) -> BTreeMap<PeerId, CutOf> {
        self.prune();
        let mut cut: BTreeMap<PeerId, CutOf> = BTreeMap::new();
        for (at, live) in self.peers_in_use().into_iter().enumerate() {
            let peer = PeerId(at as u32);
            if live && !self.peers[at].only_control {
                let (sent, arrived) = self.counts(peer);
                cut.insert(peer, CutOf { sent, arrived, ..CutOf::default() });
            }
        }
        let mut keep = |peer: PeerId, number: u64, kept: Option<Kept>| {
            if let Some(of) = cut.get_mut(&peer) {
                match kept {
                    Some(kept) => of.kept.push(kept),
                    None => drop(of.lacking.insert(number)),
                }
            }
        };
        for (context, message) in self.unexpected() {
            keep(message.peer, message.number, kept(context, message));
        }
        for (op, got) in self.tracking.iter().flat_map(|tracking| tracking.got.iter()) {
            match self.ops.get(op).map(|op| &op.state) {
                Some(State::Pulling(_)) => keep(got.peer, got.number, None),
                Some(State::Over(_)) => {
                    if let Some(kept) = self.kept_of(mem, op, &got) {
                        keep(got.peer, got.number, Some(kept));
                    }
                }
                _ => {}
            }
        }
        for (peer, of) in &mut cut {
            if let Some(resume) = &self.peers[peer.0 as usize].resume {
                debug_assert!(resume.line.wanted.is_empty(), "a program goes on when its messages are there");
                of.lacking.extend(&resume.line.lacking);
            }
            of.kept.sort_by_key(|kept| kept.number);
        }
        for (op, number) in self.tracking.iter().flat_map(|tracking| tracking.left.iter()) {
            let peer = self.ops.get(op).and_then(|op| op.state.needs());
            if let Some(of) = peer.and_then(|peer| cut.get_mut(&peer)) {
                of.leaving.extend(self.leaving(mem, op, number));
            }
        }
        let noted = |op| self.tracking.as_ref().and_then(|tracking| tracking.left.get(op));
        for (peer, of) in &mut cut {
            let is_queued = |op: &&u64| matches!(self.ops.get(**op).map(|op| &op.state), Some(State::Queued(_)));
            for op in self.peers[peer.0 as usize].waiting.iter().filter(is_queued) {
                match noted(*op) {
                    // One that is sent again after a restart has its number, and is with those above.
                    Some(number) => of.sent = of.sent.max(number),
                    None => {
                        of.sent += 1;
                        of.leaving.extend(self.leaving(mem, *op, of.sent));
                    }
                }
            }
        }
        cut.values_mut().for_each(|of| of.leaving.sort_by_key(|leaving| leaving.number));
        cut
    }

    /// All messages that no receive has got, with their inter-communicators.
    fn unexpected(&self) -> impl Iterator<Item = (ContextId, &Arrived)> {
        let open = self.contexts.iter().flatten();
        let open = open.flat_map(|open| open.unexpected.iter().map(|message| (open.context, message)));
        let early = self.groups.values().flat_map(|group| &group.early);
        let early = early.flat_map(|(context, messages)| messages.iter().map(|message| (*context, message)));
        // A claim's inter-communicator may be closed, and then no receive at a restart can ask for its message.
        let claimed = self.claimed.values().filter_map(|claimed| {
            let open = self.contexts.get(claimed.ctx.0 as usize)?.as_ref()?;
            Some((open.context, &claimed.message))
        });
        open.chain(early).chain(claimed)
    }

    /// The message of a receive that is complete, and whose outcome was not fetched.
    fn kept_of<M: Memory>(&self, mem: &M, op: u64, got: &Got) -> Option<Kept> {
        let (source, tag, size, whole) = match self.ops.get(op)?.state {
            State::Over(Outcome::Received(envelope)) => (envelope.source, envelope.tag, envelope.size, envelope.size),
            State::Over(Outcome::Truncated { source, tag, size, whole }) => (source, tag, size, whole),
            _ => return None,
        };
        let mut data = packed(mem, op, size);
        // What no buffer had room for is not there; that the message was longer is.
        data.resize(whole as usize, 0);
        Some(Kept { number: got.number, context: got.context, source, tag, note: Vec::new(), data })
    }

    /// The message of a pending send.
    fn leaving<M: Memory>(&self, mem: &M, id: u64, number: u64) -> Option<Kept> {
        let op = self.ops.get(id)?;
        let (ctx, tag, size) = match &op.state {
            State::Queued(to) | State::Announced(to) => (to.ctx, to.tag, to.size),
            State::Sending(sending) => {
                let (context, tag) = sending.at?;
                let group = self.groups.get(&self.peers[sending.peer.0 as usize].group)?;
                (*group.open.get(&context)?, tag, sending.size)
            }
            // An eager message has left whole; and no message can be sent to an inter-communicator that is closed.
            _ => return None,
        };
        let context = self.contexts.get(ctx.0 as usize)?.as_ref()?;
        let note = op.more.as_ref().map_or(Vec::new(), |more| more.note.clone());
        Some(Kept { number, context: context.context, source: context.rank, tag, note, data: packed(mem, id, size) })
    }

    // ---- the log

    /// From now on, or no longer, each message that comes is put out as [`Output::Logged`] when it is whole.
    pub fn log(&mut self, on: bool) {
        if let Some(tracking) = &mut self.tracking {
            tracking.is_logging = on;
        }
    }

    pub(crate) fn is_logging(&self) -> bool {
        self.tracking.as_ref().is_some_and(|tracking| tracking.is_logging)
    }

    /// Logs an eager message that came last from a peer.
    #[cold]
    pub(crate) fn log_eager(&mut self, peer: PeerId, note: &[u8], head: &Head, data: &[u8]) {
        let (number, note, data) = (self.last_number(), note.to_vec(), data.to_vec());
        let kept = Kept { number, context: head.context, source: head.source, tag: head.tag, note, data };
        self.out.push_back(Output::Logged { peer, kept: Box::new(kept) });
    }

    /// The message of a receive has become whole just now: its data is in the buffer.
    #[inline]
    pub(crate) fn log_whole(&mut self, peer: PeerId, op: u64) {
        if self.is_logging() {
            self.out.push_back(Output::Whole { peer, op: OpId(op) });
        }
    }

    /// The message of an [`Output::Whole`]. `None`: its receive is no more.
    pub fn whole<M: Memory>(&self, mem: &M, op: OpId) -> Option<Kept> {
        let got = self.tracking.as_ref()?.got.get(op.0)?;
        self.kept_of(mem, op.0, &got)
    }

    // ---- the restart

    /// Begins where a cut was, at a peer with which nothing was exchanged. Its inter-communicators may be open already, or be
    /// opened later. The messages of the images can be received when [`Engine::is_resumed`], and not before.
    pub fn resume(&mut self, peer: PeerId, resume: Resume) {
        let Resume { sent, again: (lacking, late), arrived, line } = resume;
        let (skipping, wanted) = ((sent.0 < sent.1).then_some((sent.0 + 1, sent.1)), line.wanted.len() as u64);
        let (sent, arrived) = (sent.0.max(sent.1), arrived.0.max(arrived.1));
        let p = &mut self.peers[peer.0 as usize];
        p.numbered =
            (sent.wrapping_sub(lacking.len() as u64 + late), arrived.wrapping_sub(wanted + line.lacking.len() as u64));
        p.hold.set(Hold::SKIPPING, skipping.is_some());
        p.resume = Some(Box::new(Resuming { skipping, lacking, arrived, line, came: Vec::new() }));
        if wanted > 0 {
            // No receive makes room for them before all have come.
            p.granting.lend(wanted);
            self.tell_credit(peer);
        }
        self.give_kept(peer);
    }

    /// Sends a message of the own image that the peer wants, from the buffer of `op`. Call it for one after the other by number,
    /// before the program goes on.
    pub fn send_again<M: Memory>(&mut self, mem: &M, op: OpId, ctx: Ctx, dest: u32, leaving: &Kept) {
        if let Some(tracking) = &mut self.tracking {
            tracking.left.insert(op.0, leaving.number);
        }
        let Some(peer) = self.sources(ctx, Source::Rank(dest)).next() else { return };
        // These come before those that the program sends, and are not skipped.
        let p = &mut self.peers[peer.0 as usize];
        let skipping = p.hold.has(Hold::SKIPPING);
        p.hold.set(Hold::SKIPPING, false);
        let (tag, size) = (leaving.tag, leaving.data.len() as u64);
        self.send_noted(mem, op, ctx, dest, tag, size, (Mode::Standard, leaving.note.clone()));
        self.peers[peer.0 as usize].hold.set(Hold::SKIPPING, skipping);
    }

    /// Whether all messages that the image of a peer gives have come.
    pub fn is_resumed(&self, peer: PeerId) -> bool {
        self.peers[peer.0 as usize].resume.as_ref().is_none_or(|resume| resume.line.wanted.is_empty())
    }

    /// Whether a message that no receive has got waits, at a restart, for those of the images, whose numbers are about its own.
    pub(crate) fn awaits_others(&self, peer: PeerId, number: u64) -> bool {
        self.peers[peer.0 as usize]
            .resume
            .as_ref()
            .is_some_and(|resume| !resume.line.kept.is_empty() || !resume.came.is_empty() || number <= resume.arrived)
    }

    /// Puts such a message with those that have come before.
    #[cold]
    pub(crate) fn put_with_others(&mut self, peer: PeerId, context: ContextId, message: Arrived) {
        if let Some(resume) = &mut self.peers[peer.0 as usize].resume {
            resume.came.push((context, message));
            self.give_kept(peer);
        }
    }

    /// Lets receives find the messages of the images, once all are there.
    fn give_kept(&mut self, peer: PeerId) {
        let p = &mut self.peers[peer.0 as usize];
        let Some(resume) = p.resume.as_mut().filter(|resume| resume.line.wanted.is_empty()) else { return };
        let kept = std::mem::take(&mut resume.line.kept).into_iter().map(|kept| arrived(kept, peer));
        let mut all: Vec<_> = kept.chain(std::mem::take(&mut resume.came)).collect();
        let group = p.group;
        all.sort_by_key(|(_, message)| message.number);
        for (context, message) in all {
            self.put_unexpected(group, context, message);
        }
        self.drop_resume(peer);
    }

    /// Forgets a restart of which nothing is left to be done.
    fn drop_resume(&mut self, peer: PeerId) {
        let resume = &mut self.peers[peer.0 as usize].resume;
        if resume.as_ref().is_some_and(|resume| resume.is_over()) {
            *resume = None;
        }
    }

    /// Whether a send that is about to leave has reached the other side's program already. If so, it is over.
    #[cold]
    pub(crate) fn skip(&mut self, peer: PeerId, id: u64) -> bool {
        let p = &mut self.peers[peer.0 as usize];
        let Some(resume) = &mut p.resume else { return false };
        let Some((number, last)) = resume.skipping else { return false };
        resume.skipping = (number < last).then_some((number + 1, last));
        p.hold.set(Hold::SKIPPING, number < last);
        if resume.lacking.remove(&number) {
            if let Some(tracking) = &mut self.tracking {
                tracking.left.insert(id, number);
            }
            return false;
        }
        self.drop_resume(peer);
        self.delivered(id);
        true
    }
}

/// The first packed bytes of the buffer of an operation.
fn packed<M: Memory>(mem: &M, op: u64, size: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(size as usize);
    if size > 0 {
        mem.read(op, 0, size as usize, &mut data);
    }
    data
}

/// A message that has come. `None`: its data has not.
fn kept(context: ContextId, message: &Arrived) -> Option<Kept> {
    let Body::Eager { data, .. } = message.body.plain() else { return None };
    let note = if let Body::Noted(noted) = &message.body { noted.0.clone() } else { Vec::new() };
    let (source, tag, data) = (message.source, message.tag, data.to_vec());
    Some(Kept { number: message.number, context, source, tag, note, data })
}

/// A message of an image, as one that has come from a peer.
fn arrived(kept: Kept, peer: PeerId) -> (ContextId, Arrived) {
    let Kept { number, context, source, tag, note, data } = kept;
    let body = Body::Eager { notify: false, data: data.into() }.with_note(&note);
    (context, Arrived { peer, source, tag, op: 0, number, free: true, body })
}
