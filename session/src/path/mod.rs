//! The path: the reliable, ordered channel of one pair. Lanes below it die, come and are swapped; nothing is lost,
//! doubled or reordered.
//!
//! The session owns the paths: it queues what the engine puts out, asks `Path::next_tx` what goes on which lane next,
//! and hands in the frames that lanes deliver. Pure: no I/O, no clock; all state can be serialised. Invariant:
//! first-class bodies come out of the other side's `Path::on_frame` exactly once each, in the order in which they
//! went into [`Path::send`].
//!
//! Lanes are named by generation. At most one is *active*: it carries what is sent. Others may be *leaving*: they got,
//! or are about to get, a SWITCH as their last frame, and are read until the other side has left them too.

mod limits;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

use base::bytes::Malformed;
use base::{Memory, ProcId};
pub use limits::Limits;
#[cfg(feature = "plant")]
pub use limits::Plant;
use limits::{MOST, MOST_RETAINED};
use rx::RxHalf;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
pub(crate) use tx::BulkTx;
use tx::TxHalf;
use wire::frame::{AWAY, HEARD, Header, Kind, older};
use wire::lane::{Body, Caps, Lane, Payload, Sent, Unread};

/// The next frame for a lane.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    pub header: Header,
    pub payload: Payload<'a>,
}

/// What became of a frame that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was taken.
    Taken,
    /// It was dropped: it is not for this path as it is now (an old generation, or another process).
    Stale,
    /// It is BULK from this path's peer: the data may be asked for.
    Bulk,
    /// The other side has left the lane that this came on: see [`Path::retired`].
    Left,
    /// The other side goes away, and comes back by itself.
    Away,
    /// The other side has heard that this one goes away.
    Heard,
}

/// The lane that carries what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Active {
    generation: u16,
    caps: Caps,
}

/// A lane that is being left for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Leaving {
    generation: u16,
    /// What its last frame says.
    word: LastWord,
    lossy: bool,
    /// It has its SWITCH.
    marked: bool,
    /// The last sequence that may have gone on it.
    last: u64,
}

/// What the last frame on a lane says: SWITCH, by its `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LastWord {
    /// The generation of the lane that takes its place.
    Next(u16),
    /// This side gives up its lanes, and comes back by itself.
    Away,
    /// This side has heard that the other goes away.
    Heard,
}

impl LastWord {
    fn number(self) -> u64 {
        match self {
            LastWord::Next(generation) => generation.into(),
            LastWord::Away => AWAY,
            LastWord::Heard => HEARD,
        }
    }
}

/// The kind of frame that goes next.
#[derive(Clone, Copy)]
enum Choice {
    Switch(LastWord),
    /// A SWITCH that names its own lane: the move is over.
    Moved,
    Msg,
    Ack,
    Ping,
    Pong,
    Bulk,
}

/// The reliable, ordered channel of one pair. It outlives its lanes. Its fields are one thing: they say together what the
/// other side still lacks, and on which lane it goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Path {
    local: ProcId,
    remote: ProcId,
    limits: Limits,
    out: TxHalf,
    inc: RxHalf,
    active: Option<Active>,
    leaving: Vec<Leaving>,
    /// The last generation that was used.
    generation: u16,
    /// Frames of older generations are dropped.
    floor: u16,
    /// The lanes that the other side has left: nothing more comes on them.
    left: BTreeSet<u16>,
    /// Some lane of this path, now or before, could lose frames.
    lossy: bool,
    /// There was a [`Path::switch`], and all bodies are kept until they are acknowledged: those on different lanes may
    /// overtake each other. It ends once the other side has all.
    keeps_all: bool,
    /// The same of the other side, as far as it is known: its bodies are acknowledged, and taken out of order.
    other_keeps_all: bool,
    keep_alive: KeepAlive,
}

/// Questions for a sign of life (PING) and their answers (PONG), by number; 0: none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct KeepAlive {
    /// The number of the last question.
    last: u64,
    /// The question that is not answered yet.
    open: u64,
    /// The open question is still to be sent.
    ask: bool,
    /// The question of the other side that is to be answered.
    answer: u64,
}

