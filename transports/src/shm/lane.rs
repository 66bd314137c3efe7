//! A lane over shared memory.
//!
//! Made from the [`Parts`] that a handshake leaves. A frame that it takes is with the other side at once, in memory that lives
//! as long as either process. So no body is retained, and bodies that the other side has not read when the lane dies can be
//! taken back ([`Lane::unread`]). Fields of a header that follow from the lane are not written to a slot: processes,
//! generation, the sequence number of a MSG (one more than the last), and the acknowledgement in it.

use super::doorbells;
use super::hello::Parts;
use super::peek::RemoteMemory;
use super::ring::{Consumer, EXPECTED, Frame, InParts, NARROW, Plan, Popped, Producer};
use crate::memory::Segment;
use crate::transport::Watched;
use base::bytes::Malformed;
use base::protocol::frame::{ACK, BULK, MSG, PING, PONG, SWITCH};
use base::protocol::shared::{
    ACK_NOW, DIRECT, INDEX, LANE_END, OTHER_INDEX, PART, RETURNED, ROOM as DATA, SEQUENCE, SLOT, SLOTS, SLOTS_AT, UNIT,
};
use base::{BufId, Memory, ProcId};
use std::os::fd::{AsFd, BorrowedFd};
use wire::frame::{Header, Kind, MAX_PAYLOAD};
use wire::lane::Death;
use wire::lane::{Body, Caps, Event, Fill, Lane, Payload, Sent, Sink, Unread};

/// The bytes of a piece of bulk: one side reads a piece while the other writes the next. The first piece of a message is short, so that
/// the other side begins soon, and each further one as long as all before it, up to the longest.
const FIRST_PIECE: u64 = 8 << 10;
pub(super) const CHUNK: u64 = 64 << 10;
/// Data in runs of no more bytes than this count as gathered: see [`Producer::set_gathers`].
const SHORT_RUN: usize = 256;

/// The parts of a MSG between cores: see [`PART`]. A shorter body is written as a whole, and the other side fetches it meanwhile.
const FAR: InParts = InParts { bytes: 16 << 10, least: 3, most: 32 << 10 };
const _: () = assert!(FAR.least * FAR.bytes + UNIT <= EXPECTED);
/// Threads of one core have nothing to fetch from each other.
const NEAR: InParts = InParts { bytes: 8 << 10, least: 2, most: 32 << 10 };

/// The bytes of a payload ring that are used first.
const LOW: usize = 256 << 10;
/// No more bytes of bodies are in one direction at a time: those of its own payload ring, and those that are returned in the other's.
const HELD: usize = 2 * DATA + SLOTS as usize * SLOT;
/// The bytes of a lane's memory: a little over 4 MiB, of which the kernel provides only pages that are touched.
pub(super) const MEMORY: usize = LANE_END;

/// The addresses of one direction (0 is from the dialling side), and that of the word by which its receiver says that it polls.
fn plan(direction: usize) -> (Plan, usize) {
    let slots = SLOTS as usize * SLOT;
    let words = (OTHER_INDEX - INDEX) * direction;
    let rings_at = SLOTS_AT + 2 * slots;
    let plan = Plan {
        index: INDEX + words,
        returned: RETURNED + words,
        returns: RETURNED + (OTHER_INDEX - INDEX) - words,
        slots_at: SLOTS_AT + slots * direction,
        slots: SLOTS,
        rings_at,
        data_at: rings_at + DATA * direction,
        data: DATA,
        low: LOW,
        far: FAR,
        near: NEAR,
    };
    (plan, DIRECT + words)
}

/// Bulk that was taken and is not written yet: a piece of a user buffer.
#[derive(Clone, Copy)]
struct Rest {
    header: Header,
    buf: BufId,
    /// In packed bytes.
    offset: u64,
    left: usize,
}

/// The direction from us to the other side.
struct Outbound {
    ring: Producer,
    /// The word by which the other side says that it polls.
    direct: usize,
    /// The sequence number of the next MSG, unless a SEQUENCE goes before it.
    next: u64,
    /// The sequence number of the first of the MSGs that come one after the other up to `next`; 0: there was none.
    first: u64,
    rest: Option<Rest>,
    /// Frames were published, and the other side's doorbell was not rung since.
    untold: bool,
    /// `NoRoom` was answered since the last [`Event::Writable`].
    refused: bool,
    /// No frames are taken: see [`Lane::quiesce`].
    quiet: bool,
    /// Bytes in all, slots included.
    written: u64,
}

impl Outbound {
    /// Says the sequence number of the next MSG. Returns whether there was room.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, memory: &Segment, sequence: u64) -> bool {
        let begun = self.ring.push(
            memory,
            (Frame { tag: SEQUENCE, fields: [sequence, 0] }, 1),
            0,
            |_| None,
            |_: usize, _: &mut [u8]| (),
        );
        if begun {
            (self.next, self.first) = (sequence, sequence);
        }
        begun
    }
}

