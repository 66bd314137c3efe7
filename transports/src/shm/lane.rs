//! A lane over shared memory.
//!
//! Made from the [`Parts`] that a handshake leaves. What it takes is with the other side at once, in memory that lives as
//! long as either process: so nothing is kept until it is acknowledged, and what the other side has not read when the lane
//! dies can be taken back ([`Lane::unread`]). Fields of a header that follow from the lane are not written: processes,
//! generation, the sequence of a MSG (each is one more than the last), and what is acknowledged.

use super::board;
use super::hello::Parts;
use super::peek::Readable;
use super::ring::{Consumer, Frame, Plan, Popped, Producer};
use crate::transport::Watched;
use base::bytes::Malformed;
use base::protocol::frame::{ACK, BULK, MSG, PING, PONG, SWITCH};
use base::protocol::shared::{
    ACK_NOW, DIRECT, INDEX, LANE_END, OTHER_INDEX, ROOM as DATA, SEQUENCE, SLOT, SLOTS, SLOTS_AT,
};
use base::{BufId, Memory, ProcId};
use std::os::fd::{AsFd, BorrowedFd};
use wire::frame::{Header, Kind};
use wire::lane::Death;
use wire::lane::{Caps, Event, Lane, Payload, Sent, Sink, Unread};

/// Bulk goes in pieces of this size, so that one side writes while the other reads.
pub const CHUNK: usize = 32 << 10;

const LOW: usize = 256 << 10;
/// Bytes of a lane's memory: 2 MiB and a little, of which only what is used is ever there.
pub const MEMORY: usize = LANE_END;

/// Where one direction lies: 0 is from the dialling side. Also where its receiver says that it looks by itself.
fn plan(direction: usize) -> (Plan, usize) {
    let slots = SLOTS as usize * SLOT;
    let words = (OTHER_INDEX - INDEX) * direction;
    let plan = Plan {
        index: INDEX + words,
        slots_at: SLOTS_AT + slots * direction,
        slots: SLOTS,
        data_at: SLOTS_AT + 2 * slots + DATA * direction,
        data: DATA,
        low: LOW,
    };
    (plan, DIRECT + words)
}

/// Bulk that was taken and is not written yet.
#[derive(Clone, Copy)]
struct Rest {
    header: Header,
    buf: BufId,
    /// In the buffer.
    offset: u64,
    left: usize,
}

pub struct ShmLane {
    parts: Parts,
    out: Producer,
    inc: Consumer,
    /// Where the receiver of what we send, and where we, say that one looks by itself.
    direct: usize,
    own_direct: usize,
    generation: u16,
    local: ProcId,
    remote: ProcId,
    /// The sequence that the next MSG has if nothing else is said, in either direction.
    next_out: u64,
    next_in: u64,
    rest: Option<Rest>,
    /// Something was published since the other side was last told.
    untold: bool,
    /// The other side has gone; what it has published is still to be read.
    closed: bool,
    death: Option<Death>,
    told_death: bool,
    refused: bool,
    quiet: bool,
    written: u64,
}

impl ShmLane {
    pub fn new(parts: Parts, local: ProcId, remote: ProcId, generation: u16) -> ShmLane {
        let (there, back) = (plan(usize::from(!parts.dialled)), plan(usize::from(parts.dialled)));
        ShmLane {
            parts,
            out: Producer::new(there.0),
            inc: Consumer::new(back.0),
            direct: there.1,
            own_direct: back.1,
            generation,
            local,
            remote,
            next_out: 0,
            next_in: 0,
            rest: None,
            untold: false,
            closed: false,
            death: None,
            told_death: false,
            refused: false,
            quiet: false,
            written: 0,
        }
    }

