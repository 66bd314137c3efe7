//! A connected pair of byte streams in memory, for [`crate::stream::StreamLane`].
//!
//! Reads and writes move any number of bytes down to none. [`Knife::cut`] breaks it: of the bytes under way a random
//! number still arrives, then both sides see the end. Dropping an end closes it: what was written still arrives.

use super::Rng;
use crate::stream::ByteStream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::rc::Rc;
use wire::lane::InKernel;

#[derive(Default)]
struct Half {
    bytes: VecDeque<u8>,
    closed: bool,
    /// Nothing arrives, and neither end notices.
    dark: bool,
}

/// One end of a pair.
pub struct PipeEnd {
    tx: Rc<RefCell<Half>>,
    rx: Rc<RefCell<Half>>,
    rng: Rng,
    capacity: usize,
}

/// Both ends of a pair. Each direction holds up to `capacity` bytes.
pub fn pair(rng: &mut Rng, capacity: usize) -> (PipeEnd, PipeEnd) {
    let (x, y) = (Rc::<RefCell<Half>>::default(), Rc::<RefCell<Half>>::default());
    let a = PipeEnd { tx: x.clone(), rx: y.clone(), rng: rng.fork(), capacity };
    let b = PipeEnd { tx: y, rx: x, rng: rng.fork(), capacity };
    (a, b)
}

/// Breaks a pair whose ends are in use elsewhere.
pub struct Knife {
    halves: [Rc<RefCell<Half>>; 2],
    rng: Rng,
}

impl Knife {
    /// From now on nothing arrives, and neither side is told.
    pub fn darken(&mut self) {
        self.halves.iter().for_each(|half| half.borrow_mut().dark = true);
    }

    /// Ends both directions, and both sides are told, also of one that was dark. Of the bytes under way in each, a random
    /// number still arrives.
    pub fn cut(&mut self) {
        for half in &self.halves {
            let mut half = half.borrow_mut();
            let keep = self.rng.below(half.bytes.len() as u64 + 1) as usize;
            half.bytes.truncate(keep);
            (half.closed, half.dark) = (true, false);
        }
    }
}

impl PipeEnd {
    /// What breaks this pair later.
    pub fn knife(&self, rng: &mut Rng) -> Knife {
        Knife { halves: [self.tx.clone(), self.rx.clone()], rng: rng.fork() }
    }

    fn amount(&mut self, most: usize) -> io::Result<usize> {
        let n = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(most as u64 + 1) as usize,
            _ => most,
        };
        if n == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(n) }
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.tx.borrow_mut().closed = true;
        self.rx.borrow_mut().closed = true;
    }
}

impl ByteStream for PipeEnd {
    fn cut(&mut self) {
        let mut rng = self.rng.fork();
        self.knife(&mut rng).cut();
    }

    /// The bytes that have not been read.
    fn in_kernel(&self) -> Option<InKernel> {
        let bytes = self.tx.borrow().bytes.len() as u64;
        Some(InKernel { bytes, flying: bytes > 0 })
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let tx = self.tx.clone();
        let mut tx = tx.borrow_mut();
        if tx.closed && !tx.dark {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let total: usize = bufs.iter().map(|b| b.len()).sum();
        let n = self.amount(total.min(self.capacity - tx.bytes.len()))?;
        tx.bytes.extend(bufs.iter().flat_map(|b| b.iter()).take(n));
        Ok(n)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let rx = self.rx.clone();
        let mut rx = rx.borrow_mut();
        if rx.dark {
            return Err(ErrorKind::WouldBlock.into());
        }
        if rx.bytes.is_empty() && rx.closed {
            return Ok(0);
        }
        let room: usize = bufs.iter().map(|b| b.len()).sum();
        let n = self.amount(room.min(rx.bytes.len()))?;
        let mut left = n;
        for piece in bufs {
            let part = left.min(piece.len());
            for (to, from) in piece[..part].iter_mut().zip(rx.bytes.drain(..part)) {
                *to = from;
            }
            left -= part;
        }
        Ok(n)
    }
}

#[cfg(test)]
impl PipeEnd {
    /// Writes bytes of the test's own, without the lane that uses this end.
    pub(crate) fn write_all(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let n = self.write_vectored(&[IoSlice::new(bytes)]).unwrap_or(0);
            bytes = &bytes[n..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Factory, lanes};
    use crate::stream::StreamLane;

    lanes!(one_stream, Pipe(Rng::new(1)));

    /// Lanes over such a pair.
    struct Pipe(Rng);

    impl Factory for Pipe {
        type Lane = StreamLane<PipeEnd>;

        fn pair(&mut self) -> (Self::Lane, Self::Lane) {
            let (a, b) = pair(&mut self.0, 100_000);
            (StreamLane::new(a), StreamLane::new(b))
        }

        fn cut(&mut self, lane: &mut Self::Lane) {
            lane.stream().knife(&mut self.0).cut();
        }

        fn inject(&mut self, lane: &mut Self::Lane, bytes: &[u8]) -> bool {
            lane.stream().write_all(bytes)
        }
    }
}
