//! Messages between engine, paths and lanes: what has arrived goes up, what the engine puts out goes down.
//!
//! Part of the session. Nothing here blocks. Invariant: after [`Session::settle`], the lanes have all that they had
//! room for, and the driver is told of every lane without room.

use crate::action::Action;
use crate::leaders::still_missing;
use crate::path::{BulkTx, Path, Seen};
use crate::state::Session;
use crate::state::pair::{Link, Pair, Up};
use base::Memory;
use base::bytes::Malformed;
use engine::{Ctx, EagerHead, Engine, Envelope, Gone, Mode, OpId, Output, PeerId, Readable};
use std::io::{self, IoSliceMut};
use wire::frame::{Header, Kind};
use wire::lane::{Body, Event, Lane, Payload, Sent, Sink};

/// The bytes that are read from one lane before the next one gets its turn.
pub(crate) const BUDGET: usize = 1 << 20;
/// The most pieces of user memory in one read.
const PIECES: usize = 256;
/// A buffer of no more pieces is filled by the kernel with what is left of an eager message.
const FEW_PIECES: usize = 4;
/// A longer message is handed to the lane where the program has it: some lanes write it from there.
const AHEAD: usize = 4 << 10;
/// So many bytes of data lie in a cache line together with their head, where a lane over shared memory writes one.
const SHORTEST: usize = base::protocol::shared::UNIT - size_of::<u64>() - EagerHead::BYTES;
/// How many turns all pairs get to write before lanes are read again.
const TURNS: usize = 8;

/// The result of reading a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Received {
    /// How many bytes came.
    pub bytes: usize,
    /// The lane is dead: report it to [`Session::lane_died`].
    pub dead: bool,
    /// No more has happened than that messages with data came: nothing is to be written for them, and no time limit has begun.
    pub plain: bool,
}