impl KeepAlive {
    fn due(&self) -> bool {
        self.ask || self.answer != 0
    }

    /// Forgets what was under way on a lane that is gone.
    fn drop(&mut self) {
        *self = KeepAlive { last: self.last, ..KeepAlive::default() };
    }
}

impl Path {
    /// A path without a lane, with the default limits.
    pub(crate) fn new(local: ProcId, remote: ProcId) -> Path {
        Path::with_limits(local, remote, Limits::default())
    }

    /// As [`Path::new`], with these limits.
    pub(crate) fn with_limits(local: ProcId, remote: ProcId, limits: Limits) -> Path {
        Path {
            local,
            remote,
            limits,
            out: TxHalf::new(),
            inc: RxHalf::new(),
            active: None,
            leaving: Vec::new(),
            generation: 0,
            floor: 0,
            left: BTreeSet::new(),
            lossy: false,
            keeps_all: false,
            other_keeps_all: false,
            keep_alive: KeepAlive::default(),
        }
    }

    /// Our side.
    pub fn local(&self) -> ProcId {
        self.local
    }

    /// The other side.
    pub fn remote(&self) -> ProcId {
        self.remote
    }

    /// Queues a first-class body, of 1 byte to 1 MiB. It is kept until the other side has acknowledged it.
    pub fn send(&mut self, body: Vec<u8>) {
        debug_assert!(!body.is_empty() && body.len() <= wire::frame::MAX_PAYLOAD);
        self.out.push(body);
    }

    /// An empty vector with room for `len` bytes, for [`Path::send`]; made of one whose body was acknowledged, if there
    /// is any.
    pub(crate) fn spare(&mut self, len: usize) -> Vec<u8> {
        self.out.take_spare(len)
    }

    /// How many pieces of bulk wait for room on a lane.
    pub fn bulk_queued(&self) -> usize {
        self.out.bulk.len()
    }

    /// Queues a piece of bulk. It is forgotten when a lane is lost: then the receiver asks for it again.
    pub(crate) fn queue_bulk(&mut self, bulk: BulkTx) {
        debug_assert!(bulk.len > 0 && bulk.len as usize <= wire::frame::MAX_PAYLOAD);
        self.out.bulk.push_back(bulk);
    }

    // ---- snapshots

    /// Whether a path that was read from bytes is one that [`Path::detach`] can leave.
    pub(crate) fn is_sound(&self) -> bool {
        let lanes = self.active.is_some() || !self.leaving.is_empty() || !self.left.is_empty();
        let asks = &self.keep_alive;
        !lanes && self.out.is_sound() && self.inc.is_sound() && asks.open <= asks.last && asks.last < MOST
    }

    // ---- lanes

    /// The generation to offer in a HELLO. Both sides use the newer of the two offers.
    pub fn offered_generation(&self) -> u16 {
        self.generation.wrapping_add(1)
    }

    /// How many first-class bodies were received, for a HELLO.
    pub(crate) fn received(&self) -> u64 {
        self.inc.received
    }

    /// Whether [`Path::attach`] would accept what a handshake says.
    pub(crate) fn could_attach(&self, generation: u16, peer_received: u64) -> bool {
        !older(generation, self.offered_generation()) && peer_received <= self.out.last()
    }

    /// Takes a new lane into use. All older lanes count as lost. `peer_received` is the count of bodies that the other side
    /// said in the handshake: later bodies go (again) over the new lane.
    ///
    /// After an earlier lane was lost, tell the engine too (`on_lane_lost`), so that it asks for bulk again.
    ///
    /// `Err`: the handshake claims what cannot be; nothing has changed.
    pub(crate) fn attach(&mut self, generation: u16, caps: Caps, peer_received: u64) -> Result<(), Malformed> {
        if !self.could_attach(generation, peer_received) {
            return Err(Malformed);
        }
        // Acknowledgements may have overtaken the handshake, so an older count is ignored.
        if peer_received > self.out.acked {
            self.out.acknowledged(peer_received)?;
        }
        self.drop_lanes();
        self.floor = generation;
        (self.keeps_all, self.other_keeps_all) = (false, false);
        self.activate(generation, caps);
        Ok(())
    }

