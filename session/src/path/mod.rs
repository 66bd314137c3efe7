//! The channel of one pair of processes. Lanes come, go and are swapped under it; nothing is lost, doubled or
//! reordered.
//!
//! The node owns paths: it queues what the engine puts out, asks [`Path::next_tx`] what goes on which lane next, and
//! hands in what lanes deliver. Pure: no I/O, no clock; all state is serialisable. Invariant: first-class bodies come
//! out of the other side's [`Path::on_frame`] exactly once each, in the order in which they went into [`Path::send`].
//!
//! Lanes are named by generation. At most one is *active* (it carries what is sent); others may be *leaving*: they
//! got, or are about to get, a SWITCH as their last frame, and are read until the other side has left them too.

mod incoming;
mod limits;
mod outgoing;
#[cfg(test)]
mod tests;

use base::bytes::Malformed;
use base::{Memory, ProcId};
use incoming::Incoming;
pub use limits::Limits;
#[cfg(feature = "plant")]
pub use limits::Plant;
pub use outgoing::BulkTx;
use outgoing::Outgoing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wire::frame::{Header, Kind, older};
use wire::lane::{Caps, Lane, Payload, Sent, Unread};

/// What to put on a lane.
#[derive(Debug)]
pub struct Tx<'a> {
    pub header: Header,
    pub payload: Payload<'a>,
}