/// What became of a message that was to be sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SentNow {
    /// Nothing has changed: begin an operation.
    No,
    /// The lane has it, and nothing else has changed.
    Taken,
    /// The path has it.
    Kept,
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    // ---- up

    /// Reads what has come on a pair's lanes, up to some 1 MiB, and hands it to the engine; but no more than a receive without an operation
    /// needs, if nothing else is waited for.
    pub fn receive(&mut self, i: usize) -> Received {
        let nothing = Received { bytes: 0, dead: false, plain: true };
        let Some(mut pair) = self.pairs.get_mut(i) else { return nothing };
        let mut left = 0;
        if !pair.leaving.is_empty() {
            left = self.receive_leaving(i, BUDGET);
            pair = &mut self.pairs[i];
        }
        let (Link::Up(up) | Link::Gone { last: Some(up), .. }) = &mut pair.link else { return nothing };
        let generation = up.generation;
        let mut sink = Upward::new(&mut self.engine, &mut self.mem, &mut pair.path, pair.peer);
        sink.stops = true;
        let bytes = up.lane.poll_to(&mut sink, BUDGET) + left;
        let words = sink.words;
        self.bytes_in += bytes as u64;
        if bytes > 0 {
            up.brought = up.brought.saturating_add(1);
            pair.evidence.tries = 0;
        }
        let event = up.lane.event();
        // Where both sides go away at a time, the other one has still to hear that it was heard.
        let dead = event == Some(Event::Dead) || words.heard && !words.away && !pair.path.has_word();
        let is_plain = !words.other && !pair.backlogged && left == 0 && !self.engine.has_output();
        if is_plain && event.is_none() && !self.engine.has_trouble() {
            return Received { bytes, dead, plain: true };
        }
        if !dead && bytes > 0 && (pair.backlogged || pair.path.has_tx(generation) || !pair.leaving.is_empty()) {
            // An acknowledgement may be due, or may have made room.
            self.mark(i);
        }
        if words.away {
            self.goes_away(i);
        }
        if words.heard {
            self.has_heard(i);
        }
        if self.engine.has_trouble() {
            self.look_for_bye(i);
        }
        match event {
            Some(Event::BulkLost) => self.bulk_lost(i),
            // No descriptor may tell of it.
            Some(Event::Writable) => self.mark(i),
            _ => (),
        }
        Received { bytes, dead, plain: false }
    }

    /// Whether [`Session::receive`] would find nothing, as far as the lane of this pair tells that at little cost.
    #[inline(always)]
    pub fn is_quiet(&mut self, i: usize) -> bool {
        match self.pairs.get_mut(i) {
            Some(Pair { link: Link::Up(up), leaving, .. }) => leaving.is_empty() && up.lane.is_quiet(),
            _ => false,
        }
    }

    /// Reads one lane of a pair. Returns how many bytes came.
    pub(crate) fn read_lane(&mut self, i: usize, up: &mut Up<L>, budget: usize) -> usize {
        let pair = &mut self.pairs[i];
        let mut sink = Upward::new(&mut self.engine, &mut self.mem, &mut pair.path, pair.peer);
        up.lane.poll(&mut sink, budget)
    }

    /// Looks whether the BYE of this pair was among what has come.
    #[cold]
    fn look_for_bye(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if pair.gone().is_none() && self.engine.gone(pair.peer) == Some(Gone::Finished) {
            base::log!(Info, "{} has finalized", pair.remote());
            pair.set_gone(Gone::Finished);
            self.agenda.leaving.insert(i);
        }
    }

    /// Counts bytes that the driver has read itself, by a pull, as brought by lanes.
    pub fn count_read(&mut self, bytes: usize) {
        self.bytes_in += bytes as u64;
    }

    /// Bytes that lanes have brought, in all.
    #[inline]
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    // ---- down

    /// Says that there may be something to write for this pair; [`Session::settle`] looks.
    #[inline]
    pub fn mark(&mut self, i: usize) {
        if let Some(pair) = self.pairs.get_mut(i)
            && !pair.dirty
        {
            pair.dirty = true;
            self.agenda.dirty.push(i);
        }
    }

    /// Whether some pair may have something to write.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.agenda.dirty.is_empty()
    }

    /// Hands what the engine has put out to the paths, and what these have to the lanes, as far as they have room.
    #[inline(always)]
    pub fn settle(&mut self) {
        if !self.is_settled() {
            self.settle_all();
        }
    }

    /// Whether [`Session::settle`] has nothing to do.
    #[inline(always)]
    pub fn is_settled(&self) -> bool {
        self.agenda.dirty.is_empty() && !self.engine.has_output()
    }

    fn settle_all(&mut self) {
        for _ in 0..TURNS {
            self.put_out_all();
            if self.agenda.dirty.is_empty() {
                return;
            }
            let spare = std::mem::take(&mut self.agenda.spare);
            let mut turn = std::mem::replace(&mut self.agenda.dirty, spare);
            for i in turn.drain(..) {
                self.pairs[i].dirty = false;
                self.write(i);
            }
            self.agenda.spare = turn;
        }
        // Marks what the last turn has made room for, since no event would follow for it.
        self.put_out_all();
    }

    fn put_out_all(&mut self) {
        while let Some(output) = self.engine.next_output() {
            self.put_out(output);
        }
    }

    fn put_out(&mut self, output: Output) {
        match output {
            Output::Control { peer, bytes } => self.put_control(peer, bytes),
            Output::Credit { peer, bytes } if self.keeps_credit(peer) => {
                self.pairs[peer.0 as usize].path.send(bytes);
                self.agenda.credit.push(peer.0 as usize);
            }
            Output::Message { peer, bytes } | Output::Credit { peer, bytes } => self.send_message(peer, bytes),
            Output::Asked { peer } => self.act(Action::Asked { peer }),
            Output::Told { peer, bytes } => self.act(Action::Told { peer, bytes }),
            Output::Noted { op, note, .. } => self.act(Action::Note { op, note }),
            Output::Logged { peer, kept } => self.act(Action::Log { pair: peer.0 as usize, kept }),
            Output::Whole { peer, op } => {
                if let Some(kept) = self.engine.whole(&self.mem, op) {
                    self.act(Action::Log { pair: peer.0 as usize, kept: Box::new(kept) });
                }
            }
            Output::Chosen { peer, context, ordinal, source, number, .. } => {
                self.act(Action::Chosen { pair: peer.0 as usize, context, ordinal, source, number });
            }
            Output::Get { peer, op, pieces, size, .. } => {
                if self.reaches_memory(peer) {
                    self.act(Action::Get { peer, op, pieces, size });
                } else {
                    self.engine.ask_for_rest(op);
                }
            }
            Output::Put { peer, op, receiver_op, offset, pieces } => {
                if self.reaches_memory(peer) {
                    self.act(Action::Put { peer, op, receiver_op, offset, pieces });
                } else {
                    self.engine.put_over(peer, receiver_op, false);
                }
            }
            Output::Bulk { peer, receiver_op, op, offset, len } => {
                let bulk = BulkTx { receiver_op, buf: op.0, offset, len: len as u32 };
                self.pairs[peer.0 as usize].path.queue_bulk(bulk);
                self.has_queued(peer.0 as usize);
            }
        }
    }

    /// Sends a message of the engine: at once if the lane takes it, and else when the pair has its turn.
    #[inline(always)]
    fn send_message(&mut self, peer: PeerId, bytes: impl AsRef<[u8]> + Into<Vec<u8>>) {
        let i = peer.0 as usize;
        let pair = &mut self.pairs[i];
        if let Link::Up(up) | Link::Gone { last: Some(up), .. } = &mut pair.link {
            let body = bytes.as_ref();
            let fill = |at, to: &mut [u8]| to.copy_from_slice(&body[at..][..to.len()]);
            if pair.path.send_now::<M>(&mut up.lane, body.len(), fill) {
                if !up.lane.flush(&self.mem) || up.waiting != 0 || !self.is_written(i) {
                    self.mark(i);
                }
                return;
            }
        }
        pair.path.send(bytes.into());
        self.has_queued(i);
    }

    /// A pair's path has something to send.
    fn has_queued(&mut self, i: usize) {
        if self.pairs[i].lane().is_none() {
            self.look_soon(i);
        }
        self.mark(i);
        self.update_backlog(i);
    }

    /// Starts a send whose data lies at an address in one piece, if it is announced and its RTS can leave now: see
    /// [`Engine::start_announced`]. False: nothing has changed.
    #[inline]
    pub fn announce_now(&mut self, op: OpId, to: (Ctx, u32, i64), (at, size): (u64, u64), mode: Mode) -> bool {
        let Some((peer, rts)) = self.engine.start_announced(op, to, (at, size), mode) else { return false };
        self.send_message(peer, rts);
        true
    }

    /// A message is received that was read from the memory of its sender, which is told: see [`Engine::take_read`].
    #[inline]
    pub fn take_read(&mut self, message: Readable) -> Option<Envelope> {
        let (envelope, done) = self.engine.take_read(message)?;
        self.send_message(message.peer, done);
        Some(envelope)
    }

    /// Whether this process can reach the peer's memory.
    fn reaches_memory(&self, peer: PeerId) -> bool {
        self.pairs[peer.0 as usize].lane().is_some_and(|up| up.lane.caps().get)
    }

    /// Whether credit for this peer should go with the next message, which costs less than a frame of its own: so it is on a lane whose
    /// frames go by system calls, and are kept.
    fn keeps_credit(&self, peer: PeerId) -> bool {
        self.pairs[peer.0 as usize].lane().is_some_and(|up| up.lane.caps().needs_retention)
    }

    /// Whether credit waits for a message that it can go with.
    #[inline(always)]
    pub fn has_credit(&self) -> bool {
        !self.agenda.credit.is_empty()
    }

    /// Has the credit go that has waited for a message. To be called before lanes are read: until then the program may have sent one.
    #[inline]
    pub fn send_credit(&mut self) {
        while let Some(i) = self.agenda.credit.pop() {
            self.mark(i);
        }
    }

    /// Puts a CONTROL message of a leader into its inbox.
    fn put_control(&mut self, peer: PeerId, bytes: Vec<u8>) {
        let i = peer.0 as usize;
        if self.hear_of_ranges(i, &bytes) || self.hear_contact(i, &bytes) || self.hear_of_checkpoints(i, &bytes) {
            return;
        }
        if !self.has_control_room(i, bytes.len()) {
            return self.says_too_much(i);
        }
        let pair = &mut self.pairs[i];
        if let Some(caller) = &mut pair.caller {
            caller.offer_missing = still_missing(caller.offer_missing, &bytes);
        }
        if !pair.inbox.put(bytes) {
            base::log_seldom!(Error, "a leader says more than anyone listens to: dropped");
        }
        // The caller hands out what the engine puts out for this.
        self.refuse_late(i);
    }

    /// Tells the engine if the path has become backlogged, or is so no more.
    fn update_backlog(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        let backlogged = pair.path.backlogged();
        if backlogged != pair.backlogged {
            pair.backlogged = backlogged;
            self.engine.set_backlogged(&self.mem, pair.peer, backlogged);
        }
    }

    /// Hands a pair's lane what is ready for it, as far as it has room.
    pub fn write(&mut self, i: usize) {
        if !self.pairs[i].leaving.is_empty() {
            self.write_leaving(i);
        }
        let pair = &mut self.pairs[i];
        if let Link::Up(up) | Link::Gone { last: Some(up), .. } = &mut pair.link {
            let before = up.lane.written();
            pair.path.pump(up.generation, &mut up.lane, &self.mem);
            let done = up.lane.flush(&self.mem);
            let mut is_writable = false;
            self.bytes_out += up.lane.written() - before;
            if !done {
                // Some failures show only in a write, and no event follows; so does room that was made meanwhile.
                match up.lane.event() {
                    Some(Event::Dead) => return self.act(Action::Died { pair: i }),
                    Some(Event::BulkLost) => return self.bulk_lost(i),
                    Some(Event::Writable) => is_writable = true,
                    None => (),
                }
            }
            let more = !done || pair.path.has_tx(up.generation);
            // The driver is told only of changes.
            let waiting = if more { up.lane.waiting() } else { 0 };
            if waiting != up.waiting {
                up.waiting = waiting;
                self.act(Action::Rearm { pair: i });
            }
            if is_writable || more && waiting == 0 {
                self.mark(i);
            }
        }
        self.update_backlog(i);
    }

    /// Sends a message in standard mode, to the rank and with the tag in `to`, if it is small enough to be complete at
    /// once: no operation is needed. `pack` writes the data into the lane's memory, or else `read` appends it to a copy
    /// that the path keeps; `run` is where the data is, if that is contiguous. `size` is in bytes.
    #[inline(always)]
    pub fn send_now<'a>(
        &mut self,
        to: (Ctx, u32, i64),
        size: u64,
        pack: impl Fn(u64, &mut [u8]),
        read: impl FnOnce(usize, &mut Vec<u8>),
        run: impl FnOnce() -> Option<&'a [u8]>,
    ) -> SentNow {
        let (ctx, dest, tag) = to;
        let Some((peer, head)) = self.engine.start_eager(ctx, dest, tag, size, Mode::Standard) else {
            return SentNow::No;
        };
        let (i, size) = (peer.0 as usize, size as usize);
        let pair = &mut self.pairs[i];
        if let Link::Up(up) = &mut pair.link {
            // The shortest are told apart here, so that no more is inlined than they need, and their head never has to lie in memory.
            let taken = if size <= SHORTEST {
                pair.path.send_now::<M>(&mut up.lane, EagerHead::BYTES + size, EagerBody(&head, &pack))
            } else {
                // A copy of its head alone.
                send_longer::<L, M>(&mut pair.path, &mut up.lane, &{ head }, size, &pack)
            };
            if taken {
                up.lane.flush(&self.mem);
                return SentNow::Taken;
            }
        }
        self.send_begun(i, &head, size, (&pack, read, run));
        SentNow::Kept
    }

    /// Sends a message of `size` bytes whose credit is spent where the lane may lose it, has no room, or is still to come.
    #[inline(never)]
    fn send_begun<'a>(
        &mut self,
        i: usize,
        head: &EagerHead,
        size: usize,
        (pack, read, run): (
            &impl Fn(u64, &mut [u8]),
            impl FnOnce(usize, &mut Vec<u8>),
            impl FnOnce() -> Option<&'a [u8]>,
        ),
    ) {
        let len = EagerHead::BYTES + size;
        if self.pairs[i].lane().is_some() {
            let sent = if size <= AHEAD {
                let mut body = EagerBody(head, pack);
                self.send_ahead(i, len, |lane, _, header| lane.try_send_with(header, &mut |at, to| body.fill(at, to)))
            } else if let Some(data) = run() {
                let head = head.bytes();
                self.send_ahead(i, len, |lane, mem, header| lane.try_send(mem, header, Payload::Joined(&head, data)))
            } else {
                None
            };
            if let Some(done) = sent {
                let path = &mut self.pairs[i].path;
                let mut body = path.spare(len);
                body.extend_from_slice(&head.bytes());
                read(size, &mut body);
                path.keep(body);
                if !done || !self.is_written(i) {
                    self.write(i);
                }
                return;
            }
        }
        let pair = &mut self.pairs[i];
        let mut body = pair.path.spare(len);
        body.extend_from_slice(&head.bytes());
        read(size, &mut body);
        pair.path.send(body);
        if !self.write_last(i) {
            if self.pairs[i].lane().is_none() {
                self.look_soon(i);
            }
            self.write(i);
        }
    }

    /// Hands a body to a lane that may lose it, before it is kept: so the other side has it sooner. Credit that has waited for a message goes
    /// in front of it. Returns whether all is written; keep the body at once.
    #[inline(never)]
    fn send_ahead(&mut self, i: usize, len: usize, hand: impl FnOnce(&mut L, &M, &Header) -> Sent) -> Option<bool> {
        let pair = &mut self.pairs[i];
        let Link::Up(up) = &mut pair.link else { return None };
        if !pair.leaving.is_empty() || up.waiting != 0 {
            return None;
        }
        let before = up.lane.written();
        if self.agenda.credit.contains(&i) {
            pair.path.pump(up.generation, &mut up.lane, &self.mem);
        }
        if !pair.path.send_ahead(len, |header| hand(&mut up.lane, &self.mem, header)) {
            return None;
        }
        let done = up.lane.flush(&self.mem);
        self.bytes_out += up.lane.written() - before;
        Some(done)
    }

    /// Whether [`Session::write`] has nothing to do for what was sent last.
    fn is_written(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        let has_tx = pair.lane().is_some_and(|up| pair.path.has_tx(up.generation));
        !has_tx && pair.leaving.is_empty() && pair.path.backlogged() == pair.backlogged
    }

    /// Does all that [`Session::write`] does where the body that was sent last is all that waits for the lane, and the lane takes it.
    fn write_last(&mut self, i: usize) -> bool {
        let pair = &mut self.pairs[i];
        let Link::Up(up) = &mut pair.link else { return false };
        if !pair.leaving.is_empty() || up.waiting != 0 {
            return false;
        }
        let before = up.lane.written();
        if !pair.path.hand_over_last(&mut up.lane, &self.mem) {
            return false;
        }
        let done = up.lane.flush(&self.mem);
        self.bytes_out += up.lane.written() - before;
        done && self.is_written(i)
    }
}

