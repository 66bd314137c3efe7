//! The sending half: frames that were taken and are not yet written.
//!
//! Used by [`super::StreamLane`]. Invariant: bytes leave in the order in which they were taken; at most one piece of user
//! memory is outstanding, and it comes after all that is buffered. Small frames are gathered in the buffer, so that a burst of
//! them costs one write.

use super::bytes::ByteStream;
use base::{BufId, Memory};
use std::io::{self, ErrorKind, IoSlice};
use wire::frame::Header;
use wire::lane::{Fill, Payload};

/// No more frames are taken while the buffer holds this many bytes.
const FULL: usize = 64 << 10;
/// The most pieces of user memory in one write.
const PIECES: usize = 64;
/// User memory is written from where it is if this many bytes of it fit in one write, and else gathered in the buffer first.
const WORTH: usize = 16 << 10;
/// The most bytes of user memory in one write: during a call, TCP puts off what the other side acknowledges.
const MOST: usize = 512 << 10;
/// A body of this many bytes is written from where it is, if it can be written at once.
const LARGE: usize = 4 << 10;

#[derive(Default)]
pub(super) struct Writer {
    buf: Vec<u8>,
    /// The bytes at the front of `buf` that are written.
    written: usize,
    user: Option<User>,
    broken: bool,
    /// The stream had no room for all of the last write.
    full: bool,
    total: u64,
}

#[derive(Clone, Copy)]
struct User {
    buf: BufId,
    offset: u64,
    left: usize,
}

/// The outcome of a look at user memory.
enum Step {
    Wrote(io::Result<usize>),
    /// It is too finely strided, and has to be gathered.
    Fine,
    /// The operation is over, and the memory gone.
    Gone,
}

impl Writer {
    pub(super) fn pending(&self) -> bool {
        !self.broken && (self.written < self.buf.len() || self.user.is_some())
    }

    pub(super) fn room(&self) -> bool {
        !self.broken && self.user.is_none() && self.buf.len() - self.written < FULL
    }

    /// Drops everything: the other side takes nothing any more.
    pub(super) fn break_off(&mut self) {
        *self = Writer { broken: true, total: self.total, ..Writer::default() };
    }

    /// Takes a frame; there must be room.
    pub(super) fn add(&mut self, header: &Header, payload: Payload<'_>) {
        self.add_header(header);
        match payload {
            Payload::Bytes(bytes) => self.buf.extend_from_slice(bytes),
            Payload::Joined(head, rest) => {
                self.buf.extend_from_slice(head);
                self.buf.extend_from_slice(rest);
            }
            Payload::User { buf, offset } => self.user = Some(User { buf, offset, left: header.len as usize }),
        }
    }

    /// Takes a frame with a body of a few bytes and many by writing it, and keeps the part that could not be written; there must be room.
    pub(super) fn write_through(
        &mut self,
        header: &Header,
        (first, body): (&[u8], &[u8]),
        stream: &mut impl ByteStream,
    ) -> io::Result<()> {
        self.add_header(header);
        self.buf.extend_from_slice(first);
        let head = self.buf.len() - self.written;
        let wrote = stream.write_vectored(&[IoSlice::new(&self.buf[self.written..]), IoSlice::new(body)]);
        let (n, failed) = match wrote {
            Ok(n) => (n, Ok(())),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (0, Ok(())),
            Err(e) => (0, Err(e)),
        };
        self.full = n < head + body.len();
        self.advance(n);
        self.buf.extend_from_slice(&body[n.saturating_sub(head)..]);
        failed
    }

    /// Whether [`Writer::write_through`] is better for this body than [`Writer::add`].
    pub(super) fn worth_writing(&self, body: &[u8]) -> bool {
        body.len() >= LARGE && !self.full
    }

    /// Takes a frame whose body `fill` writes; there must be room.
    pub(super) fn add_with(&mut self, header: &Header, fill: &mut Fill<'_>) {
        self.add_header(header);
        let at = self.buf.len();
        self.buf.resize(at + header.len as usize, 0);
        fill(0, &mut self.buf[at..]);
    }

    fn add_header(&mut self, header: &Header) {
        debug_assert!(self.room());
        self.drop_written();
        self.buf.extend_from_slice(&header.encode());
    }

    fn drop_written(&mut self) {
        if self.written > 0 {
            self.buf.drain(..self.written);
            self.written = 0;
        }
    }

    /// Writes as much as the stream takes. Returns whether nothing is left.
    pub(super) fn flush<M: Memory>(&mut self, mem: &M, stream: &mut impl ByteStream) -> io::Result<bool> {
        while self.pending() {
            let step = match self.user {
                // What was gathered goes before more is: the other side is at work meanwhile.
                Some(u) if self.buf.len() - self.written < FULL => self.write_user(u, mem, stream),
                _ => Step::Wrote(stream.write_vectored(&[IoSlice::new(&self.buf[self.written..])])),
            };
            let n = match step {
                Step::Wrote(Ok(0)) => return Err(ErrorKind::BrokenPipe.into()),
                Step::Wrote(Ok(n)) => n,
                Step::Wrote(Err(e)) if e.kind() == ErrorKind::WouldBlock => {
                    self.full = true;
                    return Ok(false);
                }
                Step::Wrote(Err(e)) if e.kind() == ErrorKind::Interrupted => continue,
                Step::Wrote(Err(e)) => return Err(e),
                Step::Fine => {
                    self.gather(|u, n, out| mem.read(u.buf, u.offset, n, out));
                    continue;
                }
                Step::Gone => {
                    // The frame's length is announced already, so zeros fill it, which the receiver drops.
                    self.gather(|_, _, _| ());
                    continue;
                }
            };
            self.advance(n);
        }
        self.full = false;
        Ok(!self.broken)
    }