/// The direction from the other side to us.
struct Inbound {
    ring: Consumer,
    /// The word by which we say that we poll.
    direct: usize,
    /// The sequence number of the next MSG, unless a SEQUENCE comes before it.
    next: u64,
    /// What the headers of all frames have in common: processes and generation.
    common: Header,
}

/// How far the lane's end has come.
#[derive(Default)]
struct Ending {
    /// The connection has ended. Frames that the other side has published are still to be read.
    closed: bool,
    death: Option<Death>,
    /// [`Event::Dead`] was returned.
    told: bool,
}

/// A lane over shared memory.
pub struct ShmLane {
    parts: Parts,
    out: Outbound,
    inc: Inbound,
    end: Ending,
}

impl ShmLane {
    pub(crate) fn new(parts: Parts, local: ProcId, remote: ProcId, generation: u16) -> ShmLane {
        let (there, back) = (plan(usize::from(!parts.dialled)), plan(usize::from(parts.dialled)));
        let out = Outbound {
            ring: Producer::new(there.0),
            direct: there.1,
            next: 0,
            first: 0,
            rest: None,
            untold: false,
            refused: false,
            quiet: false,
            written: 0,
        };
        let (source, dest) = (remote, local);
        let common = Header { len: 0, kind: Kind::Ack, ack_now: false, generation, source, dest, a: 0, b: 0 };
        let inc = Inbound { ring: Consumer::new(back.0), direct: back.1, next: 0, common };
        ShmLane { parts, out, inc, end: Ending::default() }
    }