/// The part of [`Session::send_now`] for all but the shortest.
#[inline(never)]
fn send_longer<L: Lane<M>, M: Memory>(
    path: &mut Path,
    lane: &mut L,
    head: &EagerHead,
    size: usize,
    pack: &impl Fn(u64, &mut [u8]),
) -> bool {
    path.send_now::<M>(lane, EagerHead::BYTES + size, EagerBody(head, pack))
}

/// Where a lane delivers: frames go through the path to the engine, bulk goes straight into the user's buffer.
struct Upward<'a, M> {
    engine: &'a mut Engine,
    mem: &'a mut M,
    path: &'a mut Path,
    peer: PeerId,
    words: Words,
    /// Whether reading may stop before the lane is empty: see [`Sink::is_content`].
    stops: bool,
}

/// The head of an eager message, and what writes its data.
struct EagerBody<'a, P>(&'a EagerHead, &'a P);

impl<P: Fn(u64, &mut [u8])> Body for EagerBody<'_, P> {
    #[inline(always)]
    fn fill(&mut self, at: usize, to: &mut [u8]) {
        let EagerBody(head, pack) = self;
        match at.checked_sub(EagerHead::BYTES) {
            Some(at) => pack(at as u64, to),
            None => {
                if let Some((first, rest)) = to.split_first_chunk_mut() {
                    head.write(first);
                    pack(0, rest);
                }
            }
        }
    }
}