    fn write_user<M: Memory>(&self, u: User, mem: &M, stream: &mut impl ByteStream) -> Step {
        mem.with_slices(u.buf, u.offset, u.left.min(MOST), PIECES, |pieces| {
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

    /// Fills the buffer from user memory; with zeros where `fill` gives less.
    fn gather(&mut self, fill: impl FnOnce(User, usize, &mut Vec<u8>)) {
        let Some(mut u) = self.user else { return };
        self.drop_written();
        let n = u.left.min(FULL.saturating_sub(self.buf.len()));
        let end = self.buf.len() + n;
        fill(u, n, &mut self.buf);
        self.buf.resize(end, 0);
        u.offset += n as u64;
        u.left -= n;
        self.user = (u.left > 0).then_some(u);
    }

    /// Bytes written in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    fn advance(&mut self, n: usize) {
        self.total += n as u64;
        let buffered = n.min(self.buf.len() - self.written);
        self.written += buffered;
        if self.written == self.buf.len() {
            self.buf.clear();
            self.written = 0;
            // One large control message must not hold its memory for ever.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::memory::{Mem, bytes, header};
    use base::ProcId;
    use base::memory::VecMemory;
    use std::io::IoSliceMut;
    use wire::frame::{HEADER, Kind};

    /// Takes `room` bytes and no more, and `most` in one write; records the addresses of each write's pieces.
    struct Narrow {
        room: usize,
        most: usize,
        bytes: Vec<u8>,
        writes: Vec<Vec<*const u8>>,
    }

    impl ByteStream for Narrow {
        fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.writes.push(bufs.iter().map(|b| b.as_ptr()).collect());
            let n = self.room.min(self.most).min(bufs.iter().map(|b| b.len()).sum());
            if n == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.bytes.extend(bufs.iter().flat_map(|b| b.iter()).take(n));
            self.room -= n;
            Ok(n)
        }
        fn read_vectored(&mut self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            unreachable!()
        }
        fn cut(&mut self) {
            unreachable!()
        }
    }

    /// The other side is at work on what was gathered while more is, and the buffer stays small.
    #[test]
    fn what_is_gathered_goes_at_once() {
        const BYTES: usize = 10 * FULL + 5;
        let header = header(Kind::Bulk, 1, 0, BYTES);
        let mut mem = Mem::new(7);
        mem.buffers.insert(1, bytes(BYTES, 1));
        let whole = [&header.encode()[..], &mem.buffers[&1]].concat();
        // An encrypted stream takes a record of FULL bytes in one write, and TCP any part.
        let rooms = [0, HEADER + 5, 3 * FULL, usize::MAX];
        for (room, most) in rooms.into_iter().flat_map(|room| [usize::MAX, FULL, 20_001].map(|most| (room, most))) {
            let mut stream = Narrow { room, most, bytes: Vec::new(), writes: Vec::new() };
            let mut tx = Writer::default();
            tx.add(&header, Payload::User { buf: 1, offset: 0 });
            let is_done = tx.flush(&mem, &mut stream).unwrap();
            assert_eq!(is_done, room >= whole.len());
            stream.room = usize::MAX;
            assert!(is_done || tx.flush(&mem, &mut stream).unwrap());
            assert!(stream.bytes == whole, "{room} {most}");
            assert!(stream.writes.len() >= 11, "{room} {most}: {} writes", stream.writes.len());
            assert!(tx.buf.capacity() <= 2 * FULL, "{room} {most}: {} bytes", tx.buf.capacity());
        }
    }

    #[test]
    fn a_large_body_is_written_from_where_it_is() {
        let body: Vec<u8> = (0..LARGE).map(|i| i as u8).collect();
        let id = ProcId { incarnation: 1, rank: 1 };
        let header = Header {
            len: LARGE as u32,
            kind: Kind::Msg,
            ack_now: false,
            generation: 1,
            source: id,
            dest: id,
            a: 1,
            b: 0,
        };
        // Room for nothing, for part of the header, for the header, for a few bytes more, for all but some of the body, for all.
        const ROOMS: [usize; 6] = [0, 10, HEADER, HEADER + 20, HEADER + 100, usize::MAX];
        for (few, room) in [0, 38].iter().flat_map(|few| ROOMS.map(|room| (*few, room))) {
            let first = vec![9; few];
            let header = Header { len: (few + LARGE) as u32, ..header };
            let whole = [&header.encode()[..], &first, &body].concat();
            let mut stream = Narrow { room, most: usize::MAX, bytes: Vec::new(), writes: Vec::new() };
            let mut tx = Writer::default();
            assert!(tx.worth_writing(&body));
            tx.write_through(&header, (&first, &body), &mut stream).unwrap();
            assert_eq!((stream.writes.len(), stream.writes[0][1]), (1, body.as_ptr()));
            assert_eq!(tx.pending(), room < whole.len());
            // A stream without room is not tried for each body.
            assert_eq!(tx.worth_writing(&body), !tx.pending());
            stream.room = usize::MAX;
            assert!(tx.flush(&VecMemory::default(), &mut stream).unwrap());
            assert!(stream.bytes == whole && tx.total() == whole.len() as u64, "{few} {room}");
            assert!(tx.worth_writing(&body));
        }
    }
}