    /// What the lane is made of, for another.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn into_parts(self) -> Parts {
        self.parts
    }

    /// Whether a frame is there to be read. This looks at one word.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.inc.ring.has_input(&self.parts.memory)
    }

    /// Whether a frame found no room, and the other side has consumed nothing since.
    pub fn is_stuck(&self) -> bool {
        self.out.ring.is_stuck(&self.parts.memory)
    }

    /// Says whether we poll this lane, so that the other side need not ring our doorbell for it. After a `false`, a frame may
    /// just have come without it: the lane has to be looked at once more.
    pub fn set_direct(&self, yes: bool) {
        doorbells::set_direct(&self.parts.memory, self.inc.direct, yes);
    }

    /// Whether a thread of the other side polls its lanes. If all sleep, or the program works, it has to be woken.
    pub fn is_other_awake(&self) -> bool {
        !doorbells::is_armed(&*self.parts.theirs.doorbells)
    }

    /// The memory of the other side's process, if we can read it.
    pub(crate) fn remote_memory(&self) -> Option<&RemoteMemory> {
        self.parts.theirs.remote.as_ref()
    }

    fn reads(&self) -> bool {
        self.parts.theirs.remote.is_some()
    }

    /// Has long bodies go through the whole payload ring, if the other side polls this lane: it does so with a few only, so not all lanes
    /// of a process take so much memory.
    #[cold]
    fn consider_wide(&mut self) {
        if doorbells::is_direct(&self.parts.memory, self.out.direct) {
            self.out.ring.set_wide(&self.parts.memory);
        }
    }

    /// Publishes a frame. Returns whether there was room.
    #[inline(always)]
    fn put(&mut self, header: &Header, body: impl Body) -> bool {
        let memory = &self.parts.memory;
        let mut frame = Frame::new(header.kind as u8 | if header.ack_now { ACK_NOW } else { 0 });
        let fields = match header.kind {
            Kind::Msg => {
                if header.a != self.out.next && !self.out.begin(memory, header.a) {
                    return false;
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
        let len = header.len as usize;
        if len > NARROW && !self.out.ring.is_wide() {
            self.consider_wide();
        }
        let memory = &self.parts.memory;
        let kept = |units| self.inc.ring.give_up(units);
        if !self.out.ring.push(memory, (frame, fields), len, kept, body) {
            return false;
        }
        if header.kind == Kind::Msg {
            self.out.next += 1;
        }
        self.out.written += u64::from(header.len) + SLOT as u64;
        self.out.untold = true;
        true
    }

    /// Goes on with bulk that was taken. Returns whether nothing is left of it.
    fn put_rest<M: Memory>(&mut self, mem: &M) -> bool {
        while let Some(mut rest) = self.out.rest {
            let n = rest.left.min(rest.offset.clamp(FIRST_PIECE, CHUNK) as usize);
            let piece = Header { len: n as u32, ..rest.header };
            // If the user buffer is gone, the operation is over at the receiver too, which drops these zeros.
            let fill = |_, to: &mut [u8]| {
                let n = mem.fill(rest.buf, rest.offset, to);
                to[n..].fill(0);
            };
            if !self.put(&piece, fill) {
                return false;
            }
            rest.left -= n;
            rest.offset += n as u64;
            rest.header.b += n as u64;
            self.out.rest = (rest.left > 0).then_some(rest);
        }
        true
    }

    /// Goes on with what was taken or refused: see [`Lane::flush`].
    #[inline(never)]
    fn flush_rest<M: Memory>(&mut self, mem: &M) -> bool {
        if self.end.death.is_some() {
            return false;
        }
        let done = self.put_rest(mem);
        if (!done || self.out.refused) && self.is_stuck() && self.out.ring.ask(&self.parts.memory) {
            self.out.untold = true;
        }
        self.tell();
        done
    }

    /// Rings the other side's doorbell if frames were published since it was last rung.
    #[inline(always)]
    fn tell(&mut self) {
        if std::mem::take(&mut self.out.untold) {
            self.ring();
        }
    }

    #[inline(always)]
    fn ring(&self) {
        let theirs = &self.parts.theirs;
        if doorbells::ring(&*theirs.doorbells, theirs.bit, &self.parts.memory, self.out.direct, theirs.fences) {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // A full counter means that the other side is awake, and any other error that it has ended.
        let _ = nix::unistd::write(&self.parts.theirs.eventfd, &1u64.to_ne_bytes());
    }

    /// Delivers frames of about `budget` bytes, or until the sink is content. Returns the number of bytes, and whether no frame is left.
    // Inlined, so that a sink whose type is known takes a message without a call in between.
    #[inline(always)]
    fn deliver<S: Sink + ?Sized>(&mut self, sink: &mut S, budget: usize) -> (usize, bool) {
        let mut read = 0;
        while read < budget {
            let (next, common, memory) = (&mut self.inc.next, &self.inc.common, &self.parts.memory);
            let back = |start| self.out.ring.take_back(memory, start);
            let taken = self.inc.ring.pop(memory, back, |frame, body| {
                if frame.tag & !ACK_NOW == MSG {
                    let sequence = *next;
                    *next = sequence.wrapping_add(1);
                    if sequence == 0 || !(1..=MAX_PAYLOAD).contains(&body.len()) {
                        return Err(Malformed);
                    }
                    sink.on_msg(common, sequence, frame.tag & ACK_NOW != 0, body)?;
                } else {
                    deliver_other(frame, body, next, common, sink)?;
                }
                Ok(body.len() + SLOT)
            });
            match taken {
                Ok(Popped::Nothing) => return (read, true),
                Ok(Popped::Frame(n)) => {
                    read += n;
                    self.out.ring.heard();
                    if sink.is_content() {
                        break;
                    }
                }
                // All frames before this one are consumed, so there is room now.
                Ok(Popped::Asked) => self.ring(),
                Err(Malformed) => {
                    self.end.death = Some(Death::Malformed);
                    return (read, false);
                }
            }
        }
        (read, false)
    }

    /// See [`Lane::poll`].
    fn read_to<S: Sink + ?Sized>(&mut self, sink: &mut S, budget: usize) -> usize {
        if self.end.death.is_some() {
            return 0;
        }
        loop {
            let was_closed = self.end.closed;
            let (read, all) = self.deliver(sink, budget);
            if read == 0 && all && !was_closed {
                // No frame is there, so the poll may be for the end of the connection. If it has ended, all that the other side
                // has ever published is there now.
                self.end.closed = !self.parts.connection.is_open();
                if self.end.closed {
                    continue;
                }
            }
            if self.end.closed && all && self.end.death.is_none() {
                self.end.death = Some(Death::Closed);
            }
            return read;
        }
    }

    fn refuse(&mut self) -> Sent {
        self.out.refused = true;
        Sent::NoRoom
    }

    fn takes(&self) -> bool {
        self.end.death.is_none() && !self.out.quiet && self.out.rest.is_none()
    }

    fn done(&mut self, taken: bool) -> Sent {
        if taken { Sent::Taken } else { self.refuse() }
    }
}

/// Delivers a frame that is no MSG.
#[inline(never)]
fn deliver_other<S: Sink + ?Sized>(
    frame: &Frame,
    body: &[u8],
    next: &mut u64,
    common: &Header,
    sink: &mut S,
) -> Result<(), Malformed> {
    let [x, y] = frame.fields;
    if frame.tag == PART {
        sink.on_part(common, *next, body, x);
        return Ok(());
    }
    let (kind, a, b) = match frame.tag & !ACK_NOW {
        ACK => (Kind::Ack, 0, x),
        BULK => (Kind::Bulk, x, y),
        SWITCH => (Kind::Switch, x, 0),
        PING => (Kind::Ping, x, y),
        PONG => (Kind::Pong, x, y),
        SEQUENCE => {
            *next = x;
            return Ok(());
        }
        _ => return Err(Malformed),
    };
    let header = Header { len: body.len() as u32, kind, ack_now: frame.tag & ACK_NOW != 0, a, b, ..*common };
    match kind {
        _ if !header.is_sound() => return Err(Malformed),
        Kind::Bulk => sink.on_bulk_bytes(&header, 0, body),
        _ => sink.on_frame(&header, body)?,
    }
    Ok(())
}

impl Watched for ShmLane {
    /// The connection, whose end shows that the other process has ended. No data come over it.
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        f(0, self.parts.connection.as_fd(), false);
    }
}

impl<M: Memory> Lane<M> for ShmLane {
    fn caps(&self) -> Caps {
        Caps { get: self.reads(), exposed: self.parts.read_by, ..Caps::SHARED }
    }

    fn wants_write(&self) -> bool {
        self.end.death.is_none() && (self.out.rest.is_some() || self.is_stuck())
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        if !self.takes() {
            return self.refuse();
        }
        match payload {
            Payload::Bytes(bytes) => {
                let taken = self.put(header, |at: usize, to: &mut [u8]| to.copy_from_slice(&bytes[at..][..to.len()]));
                self.done(taken)
            }
            Payload::Joined(head, rest) => {
                let body = [head, rest].concat();
                <ShmLane as Lane<M>>::try_send(self, mem, header, Payload::Bytes(&body))
            }
            Payload::User { buf, offset } => {
                let before = self.out.written;
                let len = header.len as usize;
                // The first piece and the last one may be parts of longer runs.
                self.out.ring.set_gathers(mem.with_slices(
                    buf,
                    offset,
                    len,
                    3,
                    |pieces| matches!(pieces, [_, run, _] if run.len() <= SHORT_RUN),
                ));
                self.out.rest = Some(Rest { header: *header, buf, offset, left: len });
                if !self.put_rest(mem) && self.out.written == before {
                    self.out.rest = None;
                    return self.refuse();
                }
                Sent::Taken
            }
        }
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        Lane::<M>::try_send_by(self, || *header, fill)
    }

    #[inline(always)]
    fn try_send_by(&mut self, header: impl FnOnce() -> Header, body: impl Body) -> Sent {
        if !self.takes() {
            return self.refuse();
        }
        let taken = self.put(&header(), body);
        self.done(taken)
    }

    #[inline(always)]
    fn flush(&mut self, mem: &M) -> bool {
        if self.out.rest.is_none() && !self.out.refused && self.end.death.is_none() {
            self.tell();
            return true;
        }
        self.flush_rest(mem)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.read_to(sink, budget)
    }

    fn poll_to(&mut self, sink: &mut impl Sink, budget: usize) -> usize {
        self.read_to(sink, budget)
    }

    fn event(&mut self) -> Option<Event> {
        if self.end.death.is_some() {
            return (!std::mem::replace(&mut self.end.told, true)).then_some(Event::Dead);
        }
        if self.out.refused && !self.out.quiet && self.out.rest.is_none() && !self.is_stuck() {
            self.out.refused = false;
            return Some(Event::Writable);
        }
        None
    }

    fn quiesce(&mut self) {
        self.out.quiet = true;
    }

    fn resume(&mut self) {
        self.out.quiet = false;
    }

    fn death(&self) -> Option<&Death> {
        self.end.death.as_ref()
    }

    fn cut(&mut self) {
        self.parts.connection.cut();
    }

    fn written(&self) -> u64 {
        self.out.written
    }

    /// Whether the connection is open, so that the other process lives and keeps the lane.
    fn is_open(&self) -> Option<bool> {
        Some(self.parts.connection.is_open())
    }

    /// Whether the other side has consumed all frames.
    fn is_read(&self) -> bool {
        self.out.ring.is_read(&self.parts.memory)
    }

    fn waiting(&self) -> u16 {
        self.is_stuck().into()
    }

    /// The connection and the other side's eventfd; and one to spare, for descriptors that come with other handshakes.
    fn descriptors(&self) -> usize {
        3
    }

    /// Nothing, if the other side has changed what it was sent so that it cannot be: it can write to all of the memory.
    fn unread(&mut self) -> Unread {
        let (mut bodies, mut bytes) = (Vec::new(), 0);
        self.out.ring.unread(&self.parts.memory, |frame, body| {
            if frame.tag & !ACK_NOW == Kind::Msg as u8 {
                bytes += body.len();
                if bytes <= HELD && (1..=MAX_PAYLOAD).contains(&body.len()) {
                    bodies.push(body.to_vec());
                } else {
                    bytes = HELD + 1;
                }
            }
        });
        match self.out.next.checked_sub(bodies.len() as u64) {
            Some(first) if first >= self.out.first && bytes <= HELD => Unread { first, bodies },
            _ => Unread::default(),
        }
    }
}