/// The last words of the other side on a lane.
#[derive(Clone, Copy, Default)]
struct Words {
    /// Something that is no message, or a message that is to be acknowledged.
    other: bool,
    /// It goes away.
    away: bool,
    /// It has heard that this side does.
    heard: bool,
}

impl<'a, M> Upward<'a, M> {
    fn new(engine: &'a mut Engine, mem: &'a mut M, path: &'a mut Path, peer: PeerId) -> Upward<'a, M> {
        Upward { engine, mem, path, peer, words: Words::default(), stops: false }
    }

    /// Where the payload of a MSG belongs from `at` on: the buffer, the offset there, and how many bytes; `None` if it is not wanted there.
    fn rest_of(&self, header: &Header, at: usize) -> Option<(OpId, u64, usize)> {
        let (offset, len) = (at.checked_sub(EagerHead::BYTES)? as u64, header.len as usize - at);
        let op =
            self.path.is_due(header, header.a).then(|| self.engine.rest_wanted(self.peer, offset, len as u64))??;
        Some((op, offset, len))
    }

    /// Where so many bytes of a BULK frame's payload from `at` on belong, if they are wanted: the receive, and the offset in its message.
    fn bulk_of(&self, header: &Header, at: usize, len: usize) -> Option<(u64, u64)> {
        let (op, offset) = (self.engine.bulk_op(self.peer, header.a)?, header.b + at as u64);
        let is_wanted = self.path.accepts(header) && self.engine.bulk_wanted(self.peer, op, offset, len as u64);
        is_wanted.then_some((op, offset))
    }
}

impl<M: Memory> Sink for Upward<'_, M> {
    #[inline(always)]
    fn on_msg(&mut self, common: &Header, sequence: u64, ack_now: bool, payload: &[u8]) -> Result<(), Malformed> {
        if !self.path.is_simply_next(common, sequence) {
            let len = payload.len() as u32;
            return self.on_frame(&Header { len, kind: Kind::Msg, ack_now, a: sequence, b: 0, ..*common }, payload);
        }
        self.words.other |= ack_now;
        self.engine.on_message(self.mem, self.peer, payload)?;
        self.path.delivered(ack_now);
        Ok(())
    }