    /// Moves to a new lane while the old one lives: the old one gets a SWITCH and is read until the other side has
    /// left it too. Without an active lane this is [`Path::attach`] with no news of received bodies.
    ///
    /// `Err`: the generation was used before; nothing has changed.
    pub(crate) fn switch(&mut self, generation: u16, caps: Caps) -> Result<(), Malformed> {
        if older(generation, self.offered_generation()) {
            return Err(Malformed);
        }
        // Also without an old lane here: the other side may have left one that still carried something.
        (self.keeps_all, self.other_keeps_all) = (true, true);
        if let Some(old) = self.active.take() {
            let lossy = !old.caps.reliable;
            let last = self.out.cursor - 1;
            self.leaving.push(Leaving {
                generation: old.generation,
                word: LastWord::Next(generation),
                lossy,
                marked: false,
                last,
            });
            if lossy {
                // Nothing shows what it loses from here on.
                self.rewind();
            }
        }
        // Its answer is the end of the move.
        self.flush();
        // An open question is asked on the new lane.
        self.keep_alive.ask |= self.keep_alive.open != 0;
        self.activate(generation, caps);
        Ok(())
    }

    /// Gives up the active lane, with this as its last word; or says the same again. What it may have lost goes again over the
    /// next one.
    pub(crate) fn leave_with(&mut self, word: LastWord) {
        self.leaving.iter_mut().filter(|l| l.word == word).for_each(|l| l.marked = false);
        if let Some(old) = self.active.take() {
            let last = self.out.cursor - 1;
            let lossy = !old.caps.reliable;
            self.leaving.push(Leaving { generation: old.generation, word, lossy, marked: false, last });
            self.rewind();
            self.out.bulk.clear();
            self.keep_alive.drop();
        } else if let Some(left) = self.leaving.last().copied()
            && (left.word, word) == (LastWord::Away, LastWord::Heard)
        {
            // Both sides go away at a time: each hears of the other.
            self.leaving.push(Leaving { word, marked: false, ..left });
        }
    }

    /// Whether a last word is still to be said on a lane.
    pub(crate) fn has_word(&self) -> bool {
        self.leaving.iter().any(|l| !l.marked)
    }

    /// A lane is gone. What it may have lost goes again, over the active lane or over the next one.
    pub(crate) fn lane_lost(&mut self, generation: u16) {
        self.left.remove(&generation);
        if self.active.is_some_and(|a| a.generation == generation) {
            self.active = None;
            self.rewind();
            self.out.bulk.clear();
            self.keep_alive.drop();
        } else if let Some(left) = self.leaving.iter().find(|l| l.generation == generation).copied() {
            self.leaving.retain(|l| l.generation != generation);
            if self.out.acked < left.last {
                self.rewind();
            }
        }
    }

    /// For a snapshot: drops all lanes, and replaces the bodies for which `rewrite` gives another one.
    pub(crate) fn detach(&mut self, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        self.drop_lanes();
        self.out.rewrite(&rewrite);
        self.inc.rewrite(rewrite);
    }

    /// Replaces those of the bodies held out of order for which `rewrite` gives another one.
    pub(crate) fn rewrite_held(&mut self, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        self.inc.rewrite(rewrite);
    }

    /// Takes out a lane that both sides have left, and that may be closed. `is_read`: the other side has read all that
    /// this lane of ours has taken, which the acknowledgements do not say where nothing is retained.
    pub(crate) fn retired(&mut self, is_read: impl Fn(u16) -> bool) -> Option<u16> {
        let acked = self.out.acked;
        let is_over = |l: &Leaving| self.left.contains(&l.generation) && acked >= l.last && is_read(l.generation);
        let done = |l: &Leaving| l.marked && matches!(l.word, LastWord::Next(_)) && (l.lossy || is_over(l));
        let at = self.leaving.iter().position(done)?;
        let generation = self.leaving.remove(at).generation;
        self.left.remove(&generation);
        Some(generation)
    }

    /// The lane that carries what is sent.
    pub(crate) fn active(&self) -> Option<u16> {
        self.active.map(|a| a.generation)
    }

