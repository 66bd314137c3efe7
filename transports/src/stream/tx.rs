//! The sending half: what was taken and not yet written.
//!
//! Used by [`super::StreamLane`]. Invariant: bytes leave in the order taken; at most one piece of user memory is
//! outstanding, and it comes after all that is buffered. Small frames gather in the buffer, so that a burst of them
//! costs one write.

use super::ByteStream;
use crate::frame::Header;
use crate::lane::Payload;
use base::{BufId, Memory};
use std::io::{self, ErrorKind, IoSlice};

/// Above this much in the buffer, no more frames are taken.
const FULL: usize = 64 << 10;
/// Pieces of user memory per write.
const PIECES: usize = 64;
/// User memory that comes in smaller bits than this per write is gathered in the buffer first.
const WORTH: usize = 16 << 10;

#[derive(Default)]
pub struct Writer {
    buf: Vec<u8>,
    /// Bytes at the front of `buf` that are written.
    written: usize,
    user: Option<User>,
    broken: bool,
    total: u64,
}

#[derive(Clone, Copy)]
struct User {
    buf: BufId,
    offset: u64,
    left: usize,
}

/// What one look at the user's memory led to.
enum Step {
    Wrote(io::Result<usize>),
    /// Too finely strided: gather.
    Fine,
    /// The operation is over.
    Gone,
}

impl Writer {
    pub fn pending(&self) -> bool {
        !self.broken && (self.written < self.buf.len() || self.user.is_some())
    }

    pub fn room(&self) -> bool {
        !self.broken && self.user.is_none() && self.buf.len() - self.written < FULL
    }

    /// The other side takes nothing any more.
    pub fn break_off(&mut self) {
        *self = Writer { broken: true, total: self.total, ..Writer::default() };
    }

    /// Takes a frame; there must be room.
    pub fn add(&mut self, header: &Header, payload: Payload<'_>) {
        self.add_header(header);
        match payload {
            Payload::Bytes(bytes) => self.buf.extend_from_slice(bytes),
            Payload::User { buf, offset } => self.user = Some(User { buf, offset, left: header.len as usize }),
        }
    }

    /// Takes a frame whose body `fill` writes; there must be room.
    pub fn add_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) {
        self.add_header(header);
        let at = self.buf.len();
        self.buf.resize(at + header.len as usize, 0);
        fill(&mut self.buf[at..]);
    }

    fn add_header(&mut self, header: &Header) {
        debug_assert!(self.room());
        if self.written > 0 {
            self.buf.drain(..self.written);
            self.written = 0;
        }
        self.buf.extend_from_slice(&header.encode());
    }

    /// Writes what it can; true when nothing is left.
    pub fn flush<M: Memory>(&mut self, mem: &M, stream: &mut impl ByteStream) -> io::Result<bool> {
        while self.pending() {
            let step = match self.user {
                None => Step::Wrote(stream.write_vectored(&[IoSlice::new(&self.buf[self.written..])])),
                Some(u) => self.write_user(u, mem, stream),
            };
            let n = match step {
                Step::Wrote(Ok(0)) => return Err(ErrorKind::BrokenPipe.into()),
                Step::Wrote(Ok(n)) => n,
                Step::Wrote(Err(e)) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Step::Wrote(Err(e)) if e.kind() == ErrorKind::Interrupted => continue,
                Step::Wrote(Err(e)) => return Err(e),
                Step::Fine => {
                    self.gather(|u, n, out| mem.read(u.buf, u.offset, n, out));
                    continue;
                }
                Step::Gone => {
                    // Nobody reads these, but the frame's length stands.
                    self.gather(|_, _, _| ());
                    continue;
                }
            };
            self.advance(n);
        }
        Ok(!self.broken)
    }

    fn write_user<M: Memory>(&self, u: User, mem: &M, stream: &mut impl ByteStream) -> Step {
        mem.with_slices(u.buf, u.offset, u.left, PIECES, |pieces| {
            let there: usize = pieces.iter().map(|p| p.len()).sum();
            if there == 0 {
                return Step::Gone;
            }
            if there < u.left && there < WORTH {
                return Step::Fine;
            }
            let mut all = [IoSlice::new(&[]); PIECES + 1];
            all[0] = IoSlice::new(&self.buf[self.written..]);
            all[1..=pieces.len()].copy_from_slice(pieces);
            let first = usize::from(self.written == self.buf.len());
            Step::Wrote(stream.write_vectored(&all[first..=pieces.len()]))
        })
    }

    /// Moves the next bytes of the user's memory to the buffer; zeros where `fill` gives less.
    fn gather(&mut self, fill: impl FnOnce(User, usize, &mut Vec<u8>)) {
        let Some(mut u) = self.user else { return };
        let n = u.left.min(FULL);
        let end = self.buf.len() + n;
        fill(u, n, &mut self.buf);
        self.buf.resize(end, 0);
        u.offset += n as u64;
        u.left -= n;
        self.user = (u.left > 0).then_some(u);
    }

    /// Bytes written in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn advance(&mut self, n: usize) {
        self.total += n as u64;
        let buffered = n.min(self.buf.len() - self.written);
        self.written += buffered;
        if self.written == self.buf.len() {
            self.buf.clear();
            self.written = 0;
            // One large control message must not cost its size for ever.
            self.buf.shrink_to(2 * FULL);
        }
        if let Some(u) = &mut self.user {
            u.offset += (n - buffered) as u64;
            u.left -= n - buffered;
            if u.left == 0 {
                self.user = None;
            }
        }
    }
}