    /// A receive without an operation has its message: its caller goes on before anything else is read. A lane that is left is read to its end, since
    /// nobody rings for it once more.
    #[inline(always)]
    fn is_content(&self) -> bool {
        self.stops && self.engine.is_content()
    }

    fn has_answer(&self) -> bool {
        self.stops && self.engine.has_answers()
    }

    #[inline(never)]
    fn on_part(&mut self, header: &Header, sequence: u64, part: &[u8], total: u64) {
        if self.path.is_due(header, sequence) {
            self.engine.on_part(self.mem, self.peer, part, total);
        }
    }

    fn wants_rest(&mut self, header: &Header, at: usize) -> bool {
        // Many small pieces are written sooner from a message that is here as a whole.
        let covered = |pieces: &mut [IoSliceMut<'_>]| pieces.iter().map(|p| p.len()).sum::<usize>();
        self.rest_of(header, at).is_some_and(|(op, offset, len)| {
            self.mem.with_slices_mut(op.0, offset, len, FEW_PIECES, |pieces| covered(pieces)) == len
        })
    }

    fn on_rest(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let (op, offset, len) = self.rest_of(header, at)?;
        let done = self.mem.with_slices_mut(op.0, offset, len, PIECES, |pieces| read(pieces));
        if let Ok(n @ 1..) = done {
            self.engine.on_rest(self.peer, n as u64);
        }
        Some(done)
    }

    fn on_placed(&mut self, header: &Header) -> Result<bool, Malformed> {
        let (engine, mem, peer) = (&mut *self.engine, &mut *self.mem, self.peer);
        self.words.other = true;
        let (mut is_first, mut is_there) = (true, true);
        let seen = self.path.on_placed(header, |body| {
            if !std::mem::take(&mut is_first) {
                return engine.on_message(mem, peer, body);
            }
            is_there = engine.on_placed(mem, peer)?;
            if is_there { Ok(()) } else { Err(Malformed) }
        });
        if is_there { seen.map(|_| true) } else { Ok(false) }
    }

    #[inline(never)]
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        let (engine, mem, peer) = (&mut *self.engine, &mut *self.mem, self.peer);
        self.words.other = true;
        match self.path.on_frame(header, payload, |body| engine.on_message(mem, peer, body))? {
            Seen::Away => self.words.away = true,
            Seen::Heard => self.words.heard = true,
            _ => (),
        }
        Ok(())
    }

    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let len = header.len as usize - at;
        let (op, offset) = self.bulk_of(header, at, len)?;
        let done = self.mem.with_slices_mut(op, offset, len, PIECES, |pieces| read(pieces));
        if let Ok(n @ 1..) = done {
            self.engine.on_bulk(self.peer, op, offset, n as u64);
        }
        Some(done)
    }

    fn on_bulk_bytes(&mut self, header: &Header, at: usize, bytes: &[u8]) {
        if let Some((op, offset)) = self.bulk_of(header, at, bytes.len()) {
            self.mem.write(op, offset, bytes);
            self.engine.on_bulk(self.peer, op, offset, bytes.len() as u64);
        }
    }
}