    /// Whether the active lane may lose frames without dying. (When such a lane is left, all that is not acknowledged goes
    /// again over the next one.)
    fn loses(&self) -> bool {
        self.active.is_some_and(|a| !a.caps.reliable)
    }

    fn activate(&mut self, generation: u16, caps: Caps) {
        self.generation = generation;
        self.lossy |= !caps.reliable;
        self.active = Some(Active { generation, caps });
        if self.out.flush {
            self.out.ask = true;
        }
    }

    fn rewind(&mut self) {
        #[cfg(feature = "plant")]
        if self.limits.plant == Plant::Loss {
            return;
        }
        self.out.rewind();
    }

    fn drop_lanes(&mut self) {
        self.active = None;
        self.leaving.clear();
        self.left.clear();
        self.rewind();
        self.out.bulk.clear();
        self.keep_alive.drop();
    }

    // ---- sending

    /// The next frame for this lane, if there is one. This changes nothing: call [`Path::taken`] when the lane has it.
    pub(crate) fn next_tx(&self, generation: u16) -> Option<Tx<'_>> {
        let choice = self.choose(generation)?;
        let mut header = Header { kind: Kind::Ack, a: 0, b: 0, ..self.next_msg(generation, 0) };
        let payload = match choice {
            Choice::Switch(word) => {
                header.kind = Kind::Switch;
                header.ack_now = true;
                header.a = word.number();
                Payload::Bytes(&[])
            }
            Choice::Moved => {
                header.kind = Kind::Switch;
                header.a = u64::from(generation);
                Payload::Bytes(&[])
            }
            Choice::Msg => {
                let body = self.out.body_at_cursor().expect("chosen because it is there");
                let last = self.out.cursor == self.out.last();
                header.kind = Kind::Msg;
                let kept = self.keeps(generation);
                header.ack_now = last && kept && (self.out.flush || self.loses() || self.retains_much());
                header.len = body.len() as u32;
                header.a = self.out.cursor;
                header.b = self.inc.received;
                Payload::Bytes(body)
            }
            Choice::Ack => {
                header.ack_now = self.out.ask;
                header.b = self.inc.received;
                Payload::Bytes(&[])
            }
            Choice::Ping | Choice::Pong => {
                let ask = matches!(choice, Choice::Ping);
                header.kind = if ask { Kind::Ping } else { Kind::Pong };
                header.a = if ask { self.keep_alive.open } else { self.keep_alive.answer };
                header.b = self.inc.received;
                Payload::Bytes(&[])
            }
            Choice::Bulk => {
                let bulk = self.out.bulk.front().expect("chosen because it is there");
                header.kind = Kind::Bulk;
                header.len = bulk.len;
                header.a = bulk.receiver_op;
                header.b = bulk.offset;
                Payload::User { buf: bulk.buf, offset: bulk.offset }
            }
        };
        Some(Tx { header, payload })
    }

    /// Whether there is a frame for this lane.
    #[inline]
    pub(crate) fn has_tx(&self, generation: u16) -> bool {
        self.choose(generation).is_some()
    }

    /// The lane took what [`Path::next_tx`] showed last for this generation.
    pub(crate) fn taken(&mut self, generation: u16) {
        match self.choose(generation) {
            Some(Choice::Switch(_)) => {
                let left = self.leaving.iter_mut().find(|l| l.generation == generation && !l.marked);
                left.expect("chosen because it is there").marked = true;
            }
            Some(Choice::Moved) => self.keeps_all = false,
            Some(Choice::Msg) => {
                if self.keeps(generation) {
                    self.out.cursor += 1;
                } else {
                    self.out.handed_over();
                }
                self.msg_taken(generation);
            }
            Some(Choice::Ack) => {
                self.out.ask = false;
                self.inc.ack_sent();
            }
            Some(Choice::Ping) => {
                self.keep_alive.ask = false;
                self.inc.ack_sent();
            }
            Some(Choice::Pong) => {
                self.keep_alive.answer = 0;
                self.inc.ack_sent();
            }
            Some(Choice::Bulk) => {
                self.out.bulk.pop_front();
            }
            None => {}
        }
    }

    /// A lane took a MSG, which carries an acknowledgement if the lane needs retention.
    #[inline]
    fn msg_taken(&mut self, generation: u16) {
        if self.needs_retention(generation) {
            self.inc.ack_sent();
        }
    }

    /// Whether bodies that go on this lane are kept until they are acknowledged. While a move is under way all are, since a
    /// body must not be freed before those that went on the lane that was left.
    fn keeps(&self, generation: u16) -> bool {
        self.keeps_all || self.needs_retention(generation)
    }

    /// Whether this lane may lose with it what it has taken: any lane but an active one that gives it back.
    fn needs_retention(&self, generation: u16) -> bool {
        !self.active.is_some_and(|a| a.generation == generation && !a.caps.needs_retention)
    }

    /// The header of the body at the cursor, of `len` bytes, if nothing has to be asked.
    #[inline(always)]
    fn next_msg(&self, generation: u16, len: usize) -> Header {
        Header {
            len: len as u32,
            kind: Kind::Msg,
            ack_now: false,
            generation,
            source: self.local,
            dest: self.remote,
            a: self.out.cursor,
            b: self.inc.received,
        }
    }

    /// Sends a first-class body of `len` bytes at once, if no other waits and the active lane needs no retention; it is
    /// written in place. Flush the lane afterwards. `false`: nothing has happened, use [`Path::send`].
    #[inline(always)]
    pub(crate) fn send_now<M: Memory>(&mut self, lane: &mut impl Lane<M>, len: usize, body: impl Body) -> bool {
        let Some(Active { generation, .. }) = self.active else { return false };
        if !self.out.retained.is_empty() || self.keeps(generation) {
            return false;
        }
        let taken = lane.try_send_by(|| self.next_msg(generation, len), body) == Sent::Taken;
        if taken {
            self.out.handed_over_directly();
        }
        taken
    }

    /// Sends a first-class body of `len` bytes at once on a lane that may lose it, if no other waits and nothing has to be asked. `true`: hand in
    /// the same body by [`Path::keep`] before anything else, but for a flush of the lane. `false`: nothing has happened, use [`Path::send`].
    pub(crate) fn send_ahead(&mut self, len: usize, hand: impl FnOnce(&Header) -> Sent) -> bool {
        let Some(active) = self.active else { return false };
        if self.out.cursor != self.out.last() + 1 || !self.goes_simply(active) {
            return false;
        }
        let taken = hand(&self.next_msg(active.generation, len)) == Sent::Taken;
        if taken {
            self.msg_taken(active.generation);
        }
        taken
    }

    /// Keeps a body that [`Path::send_ahead`] has sent.
    pub(crate) fn keep(&mut self, body: Vec<u8>) {
        self.out.push(body);
        self.out.cursor += 1;
    }

    /// Hands the active lane the body that [`Path::send`] got last, if nothing else is to go and nothing has to be asked. Flush the
    /// lane afterwards. `false`: nothing has happened, use [`Path::pump`].
    #[inline]
    pub(crate) fn hand_over_last<M: Memory>(&mut self, lane: &mut impl Lane<M>, mem: &M) -> bool {
        let Some(active) = self.active else { return false };
        if self.out.cursor != self.out.last() || !self.goes_simply(active) {
            return false;
        }
        let Some(body) = self.out.body_at_cursor() else { return false };
        let header = self.next_msg(active.generation, body.len());
        let taken = lane.try_send(mem, &header, Payload::Bytes(body)) == Sent::Taken;
        if taken {
            self.out.cursor += 1;
            self.msg_taken(active.generation);
        }
        taken
    }

    /// Whether a body goes on the active lane with a header that asks for nothing, and is kept.
    #[inline]
    fn goes_simply(&self, Active { generation, caps }: Active) -> bool {
        !self.out.flush && caps.reliable && self.keeps(generation) && !self.retains_much()
    }

    /// Keeps again what a lane without retention had taken and the other side may not have read. Call it before
    /// [`Path::lane_lost`].
    pub(crate) fn take_back(&mut self, unread: Unread) {
        self.out.take_back(unread.first, unread.bodies);
    }

    /// Hands the lane frames until it has no room.
    #[inline(always)]
    pub(crate) fn pump<M: Memory>(&mut self, generation: u16, lane: &mut (impl Lane<M> + ?Sized), mem: &M) {
        while let Some(tx) = self.next_tx(generation) {
            match lane.try_send(mem, &tx.header, tx.payload) {
                Sent::Taken => self.taken(generation),
                Sent::NoRoom => break,
            }
        }
    }

    /// Chooses first-class bodies before bulk, and an ACK of its own only when no MSG can carry it.
    fn choose(&self, generation: u16) -> Option<Choice> {
        if self.active.is_some_and(|a| a.generation == generation) {
            if self.out.cursor <= self.out.last() {
                Some(Choice::Msg)
            } else if self.inc.ack_due || self.out.ask {
                Some(Choice::Ack)
            } else if self.keep_alive.due() {
                Some(if self.keep_alive.answer != 0 { Choice::Pong } else { Choice::Ping })
            } else if !self.out.bulk.is_empty() {
                Some(Choice::Bulk)
            } else if self.keeps_all && self.has_moved(generation) {
                Some(Choice::Moved)
            } else {
                None
            }
        } else {
            let left = self.leaving.iter().find(|l| l.generation == generation && !l.marked)?;
            Some(Choice::Switch(left.word))
        }
    }

    /// Whether nothing of earlier lanes is left to be done, and the active one needs no retention.
    #[cold]
    fn has_moved(&self, generation: u16) -> bool {
        self.leaving.is_empty() && self.all_acknowledged() && !self.needs_retention(generation)
    }

    // ---- receiving

    /// Whether a frame is for this path as it is now. To be asked before BULK data is touched.
    pub(crate) fn accepts(&self, header: &Header) -> bool {
        header.source == self.remote && header.dest == self.local && !older(header.generation, self.floor)
    }

    /// Whether a MSG with this sequence is the next that is delivered.
    pub(crate) fn is_due(&self, header: &Header, sequence: u64) -> bool {
        self.accepts(header) && self.inc.is_due(sequence)
    }

    /// Takes in a frame (for BULK: its header). First-class bodies go to `deliver`, in order, once each.
    ///
    /// `Err`: the other side violates the protocol, so the lane must be given up.
    pub(crate) fn on_frame(
        &mut self,
        header: &Header,
        payload: &[u8],
        mut deliver: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<Seen, Malformed> {
        if !self.accepts(header) {
            return Ok(Seen::Stale);
        }
        match header.kind {
            Kind::Bulk => return Ok(Seen::Bulk),
            // A lane never hands it up.
            Kind::Lost => return Err(Malformed),
            Kind::Switch if header.a == AWAY => return Ok(Seen::Away),
            Kind::Switch if header.a == HEARD => return Ok(Seen::Heard),
            Kind::Switch => {
                let next = header.a as u16;
                if next == header.generation {
                    // Nothing is under way on an older lane, so on this one all comes in order from here on.
                    self.other_keeps_all &= self.active() != Some(next);
                    return Ok(Seen::Taken);
                }
                if !older(header.generation, next) {
                    return Err(Malformed);
                }
                let ours = |g| self.active() == Some(g) || self.leaving.iter().any(|l| l.generation == g);
                if ours(header.generation) {
                    self.left.insert(header.generation);
                }
                self.inc.ack_due = true;
                return Ok(Seen::Left);
            }
            Kind::Ack => self.out.acknowledged(header.b)?,
            Kind::Ping => {
                self.out.acknowledged(header.b)?;
                self.keep_alive.answer = header.a;
            }
            Kind::Pong => {
                self.out.acknowledged(header.b)?;
                // A late one answers a question that is closed already.
                if header.a == self.keep_alive.open {
                    (self.keep_alive.open, self.keep_alive.ask) = (0, false);
                }
            }
            Kind::Msg => {
                self.out.acknowledged(header.b)?;
                if self.out.retained.len() > MOST_RETAINED {
                    return Err(Malformed);
                }
                let next = self.inc.received + 1;
                let in_order = !self.lossy && !self.other_keeps_all && self.active() == Some(header.generation);
                if in_order && header.a > next {
                    return Err(Malformed);
                }
                let owed = self.other_keeps_all || self.needs_retention(header.generation);
                self.inc.take(header.a, payload, self.lossy, owed, &self.limits, &mut deliver)?;
            }
        }
        self.inc.ack_due |= header.ack_now;
        Ok(Seen::Taken)
    }

    /// As [`Path::on_frame`], for a MSG whose payload is where it belongs: if it is delivered, then first, and as if it were empty.
    pub(crate) fn on_placed(
        &mut self,
        header: &Header,
        deliver: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<Seen, Malformed> {
        let seen = self.on_frame(header, &[], deliver)?;
        self.inc.count(header.len as usize);
        Ok(seen)
    }

    /// Whether a MSG with this sequence and no acknowledgement, on a lane that was made for these processes and this generation, is the next
    /// body, and nothing is to be done but to deliver it and to call [`Path::delivered`]. So it is with most on a lane without retention.
    #[inline(always)]
    pub(crate) fn is_simply_next(&self, common: &Header, sequence: u64) -> bool {
        debug_assert!(common.source == self.remote && common.dest == self.local);
        let is_active = self.active.is_some_and(|a| a.generation == common.generation && !a.caps.needs_retention);
        is_active && self.inc.is_next(sequence) && !self.other_keeps_all && self.out.retained.is_empty()
    }

    /// The next body has been delivered. `ack_now`: the other side asks for an acknowledgement.
    #[inline(always)]
    pub(crate) fn delivered(&mut self, ack_now: bool) {
        self.inc.received += 1;
        self.inc.ack_due |= ack_now;
    }

    /// First-class bodies received and acknowledged, in all. If it grows, something has got through.
    pub(crate) fn got_through(&self) -> u64 {
        self.inc.received + self.out.acked
    }

    // ---- signs of life

    /// Asks the other side for a sign of life, which also acknowledges all that it has. While a question is open, the
    /// same one is sent again, for lanes that may lose it.
    pub(crate) fn ask(&mut self) {
        if self.keep_alive.open == 0 {
            self.keep_alive.last += 1;
            self.keep_alive.open = self.keep_alive.last;
        }
        self.keep_alive.ask = true;
    }

    /// Whether a question is open. It is forgotten when its lane is lost.
    pub(crate) fn is_asking(&self) -> bool {
        self.keep_alive.open != 0
    }

    // ---- time, bounds, the end

    /// Sends again what a lossy lane may have lost. To be called now and then; `now` is in milliseconds.
    pub(crate) fn on_tick(&mut self, now: u64) {
        if self.loses() {
            self.out.on_tick(now, self.limits.resend_after);
        }
    }

    /// How many bytes are kept until they are acknowledged.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.out.bytes
    }

    /// Whether the engine should hold back (`Engine::set_backlogged`).
    pub(crate) fn backlogged(&self) -> bool {
        self.retains_much() || self.out.bulk.len() >= self.limits.bulk_queue
    }

    fn retains_much(&self) -> bool {
        self.out.bytes > self.limits.retained_bytes || self.out.retained.len() > self.limits.retained_frames
    }

    /// Asks the other side to acknowledge everything at once.
    pub(crate) fn flush(&mut self) {
        if !self.all_acknowledged() {
            self.out.flush = true;
            // If bodies are still to go, the last of them carries the question.
            self.out.ask = self.out.cursor > self.out.last();
        }
    }

    /// The sequence of the last first-class body that was sent, and of the last that was acknowledged.
    pub fn sent_and_acknowledged(&self) -> (u64, u64) {
        (self.out.last(), self.out.acked)
    }

    /// How many first-class bodies the other side has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.out.retained.len()
    }

    /// Whether the other side has acknowledged all first-class bodies.
    pub(crate) fn all_acknowledged(&self) -> bool {
        self.out.retained.is_empty()
    }

    /// How many first-class frames came a second time and were dropped.
    pub fn repeated(&self) -> u64 {
        self.inc.repeated
    }
}