    /// Whether there is something to read: one word is looked at.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.inc.has_input(&self.parts.memory)
    }

    /// Whether there was no room, and still is none.
    pub fn is_stuck(&self) -> bool {
        self.out.is_stuck(&self.parts.memory)
    }

    /// Whether we look at this lane by ourselves, so that the other side need not say that something has come. To be
    /// looked at once more after a no.
    pub fn set_direct(&self, yes: bool) {
        board::set_direct(&self.parts.memory, self.own_direct, yes);
    }

    /// The other side's process, if we can read its memory.
    pub fn reader(&self) -> Option<Readable> {
        self.parts.theirs.readable
    }

    /// The number of the other side's process, if it has one for us.
    pub fn peer(&self) -> Option<i32> {
        self.parts.connection.peer().ok().filter(|pid| *pid > 0)
    }

    fn reads(&self) -> bool {
        self.parts.theirs.readable.is_some()
    }

    /// Publishes a frame, if there is room.
    #[inline]
    fn put(&mut self, header: &Header, fill: impl FnOnce(&mut [u8])) -> bool {
        let memory = &self.parts.memory;
        let mut frame = Frame::new(header.kind as u8 | if header.ack_now { ACK_NOW } else { 0 });
        let fields = match header.kind {
            Kind::Msg => {
                if header.a != self.next_out {
                    let news = Frame { tag: SEQUENCE, fields: [header.a, 0] };
                    if !self.out.push(memory, news, 1, 0, |_| ()) {
                        return false;
                    }
                    self.next_out = header.a;
                }
                0
            }
            Kind::Ack => {
                frame.fields[0] = header.b;
                1
            }
            Kind::Switch => {
                frame.fields[0] = header.a;
                1
            }
            Kind::Lost => unreachable!("only a lane of streams says it, for itself"),
            Kind::Bulk | Kind::Ping | Kind::Pong => {
                frame.fields = [header.a, header.b];
                2
            }
        };
        if !self.out.push(memory, frame, fields, header.len as usize, fill) {
            return false;
        }
        if header.kind == Kind::Msg {
            self.next_out += 1;
        }
        self.written += u64::from(header.len) + SLOT as u64;
        self.untold = true;
        true
    }

    /// Goes on with bulk that was taken; whether nothing is left of it.
    fn put_rest<M: Memory>(&mut self, mem: &M) -> bool {
        while let Some(mut rest) = self.rest {
            let n = rest.left.min(CHUNK);
            let piece = Header { len: n as u32, ..rest.header };
            // Of memory that is gone, zeros: nobody reads them.
            let fill = |to: &mut [u8]| {
                let n = mem.fill(rest.buf, rest.offset, to);
                to[n..].fill(0);
            };
            if !self.put(&piece, fill) {
                return false;
            }
            rest.left -= n;
            rest.offset += n as u64;
            rest.header.b += n as u64;
            self.rest = (rest.left > 0).then_some(rest);
        }
        true
    }

    /// Tells the other side of what was published, if it would not see it by itself.
    #[inline]
    fn tell(&mut self) {
        if std::mem::take(&mut self.untold) {
            self.ring();
        }
    }

    fn ring(&self) {
        let theirs = &self.parts.theirs;
        if board::ring(&theirs.board, theirs.bit, &self.parts.memory, self.direct, theirs.fences) {
            // No room in a counter: then it is awake. No other side: then nobody needs it.
            let _ = nix::unistd::write(&theirs.bell, &1u64.to_ne_bytes());
        }
    }

    /// Delivers what is there, about `budget` bytes; gives how many, and whether nothing was left.
    fn deliver(&mut self, sink: &mut dyn Sink, budget: usize) -> (usize, bool) {
        let mut read = 0;
        while read < budget {
            let (generation, source, dest, next) = (self.generation, self.remote, self.local, &mut self.next_in);
            let taken = self.inc.pop(&self.parts.memory, |frame, body| {
                let header = header_of(frame, body.len(), next)?.map(|h| Header { generation, source, dest, ..h });
                match header {
                    None => (),
                    Some(header) if header.kind == Kind::Bulk => sink.on_bulk_bytes(&header, 0, body),
                    Some(header) => sink.on_frame(&header, body)?,
                }
                Ok(body.len() + SLOT)
            });
            match taken {
                Ok(Popped::Nothing) => return (read, true),
                Ok(Popped::Frame(n)) => read += n,
                // Now there is room.
                Ok(Popped::Asked) => self.ring(),
                Err(Malformed) => {
                    self.death = Some(Death::Malformed);
                    return (read, false);
                }
            }
        }
        (read, false)
    }

    fn refuse(&mut self) -> Sent {
        self.refused = true;
        Sent::NoRoom
    }

    fn takes(&self) -> bool {
        self.death.is_none() && !self.quiet && self.rest.is_none()
    }

    fn done(&mut self, taken: bool) -> Sent {
        if taken { Sent::Taken } else { self.refuse() }
    }
}

