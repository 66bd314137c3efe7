//! The trait of a lane: one connection to one process, which carries frames and may die.
//!
//! Paths give frames to a lane. The session reads lanes, and a lane delivers what arrives to a [`Sink`]. A lane knows
//! nothing of sequences or matching. Invariant: frames arrive whole and unchanged. A reliable lane also keeps their
//! order and loses none while it lives.

use crate::frame::{Header, Kind};
use base::bytes::Malformed;
use base::{BufId, Memory};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::time::Duration;

/// What a lane guarantees and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// The lane keeps the order of frames, and loses none as long as it lives.
    pub reliable: bool,
    /// Frames may be lost when the lane dies. So the path retains them until they are acknowledged. A lane without it need not carry
    /// the acknowledgement in the header of a MSG.
    pub needs_retention: bool,
    /// This process can read the memory of the other one.
    pub get: bool,
    /// The other process can read the memory of this one.
    pub exposed: bool,
    /// The longest message, in bytes, that is here sooner eager: to wait for the receiver's answer costs more than the copies that
    /// it saves.
    pub eager: u64,
    /// The same of a message that follows none of the same side, if that is more.
    #[serde(skip)]
    pub eager_alone: u64,
    /// A long message is here sooner if its first bytes follow its announcement at once.
    #[serde(skip)]
    pub begins: bool,
}

impl Caps {
    /// A byte stream, such as TCP.
    pub const STREAM: Caps = Caps {
        reliable: true,
        needs_retention: true,
        get: false,
        exposed: false,
        eager: 128 << 10,
        eager_alone: 0,
        begins: true,
    };
    /// Memory that two processes share. The other side can read at once what the lane has taken, even if this process
    /// dies then.
    pub const SHARED: Caps = Caps {
        reliable: true,
        needs_retention: false,
        get: false,
        exposed: false,
        eager: 256 << 10,
        eager_alone: 0,
        begins: false,
    };
    /// Datagrams, which may be lost, duplicated and reordered.
    pub const DATAGRAM: Caps = Caps {
        reliable: false,
        needs_retention: true,
        get: false,
        exposed: false,
        eager: 64 << 10,
        eager_alone: 0,
        begins: false,
    };
}

/// What follows a header. It is as long as the header's `len`.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// These bytes, and then those.
    Joined(&'a [u8], &'a [u8]),
    /// A piece of a user buffer.
    User {
        /// The number of the buffer.
        buf: BufId,
        /// Where the piece begins, in packed bytes.
        offset: u64,
    },
}

/// Whether a lane took a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The lane has the frame. If it has written only a part, it keeps what it needs to go on in [`Lane::flush`]: a
    /// copy of the rest of `Bytes`, or the address of the rest of `User`.
    Taken,
    /// The lane took nothing of the frame. The caller offers it, or a more urgent one, after [`Event::Writable`].
    NoRoom,
}

/// Bytes that were written and that the other side's kernel has not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InKernel {
    /// The number of these bytes.
    pub bytes: u64,
    /// Some of them have left this host.
    pub flying: bool,
}

/// Why a lane died.
#[derive(Debug)]
pub enum Death {
    /// The other side closed or reset the connection.
    Closed,
    /// The other side broke the protocol.
    Malformed,
    /// A message was not wanted any more where a part of it had gone, and is to come again by another lane: see [`Sink::on_placed`].
    Unplaced,
    /// Another error, mostly that nothing was acknowledged in time.
    Io(io::Error),
}

impl Death {
    /// The death that an error of a read or a write means: [`Death::Closed`] for a reset or an end of the stream.
    pub fn from_io(e: io::Error) -> Death {
        use io::ErrorKind::*;
        match e.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | NotConnected => Death::Closed,
            InvalidData => Death::Malformed,
            _ => Death::Io(e),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Death::Closed => f.write_str("closed by the other side"),
            Death::Malformed => f.write_str("malformed input"),
            Death::Unplaced => f.write_str("a message is to come again whose receive ended in the middle of it"),
            Death::Io(e) => write!(f, "{e}"),
        }
    }
}

/// Bodies of consecutive MSG frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// The sequence of the first body.
    pub first: u64,
    /// The bodies, in order.
    pub bodies: Vec<Vec<u8>>,
}

