//! What a lane is: something that carries frames to one process and may die.
//!
//! Paths hand frames down, the session reads lanes and passes what arrives to a [`Sink`]. A lane knows nothing of sequences or
//! matching. Invariant: frames come out whole, as they went in; a reliable lane also keeps their order and loses none while
//! it lives.

use crate::frame::Header;
use base::bytes::Malformed;
use base::{BufId, Memory};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, IoSliceMut};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Order is kept and nothing is lost, as long as the lane lives.
    pub reliable: bool,
    /// Frames may be lost when the lane dies, so the path keeps them until they are acknowledged.
    pub needs_retention: bool,
    /// We can read the other side's memory.
    pub get: bool,
    /// The other side can read ours.
    pub exposed: bool,
}

impl Caps {
    /// A byte stream: TCP and its like.
    pub const STREAM: Caps = Caps { reliable: true, needs_retention: true, get: false, exposed: false };
    /// Memory that two processes share: what it takes is with the other side at once.
    pub const SHARED: Caps = Caps { reliable: true, needs_retention: false, get: false, exposed: false };
    /// Datagrams that may be lost, doubled and reordered.
    pub const DATAGRAM: Caps = Caps { reliable: false, needs_retention: true, get: false, exposed: false };
}

/// What follows a header.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    Bytes(&'a [u8]),
    /// A piece of a user buffer, `offset` in packed bytes; as long as the header's `len`.
    User {
        buf: BufId,
        offset: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The lane has the frame. It may have written only a part: then it keeps what it needs to go on in `flush`
    /// (a copy of the rest of `Bytes`, the address of the rest of `User`).
    Taken,
    /// Nothing of the frame was taken: offer it, or a more urgent one, later.
    NoRoom,
}

/// Bytes that were written and that the other side's kernel has not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InKernel {
    pub bytes: u64,
    /// Some of them have left this host.
    pub flying: bool,
}

/// Why a lane died.
#[derive(Debug)]
pub enum Death {
    /// The other side's kernel said so: end of stream or reset.
    Closed,
    /// The other side spoke nonsense.
    Malformed,
    /// Anything else: mostly that nothing came back in time.
    Io(io::Error),
}

impl Death {
    pub fn from_io(e: io::Error) -> Death {
        use io::ErrorKind::*;
        match e.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | NotConnected => Death::Closed,
            _ => Death::Io(e),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Death::Closed => f.write_str("closed by the other side"),
            Death::Malformed => f.write_str("malformed input"),
            Death::Io(e) => write!(f, "{e}"),
        }
    }
}

/// Bodies of consecutive MSGs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// The sequence of the first.
    pub first: u64,
    pub bodies: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Carries nothing any more. Never followed by anything.
    Dead,
    /// No sign of life for a while; may recover.
    Suspect,
    /// There was no room, now there is.
    Writable,
    /// Bulk that it had taken may be lost; it goes on.
    BulkLost,
}

/// Where a lane delivers. Errors mean that the other side spoke nonsense: the lane dies.
pub trait Sink {
    /// A whole frame that is not BULK.
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed>;

    /// Bytes from `at` up to `header.len` of a BULK frame's payload are there to be read. If they are wanted, the sink
    /// calls `read` once with the memory that is to hold them (it may be less), takes note of as many as `read` says it
    /// has written, and returns that; `None` if they are not wanted: then the lane reads and drops them.
    ///
    /// A stream lane asks anew for every part that it reads, since the operation may have completed over another lane
    /// in the middle of a frame; what comes after that must not touch the user's memory.
    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>>;
    /// The same, when the bytes from `at` on are at hand.
    fn on_bulk_bytes(&mut self, header: &Header, mut at: usize, mut bytes: &[u8]) {
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
            match self.on_bulk(header, at, &mut copy) {
                Some(Ok(n)) if n > 0 => at += n,
                _ => return,
            }
        }
    }
}

/// One lane. All calls return at once; none blocks.
pub trait Lane<M: Memory> {
    fn caps(&self) -> Caps;

    /// Whether there is more to write than could be written.
    fn wants_write(&self) -> bool;

    /// Takes a frame, whole, or not at all. A user buffer that is gone (no pieces) when its turn comes belongs to an
    /// operation that the receiver has completed: the lane writes zeros, which nobody reads, and stays in step.
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent;
    /// As [`Lane::try_send`]; `fill` writes the body where the lane wants it, which may hold anything before. It is called
    /// once if the frame is taken, and not otherwise.
    fn try_send_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) -> Sent;
    /// Goes on with what was taken and not yet written; true when nothing is left. To be called after a round of sends:
    /// the other side may not be told before.
    fn flush(&mut self, mem: &M) -> bool;

    /// Reads up to about `budget` bytes and delivers them; gives how many it read (0: nothing is there).
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize;

    /// What happened since it was last asked.
    fn event(&mut self) -> Option<Event>;

    /// Takes no more frames (`NoRoom`) but goes on writing what it has taken and reading.
    fn quiesce(&mut self);
    fn resume(&mut self);

    /// Why the lane died, once it has.
    fn death(&self) -> Option<&Death>;
    /// Ends it as a broken network would; both sides see it.
    fn cut(&mut self);
    /// From now on a frame of what is not bulk may be so long at most, in bytes; for lanes on which strangers come.
    fn limit_frames(&mut self, _most: usize) {}

    /// Bytes written in all.
    fn written(&self) -> u64;
    /// Whether the kernel says that the other side keeps the lane. `None`: it cannot tell, and the other side has to be asked.
    fn is_open(&self) -> Option<bool> {
        None
    }
    /// Whether the other side has read all that was put where it reads without a path's acknowledgement.
    fn is_read(&self) -> bool {
        true
    }
    /// What of it the other side's kernel has not acknowledged; `None`: no kernel is between the two.
    fn in_kernel(&mut self) -> Option<InKernel> {
        None
    }
    /// Bits of its descriptors that have no room for what is to be written.
    fn waiting(&self) -> u16 {
        0
    }
    /// How many descriptors it takes.
    fn descriptors(&self) -> usize {
        1
    }

    /// Whether it may have one more stream of this number.
    fn takes_stream(&self, _number: u16) -> bool {
        false
    }

    /// Of a lane without [`Caps::needs_retention`] that carries nothing any more: what it has taken and the other side may
    /// not have read, as far as the lane knows.
    fn unread(&mut self) -> Unread {
        Unread::default()
    }
}