/// What the lane left out of a header; `None`: the frame is for the lane alone.
fn header_of(frame: &Frame, len: usize, next: &mut u64) -> Result<Option<Header>, Malformed> {
    let [x, y] = frame.fields;
    let (kind, a, b) = match frame.tag & !ACK_NOW {
        MSG => {
            let sequence = *next;
            *next = sequence.wrapping_add(1);
            (Kind::Msg, sequence, 0)
        }
        ACK => (Kind::Ack, 0, x),
        BULK => (Kind::Bulk, x, y),
        SWITCH => (Kind::Switch, x, 0),
        PING => (Kind::Ping, x, y),
        PONG => (Kind::Pong, x, y),
        SEQUENCE => {
            *next = x;
            return Ok(None);
        }
        _ => return Err(Malformed),
    };
    let nobody = ProcId { incarnation: 0, rank: 0 };
    let ack_now = frame.tag & ACK_NOW != 0;
    let header = Header { len: len as u32, kind, ack_now, generation: 0, source: nobody, dest: nobody, a, b };
    if header.is_sound() { Ok(Some(header)) } else { Err(Malformed) }
}

impl Watched for ShmLane {
    /// The connection that shows that the other side lives. Nothing is ever read from it.
    fn signs(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        f(0, self.parts.connection.as_fd(), false);
    }
}

impl<M: Memory> Lane<M> for ShmLane {
    fn caps(&self) -> Caps {
        Caps { get: self.reads(), exposed: self.parts.read_by, ..Caps::SHARED }
    }

    fn wants_write(&self) -> bool {
        self.death.is_none() && (self.rest.is_some() || self.is_stuck())
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        if !self.takes() {
            return self.refuse();
        }
        match payload {
            Payload::Bytes(bytes) => {
                let taken = self.put(header, |to| to.copy_from_slice(bytes));
                self.done(taken)
            }
            Payload::User { buf, offset } => {
                let before = self.written;
                self.rest = Some(Rest { header: *header, buf, offset, left: header.len as usize });
                if !self.put_rest(mem) && self.written == before {
                    self.rest = None;
                    return self.refuse();
                }
                Sent::Taken
            }
        }
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) -> Sent {
        if !self.takes() {
            return self.refuse();
        }
        let taken = self.put(header, |to| fill(to));
        self.done(taken)
    }

    fn flush(&mut self, mem: &M) -> bool {
        if self.death.is_some() {
            return false;
        }
        let done = self.put_rest(mem);
        if (!done || self.refused) && self.is_stuck() && self.out.ask(&self.parts.memory) {
            self.untold = true;
        }
        self.tell();
        done
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        if self.death.is_some() {
            return 0;
        }
        let (mut read, mut all) = self.deliver(sink, budget);
        if read == 0 && all && !self.closed {
            // Called for something that is not there: the connection may have ended, but all that was published before is
            // there now.
            self.closed = !self.parts.connection.is_open();
            if self.closed {
                (read, all) = self.deliver(sink, budget);
            }
        }
        if self.closed && all && self.death.is_none() {
            self.death = Some(Death::Closed);
        }
        read
    }

    fn event(&mut self) -> Option<Event> {
        if self.death.is_some() {
            return (!std::mem::replace(&mut self.told_death, true)).then_some(Event::Dead);
        }
        if self.refused && !self.quiet && self.rest.is_none() && !self.is_stuck() {
            self.refused = false;
            return Some(Event::Writable);
        }
        None
    }

    fn quiesce(&mut self) {
        self.quiet = true;
    }

    fn resume(&mut self) {
        self.quiet = false;
    }

    fn death(&self) -> Option<&Death> {
        self.death.as_ref()
    }

    fn cut(&mut self) {
        self.parts.connection.cut();
    }

    fn written(&self) -> u64 {
        self.written
    }

    /// Whether the other side's process lives and keeps the lane, as its kernel says.
    fn is_open(&self) -> Option<bool> {
        Some(self.parts.connection.is_open())
    }

    /// Whether the other side has read all that was published.
    fn is_read(&self) -> bool {
        self.out.is_read(&self.parts.memory)
    }

    fn waiting(&self) -> u16 {
        self.is_stuck().into()
    }

    /// The connection; and, of the other side, the descriptor that wakes it, and one for what comes while others are made.
    fn descriptors(&self) -> usize {
        3
    }

    fn unread(&mut self) -> Unread {
        let mut bodies = Vec::new();
        self.out.unread(&self.parts.memory, |frame, body| {
            if frame.tag & !ACK_NOW == Kind::Msg as u8 {
                bodies.push(body.to_vec());
            }
        });
        Unread { first: self.next_out - bodies.len() as u64, bodies }
    }
}