/// What happened to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lane is dead. This is its last event.
    Dead,
    /// The lane had no room, and now has some.
    Writable,
    /// BULK frames that the lane had taken may be lost. The lane lives on.
    BulkLost,
}

/// Takes what a lane delivers.
pub trait Sink {
    /// A whole frame that is not BULK. [`Malformed`] if the frame breaks the protocol: then the lane dies.
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed>;

    /// A MSG that acknowledges nothing: as [`Sink::on_frame`], but only for a lane whose headers have the processes that it was made for. These
    /// are not compared, and no header is made for each.
    #[inline(always)]
    fn on_msg(&mut self, common: &Header, sequence: u64, ack_now: bool, payload: &[u8]) -> Result<(), Malformed> {
        let len = payload.len() as u32;
        self.on_frame(&Header { len, kind: Kind::Msg, ack_now, a: sequence, b: 0, ..*common }, payload)
    }

    /// Whether it has what it is read for, and the rest of what has come may lie where it is until the next poll.
    #[inline(always)]
    fn is_content(&self) -> bool {
        false
    }

    /// Whether it has something to say to what has come, for which what has not been read may wait until the next poll.
    fn has_answer(&self) -> bool {
        false
    }

    /// The first bytes of the payload of a MSG are here, which is next on this lane, and whose payload has `total` bytes. May come
    /// several times, with more bytes each time, or never. Of the header the processes and the generation count.
    fn on_part(&mut self, _header: &Header, _sequence: u64, _part: &[u8], _total: u64) {}

    /// Whether the first `at` bytes of such a payload are where they belong, and the rest may be brought there by [`Sink::on_rest`]. The lane may also
    /// hand in the whole as if there had been no part.
    fn wants_rest(&mut self, _header: &Header, _at: usize) -> bool {
        false
    }

    /// As [`Sink::on_bulk`], for the payload of a MSG from `at` on, what is before it being where it belongs.
    fn on_rest(
        &mut self,
        _header: &Header,
        _at: usize,
        _read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        None
    }

    /// All of a MSG's payload has come so. False: some of it was not wanted, and it is to come again.
    fn on_placed(&mut self, _header: &Header) -> Result<bool, Malformed> {
        Ok(false)
    }

    /// The bytes from `at` up to `header.len` of a BULK frame's payload can be read.
    ///
    /// If they are wanted, the sink calls `read` once, with the memory that is to hold them or a first part of them. It
    /// records as many bytes as `read` has written, and returns what `read` returned. `None` means that they are not
    /// wanted: the lane reads and drops them.
    ///
    /// A stream lane asks again for each part that it reads. The operation may have completed over another lane in the
    /// middle of a frame, and what comes after that must not touch the user's memory.
    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>>;

    /// As [`Sink::on_bulk`], for bytes from `at` on that are in memory already.
    fn on_bulk_bytes(&mut self, header: &Header, at: usize, bytes: &[u8]) {
        copy_in(bytes, at, |at, copy| self.on_bulk(header, at, copy));
    }
}

/// Copies bytes from `at` on to where a sink wants them: `on` is [`Sink::on_bulk`] or [`Sink::on_rest`].
pub fn copy_in(
    mut bytes: &[u8],
    mut at: usize,
    mut on: impl FnMut(usize, &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>) -> Option<io::Result<usize>>,
) {
    while !bytes.is_empty() {
        let mut copy = |to: &mut [IoSliceMut<'_>]| {
            let before = bytes.len();
            for piece in to {
                let (now, later) = bytes.split_at(piece.len().min(bytes.len()));
                piece[..now.len()].copy_from_slice(now);
                bytes = later;
            }
            Ok(before - bytes.len())
        };
        match on(at, &mut copy) {
            Some(Ok(n)) if n > 0 => at += n,
            _ => return,
        }
    }
}

/// Writes the bytes of a frame's body from an offset on. Asked for all of them once, in order; but what lies behind the head of a message, or any
/// rest of that, may come first.
pub type Fill<'a> = dyn FnMut(usize, &mut [u8]) + 'a;

/// The same as a trait, so that it can be inlined wherever it is called, as no closure can be made to be.
pub trait Body {
    /// Writes the bytes from `at` on.
    fn fill(&mut self, at: usize, to: &mut [u8]);
}

