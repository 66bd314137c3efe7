//! What a lane is: something that carries frames to one process and may die.
//!
//! Paths hand frames down ([`crate::path::Path::next_tx`]), the node polls lanes and passes what arrives to a
//! [`Sink`]. A lane knows nothing of sequences or matching. It keeps one invariant: frames come out whole, as they
//! went in; a reliable lane also keeps their order and loses none while it lives.

use crate::frame::Header;
use base::bytes::Malformed;
use base::{BufId, Memory};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSliceMut};
use std::os::fd::RawFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Order is kept and nothing is lost, as long as the lane lives.
    pub reliable: bool,
    /// Can be emptied: after quiesce and drain, all that was taken is with the other side.
    pub drainable: bool,
    /// Frames may be lost when the lane dies, so the path keeps them until they are acknowledged.
    pub needs_retention: bool,
    /// The receiver can pull from the sender's memory.
    pub get: bool,
    /// The sender can write into the receiver's memory.
    pub put: bool,
}

impl Caps {
    /// A byte stream: TCP and its like.
    pub const STREAM: Caps = Caps { reliable: true, drainable: false, needs_retention: true, get: false, put: false };
    /// Memory that two processes share: what it takes is with the other side at once.
    pub const SHARED: Caps = Caps { reliable: true, drainable: true, needs_retention: false, get: false, put: false };
    /// Datagrams that may be lost, doubled and reordered.
    pub const DATAGRAM: Caps =
        Caps { reliable: false, drainable: false, needs_retention: true, get: false, put: false };
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

/// The kinds of lanes that may be used, as `MPI_CONNECT_LANES` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    pub shm: bool,
    pub tcp: bool,
}

impl Lanes {
    pub const ALL: Lanes = Lanes { shm: true, tcp: true };

    /// Words with commas between, at least one.
    pub fn parse(s: &str) -> Option<Lanes> {
        let mut lanes = Lanes { shm: false, tcp: false };
        for word in s.split(',') {
            match word.trim() {
                "shm" => lanes.shm = true,
                "tcp" => lanes.tcp = true,
                _ => return None,
            }
        }
        Some(lanes)
    }
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

    /// One descriptor to poll for reading, and for writing while [`Lane::wants_write`]. Simulated lanes have none.
    fn fd(&self) -> Option<RawFd>;
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

    /// Of a lane without [`Caps::needs_retention`] that carries nothing any more: what it has taken and the other side may
    /// not have read, as far as the lane knows.
    fn unread(&mut self) -> Unread {
        Unread::default()
    }
}