/// What a frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Taken,
    /// Not for this path as it is now (another generation, or another process): dropped.
    Stale,
    /// BULK from this path's peer: the data may be asked for.
    Bulk,
    /// The other side has left the lane that this came on: see [`Path::retired`].
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Active {
    generation: u16,
    caps: Caps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Leaving {
    generation: u16,
    next: u16,
    lossy: bool,
    marked: bool,
    /// The last sequence that may have gone on it.
    last: u64,
}

#[derive(Clone, Copy)]
enum Choice {
    Switch(u16),
    Msg,
    Ack,
    Ping,
    Pong,
    Bulk,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Path {
    local: ProcId,
    remote: ProcId,
    limits: Limits,
    out: Outgoing,
    inc: Incoming,
    active: Option<Active>,
    leaving: Vec<Leaving>,
    /// The last generation that was used.
    generation: u16,
    /// Frames of older generations are dropped.
    floor: u16,
    /// Lanes of ours that the other side has left: nothing more comes on them.
    left: BTreeSet<u16>,
    /// Some lane of this path could lose frames.
    lossy: bool,
    /// Since the last [`Path::attach`], there was a [`Path::switch`]: frames may overtake.
    switched: bool,
    signs: Signs,
}

/// Signs of life that are asked for, by their numbers; 0: none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Signs {
    /// Of the last question.
    last: u64,
    /// Asked, and not answered.
    open: u64,
    /// To be asked on the lane.
    ask: bool,
    /// To be answered.
    answer: u64,
}

impl Signs {
    fn due(&self) -> bool {
        self.ask || self.answer != 0
    }

    /// What was under way on a lane is gone with it.
    fn drop(&mut self) {
        *self = Signs { last: self.last, ..Signs::default() };
    }
}

impl Path {
    pub fn new(local: ProcId, remote: ProcId) -> Path {
        Path::with_limits(local, remote, Limits::default())
    }

    pub fn with_limits(local: ProcId, remote: ProcId, limits: Limits) -> Path {
        Path {
            local,
            remote,
            limits,
            out: Outgoing::new(),
            inc: Incoming::new(),
            active: None,
            leaving: Vec::new(),
            generation: 0,
            floor: 0,
            left: BTreeSet::new(),
            lossy: false,
            switched: false,
            signs: Signs::default(),
        }
    }

    pub fn local(&self) -> ProcId {
        self.local
    }

    pub fn remote(&self) -> ProcId {
        self.remote
    }

    /// Queues a first-class body (1 byte to 1 MiB). It is kept until the other side has it.
    pub fn send(&mut self, body: Vec<u8>) {
        debug_assert!(!body.is_empty() && body.len() <= wire::frame::MAX_PAYLOAD);
        self.out.push(body);
    }

    /// Memory for a body of `len` bytes to [`Path::send`], empty: that of one which was acknowledged, if there is some.
    pub fn spare(&mut self, len: usize) -> Vec<u8> {
        self.out.take_spare(len)
    }

    /// Pieces of second-class data that wait for room on a lane.
    pub fn bulk_queued(&self) -> usize {
        self.out.bulk.len()
    }

    /// Queues second-class data. It is forgotten when a lane is lost: the receiver asks again.
    pub fn queue_bulk(&mut self, bulk: BulkTx) {
        debug_assert!(bulk.len > 0 && bulk.len as usize <= wire::frame::MAX_PAYLOAD);
        self.out.bulk.push_back(bulk);
    }

    // ---- lanes

    /// The generation to offer in HELLO; both sides use the greater of the two offers.
    pub fn offered_generation(&self) -> u16 {
        self.generation.wrapping_add(1)
    }

    /// First-class bodies received, for HELLO.
    pub fn received(&self) -> u64 {
        self.inc.received
    }

    /// Whether [`Path::attach`] would take what a handshake says.
    pub fn could_attach(&self, generation: u16, peer_received: u64) -> bool {
        !older(generation, self.offered_generation()) && peer_received <= self.out.last()
    }

    /// A new lane is up and takes the place of whatever there was, which counts as lost. `peer_received` is what the
    /// other side said in the handshake: what follows goes (again) over the new lane.
    ///
    /// After an earlier lane was lost, tell the engine too (`on_lane_lost`), so that it asks for bulk again.
    pub fn attach(&mut self, generation: u16, caps: Caps, peer_received: u64) -> Result<(), Malformed> {
        if !self.could_attach(generation, peer_received) {
            return Err(Malformed);
        }
        // Acknowledgements may have overtaken the handshake: only what is news counts.
        if peer_received > self.out.acked {
            self.out.acknowledged(peer_received)?;
        }
        self.drop_lanes();
        self.floor = generation;
        self.switched = false;
        self.activate(generation, caps);
        Ok(())
    }

    /// Moves to a new lane while the old one lives: the old one gets a SWITCH and is read until the other side has
    /// left it too. Without an active lane this is an [`Path::attach`] that knows of nothing received.
    pub fn switch(&mut self, generation: u16, caps: Caps) -> Result<(), Malformed> {
        if older(generation, self.offered_generation()) {
            return Err(Malformed);
        }
        // Also if there is no old lane here: the other side may have left one that still carried something.
        self.switched = true;
        if let Some(old) = self.active.take() {
            let lossy = !old.caps.reliable;
            let last = self.out.cursor - 1;
            self.leaving.push(Leaving { generation: old.generation, next: generation, lossy, marked: false, last });
            if lossy {
                // Nobody would notice what it loses from here on.
                self.rewind();
            }
        }
        self.activate(generation, caps);
        Ok(())
    }

    /// A lane is gone. What it may have lost goes again over the active lane, or over the next one.
    pub fn lane_lost(&mut self, generation: u16) {
        self.left.remove(&generation);
        if self.active.is_some_and(|a| a.generation == generation) {
            self.active = None;
            self.rewind();
            self.out.bulk.clear();
            self.signs.drop();
        } else if let Some(at) = self.leaving.iter().position(|l| l.generation == generation) {
            let left = self.leaving.remove(at);
            if self.out.acked < left.last {
                self.rewind();
            }
        }
    }

    /// All lanes are gone.
    pub fn lanes_lost(&mut self) {
        self.drop_lanes();
    }

    /// For a snapshot: no lane is left, and bodies for which `rewrite` gives another one are replaced by that.
    pub fn detach(&mut self, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        self.drop_lanes();
        self.out.rewrite(&rewrite);
        self.inc.rewrite(rewrite);
    }

    /// Bodies that have come before their turn, and for which `rewrite` gives another one, are replaced by that.
    pub fn rewrite_held(&mut self, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        self.inc.rewrite(rewrite);
    }

    /// A lane that both sides have left and that may be closed.
    pub fn retired(&mut self) -> Option<u16> {
        let acked = self.out.acked;
        let done = |l: &Leaving| l.marked && (l.lossy || (self.left.contains(&l.generation) && acked >= l.last));
        let at = self.leaving.iter().position(done)?;
        let generation = self.leaving.remove(at).generation;
        self.left.remove(&generation);
        Some(generation)
    }

    /// The lane that carries what is sent.
    pub fn active(&self) -> Option<u16> {
        self.active.map(|a| a.generation)
    }

    /// Whether bulk may get lost without any lane being lost. Then, when `Engine::bulk_missing` stands still, the node
    /// has the engine ask again (`on_lane_lost`), but only once [`Path::flush`] has led to
    /// [`Path::all_acknowledged`], or questions would pile up.
    pub fn lossy(&self) -> bool {
        self.lossy
    }

    /// Whether the active lane may lose frames without dying. (Leaving one that does sends all that is not
    /// acknowledged again, so a reliable lane makes good for it.)
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
        self.signs.drop();
    }

    // ---- sending

    /// What goes on this lane next, if anything. Looking changes nothing; say [`Path::taken`] when the lane has it.
    pub fn next_tx(&self, generation: u16) -> Option<Tx<'_>> {
        let mut header = Header {
            len: 0,
            kind: Kind::Ack,
            ack_now: false,
            generation,
            source: self.local,
            dest: self.remote,
            a: 0,
            b: 0,
        };
        let choice = self.choose(generation)?;
        let payload = match choice {
            Choice::Switch(next) => {
                header.kind = Kind::Switch;
                header.ack_now = true;
                header.a = u64::from(next);
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
                header.a = if ask { self.signs.open } else { self.signs.answer };
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

    /// Whether there is something for this lane.
    #[inline]
    pub fn has_tx(&self, generation: u16) -> bool {
        self.choose(generation).is_some()
    }

    /// The lane took what [`Path::next_tx`] showed last for this generation.
    pub fn taken(&mut self, generation: u16) {
        match self.choose(generation) {
            Some(Choice::Switch(_)) => {
                let left = self.leaving.iter_mut().find(|l| l.generation == generation && !l.marked);
                left.expect("chosen because it is there").marked = true;
            }
            Some(Choice::Msg) => {
                if self.keeps(generation) {
                    self.out.cursor += 1;
                } else {
                    self.out.handed_over();
                }
                self.inc.ack_sent();
            }
            Some(Choice::Ack) => {
                self.out.ask = false;
                self.inc.ack_sent();
            }
            Some(Choice::Ping) => {
                self.signs.ask = false;
                self.inc.ack_sent();
            }
            Some(Choice::Pong) => {
                self.signs.answer = 0;
                self.inc.ack_sent();
            }
            Some(Choice::Bulk) => {
                self.out.bulk.pop_front();
            }
            None => {}
        }
    }

    /// Whether what goes on this lane is kept until it is acknowledged. After a [`Path::switch`] all is: what follows must
    /// not be let go before what went on the lane that was left.
    fn keeps(&self, generation: u16) -> bool {
        self.switched || !self.active.is_some_and(|a| a.generation == generation && !a.caps.needs_retention)
    }

    /// Sends a first-class body at once, if the active lane is one on which nothing need be kept, and nothing waits before
    /// it: `fill` writes it in place. Then flush the lane. Otherwise nothing has happened: [`Path::send`] it.
    pub fn send_now<M: Memory>(
        &mut self,
        lane: &mut (impl Lane<M> + ?Sized),
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let Some(Active { generation, .. }) = self.active else { return false };
        if !self.out.retained.is_empty() || self.keeps(generation) {
            return false;
        }
        let header = Header {
            len: len as u32,
            kind: Kind::Msg,
            ack_now: false,
            generation,
            source: self.local,
            dest: self.remote,
            a: self.out.cursor,
            b: self.inc.received,
        };
        let taken = lane.try_send_with(&header, fill) == Sent::Taken;
        if taken {
            self.out.handed_over_directly();
            self.inc.ack_sent();
        }
        taken
    }

    /// What a lane had taken that needs no retention, and the other side may not have read: to be said before
    /// [`Path::lane_lost`].
    pub fn take_back(&mut self, unread: Unread) {
        self.out.take_back(unread.first, unread.bodies);
    }

    /// Gives the lane all it takes.
    #[inline(always)]
    pub fn pump<M: Memory>(&mut self, generation: u16, lane: &mut (impl Lane<M> + ?Sized), mem: &M) {
        while let Some(tx) = self.next_tx(generation) {
            match lane.try_send(mem, &tx.header, tx.payload) {
                Sent::Taken => self.taken(generation),
                Sent::NoRoom => break,
            }
        }
    }

    /// First class before second; an ACK of its own only when no MSG can carry it.
    fn choose(&self, generation: u16) -> Option<Choice> {
        if self.active.is_some_and(|a| a.generation == generation) {
            if self.out.cursor <= self.out.last() {
                Some(Choice::Msg)
            } else if self.inc.ack_due || self.out.ask {
                Some(Choice::Ack)
            } else if self.signs.due() {
                Some(if self.signs.answer != 0 { Choice::Pong } else { Choice::Ping })
            } else if !self.out.bulk.is_empty() {
                Some(Choice::Bulk)
            } else {
                None
            }
        } else {
            let left = self.leaving.iter().find(|l| l.generation == generation && !l.marked)?;
            Some(Choice::Switch(left.next))
        }
    }

    // ---- receiving

    /// Whether a frame is for this path as it is now. Lanes' sinks ask before they touch BULK data.
    pub fn accepts(&self, header: &Header) -> bool {
        header.source == self.remote && header.dest == self.local && !older(header.generation, self.floor)
    }

    /// A frame came (for BULK: its header). First-class bodies go to `deliver`, in order, once each.
    pub fn on_frame(
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
            // Lanes keep it to themselves.
            Kind::Lost => return Err(Malformed),
            Kind::Switch => {
                let next = header.a as u16;
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
                self.signs.answer = header.a;
            }
            Kind::Pong => {
                self.out.acknowledged(header.b)?;
                // One that comes late answers nothing.
                if header.a == self.signs.open {
                    (self.signs.open, self.signs.ask) = (0, false);
                }
            }
            Kind::Msg => {
                self.out.acknowledged(header.b)?;
                let next = self.inc.received + 1;
                let in_order = !self.lossy && !self.switched && self.active() == Some(header.generation);
                if in_order && header.a > next {
                    return Err(Malformed);
                }
                let owed = self.keeps(header.generation);
                self.inc.take(header.a, payload, self.lossy, owed, &self.limits, &mut deliver)?;
            }
        }
        self.inc.ack_due |= header.ack_now;
        Ok(Seen::Taken)
    }

    /// First-class bodies that have come, or are known to have: more of them mean that something got through.
    pub fn got_through(&self) -> u64 {
        self.inc.received + self.out.acked
    }

    // ---- signs of life

    /// Asks the other side for a sign of life, which also acknowledges all that it has. Asked again before it has
    /// answered, the same question goes once more: for lanes that may lose it.
    pub fn ask(&mut self) {
        if self.signs.open == 0 {
            self.signs.last += 1;
            self.signs.open = self.signs.last;
        }
        self.signs.ask = true;
    }

    /// Whether the last question is not answered yet. With its lane, a question is gone.
    pub fn is_asking(&self) -> bool {
        self.signs.open != 0
    }

    // ---- time, bounds, the end

    /// Call now and then with a clock in milliseconds: frames that a lossy lane may have lost go again.
    pub fn on_tick(&mut self, now: u64) {
        if self.loses() {
            self.out.on_tick(now, self.limits.resend_after);
        }
    }

    pub fn retained_bytes(&self) -> usize {
        self.out.bytes
    }

    /// The engine should hold back (`Engine::set_backlogged`).
    pub fn backlogged(&self) -> bool {
        self.retains_much() || self.out.bulk.len() >= self.limits.bulk_queue
    }

    fn retains_much(&self) -> bool {
        self.out.bytes > self.limits.retained_bytes || self.out.retained.len() > self.limits.retained_frames
    }

    /// For Finalize: ask the other side to acknowledge everything at once.
    pub fn flush(&mut self) {
        if !self.all_acknowledged() {
            self.out.flush = true;
            // Otherwise the last frame itself carries the question.
            self.out.ask = self.out.cursor > self.out.last();
        }
    }

    /// The sequence of the last first-class body that was given to us, and of the last that the other side has.
    pub fn sent_and_acknowledged(&self) -> (u64, u64) {
        (self.out.last(), self.out.acked)
    }

    /// First-class bodies that the other side has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.out.retained.len()
    }

    pub fn all_acknowledged(&self) -> bool {
        self.out.retained.is_empty()
    }

    /// First-class frames that came again and were dropped.
    pub fn repeated(&self) -> u64 {
        self.inc.repeated
    }
}