impl<F: FnMut(usize, &mut [u8])> Body for F {
    #[inline(always)]
    fn fill(&mut self, at: usize, to: &mut [u8]) {
        self(at, to);
    }
}

/// One lane. No call blocks.
pub trait Lane<M: Memory> {
    /// What the lane guarantees and what it can do.
    fn caps(&self) -> Caps;

    /// Whether the lane has more to write than it could write so far.
    fn wants_write(&self) -> bool;

    /// Takes a frame whole, or not at all.
    ///
    /// A user buffer may be unknown when its turn comes. Then the operation is over: the receiver has all of it, or will get no more of it and fails. The lane
    /// writes zeros to stay in step.
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent;
    /// As [`Lane::try_send`], but `fill` writes the body into the lane's own memory, whose content it must not assume.
    /// `fill` is called if the frame is taken, and not otherwise.
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent;
    /// As [`Lane::try_send_with`]. A lane whose frames go faster than a virtual call for each of them is worth has this for itself, and
    /// makes of the header only what it needs.
    fn try_send_by(&mut self, header: impl FnOnce() -> Header, mut body: impl Body) -> Sent
    where
        Self: Sized,
    {
        self.try_send_with(&header(), &mut |at, to| body.fill(at, to))
    }
    /// Goes on writing what was taken, and returns whether all is written. The caller has to call it after a round of
    /// sends, since the lane may tell the other side of new frames only then.
    fn flush(&mut self, mem: &M) -> bool;

    /// Reads up to about `budget` bytes and delivers them, or fewer where [`Sink::is_content`] or [`Sink::has_answer`] says so. Returns the bytes read: 0 if nothing was there.
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize;
    /// As [`Lane::poll`]. A lane whose frames come faster than a virtual call for each of them is worth has this for itself.
    fn poll_to(&mut self, sink: &mut impl Sink, budget: usize) -> usize
    where
        Self: Sized,
    {
        self.poll(sink, budget)
    }

    /// Whether a poll would find nothing and no event is due, as a lane may tell at less cost than a poll. False says nothing.
    fn is_quiet(&mut self) -> bool {
        false
    }

    /// The next thing that happened since the last call.
    fn event(&mut self) -> Option<Event>;

    /// Takes no more frames ([`Sent::NoRoom`]), but goes on reading, and writing what it has taken.
    fn quiesce(&mut self);
    /// Takes frames again, after [`Lane::quiesce`].
    fn resume(&mut self);

    /// Why the lane died. `None` while it lives.
    fn death(&self) -> Option<&Death>;
    /// Ends the lane as a broken network would. Both sides see it.
    fn cut(&mut self);
    /// Limits frames that are not BULK to `most` bytes of payload from now on. Lanes of strangers are limited so.
    fn limit_frames(&mut self, _most: usize) {}

    /// Bytes written since the lane began.
    fn written(&self) -> u64;
    /// Whether the other side has the lane open, as the kernel tells it. `None` if the kernel cannot tell: then the
    /// other side has to be asked for a sign of life.
    fn is_open(&self) -> Option<bool> {
        None
    }
    /// Whether the other side has read all that this lane has put into shared memory. Lanes whose frames a path
    /// acknowledges always say true.
    fn is_read(&self) -> bool {
        true
    }
    /// The bytes that were written and not acknowledged by the other side's kernel. `None` if no kernel carries them.
    fn in_kernel(&mut self) -> Option<InKernel> {
        None
    }
    /// The round trip to the other side's kernel, as this host's kernel measures it. `None` if it does not.
    fn round_trip(&mut self) -> Option<Duration> {
        None
    }
    /// A bit for each stream of the lane that has no room for what is to be written.
    fn waiting(&self) -> u16 {
        0
    }
    /// The number of file descriptors that the lane takes.
    fn descriptors(&self) -> usize {
        1
    }

    /// Whether one more stream, with this number, may be added to the lane.
    fn takes_stream(&self, _number: u16) -> bool {
        false
    }

    /// For a dead or abandoned lane without [`Caps::needs_retention`]: the bodies that it has taken and that the other
    /// side may not have read.
    fn unread(&mut self) -> Unread {
        Unread::default()
    }
}
