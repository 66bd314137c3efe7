//! What we read of the other side's memory, by RDMA, into memory of our own, and from there into the user's buffer.
//!
//! A read may still be under way when its receive has ended, by way of another lane say. So it never goes to user memory
//! itself: that would have to stay valid for as long as the device may write it. Invariants: a frame is read as it was
//! announced and checked; no more is read at a time than there is memory for; a frame is reported as read when all of it is
//! delivered.

use super::device::{Device, Memory};
use base::bytes::{Malformed, Take};
use base::protocol::rdma::{MAX_PIECES, MAX_READS};
use base::rdma::{LOCAL_WRITE, READ, Work};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use wire::frame::{HEADER, Header, Kind};
use wire::lane::Sink;

/// The bytes of one read: a software device reads 512 KiB at a time more than twice as fast as 128 KiB.
const CHUNK: usize = 512 << 10;
/// The most reads under way or not delivered.
const CHUNKS: usize = 4;
/// Numbers of reads begin here, behind those of sends.
const FIRST: u64 = 2 << 32;

/// A frame that is read.
struct Incoming {
    number: u32,
    header: Header,
    /// What is still to be read: address, bytes, key.
    pieces: VecDeque<(u64, usize, u32)>,
    /// The offset in the frame of the next read.
    at: usize,
    delivered: usize,
}

/// One read: of which frame, its offset there, and its bytes.
#[derive(Clone, Copy, Default)]
struct Flight {
    number: u32,
    at: usize,
    len: usize,
}

pub(super) struct Reads {
    incoming: Vec<Incoming>,
    /// Made when it is needed first.
    memory: Option<Memory>,
    free: Vec<u8>,
    flights: [Flight; CHUNKS],
    came: VecDeque<u8>,
    under_way: usize,
    most: usize,
}

impl Reads {
    /// The other side answers this number of reads at a time.
    pub(super) fn new(most: u8) -> Reads {
        Reads {
            incoming: Vec::new(),
            memory: None,
            free: (0..CHUNKS as u8).collect(),
            flights: [Flight::default(); CHUNKS],
            came: VecDeque::new(),
            under_way: 0,
            most: most.into(),
        }
    }

    /// Whether either side may read at all.
    pub(super) fn is_possible(&self) -> bool {
        self.most > 0
    }

    /// Reads that are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether something was read that is not delivered.
    pub(super) fn has_some(&self) -> bool {
        !self.came.is_empty()
    }

    /// Takes the content of a READ_THIS.
    pub(super) fn add(&mut self, number: u32, mut content: Take<'_>) -> Result<(), Malformed> {
        let header = Header::decode(&content.array::<HEADER>()?)?;
        let mut pieces = VecDeque::new();
        let mut all = 0;
        while !content.0.is_empty() {
            let (address, len, key) = (content.u64()?, content.u32()? as usize, content.u32()?);
            let is_range = address.checked_add(len as u64).is_some() && len > 0 && len <= header.len as usize;
            if !is_range || pieces.len() == MAX_PIECES {
                return Err(Malformed);
            }
            all += len;
            pieces.push_back((address, len, key));
        }
        let is_known = self.incoming.iter().any(|i| i.number == number);
        let good = header.kind == Kind::Bulk && all == header.len as usize && !is_known && self.most > 0;
        if !good || self.incoming.len() == MAX_READS {
            return Err(Malformed);
        }
        self.incoming.push(Incoming { number, header, pieces, at: 0, delivered: 0 });
        Ok(())
    }

    /// Whether there may be something to be read, and memory for it.
    pub(super) fn has_next(&self) -> bool {
        !self.incoming.is_empty() && self.under_way < self.most && !self.free.is_empty()
    }

    /// The next read to be posted; it counts as under way from then on. `None` if there is none, or no memory for it.
    pub(super) fn next(&mut self, device: &Arc<Device>) -> io::Result<Option<Work>> {
        if !self.has_next() {
            return Ok(None);
        }
        let Some(incoming) = self.incoming.iter_mut().find(|i| !i.pieces.is_empty()) else { return Ok(None) };
        let memory = match &self.memory {
            Some(memory) => memory,
            None => self.memory.insert(Memory::new(device, CHUNKS * CHUNK, LOCAL_WRITE)?),
        };
        let Some((piece, chunk)) = incoming.pieces.front_mut().zip(self.free.pop()) else { return Ok(None) };
        let len = piece.1.min(CHUNK);
        let (address, key) = (memory.at(usize::from(chunk) * CHUNK), memory.region.local);
        let work = Work {
            id: FIRST + u64::from(chunk),
            kind: READ,
            inline: 0,
            address: address as u64,
            len: len as u32,
            key,
            remote: piece.0,
            remote_key: piece.2,
        };
        self.flights[usize::from(chunk)] = Flight { number: incoming.number, at: incoming.at, len };
        incoming.at += len;
        (piece.0, piece.1) = (piece.0 + len as u64, piece.1 - len);
        if piece.1 == 0 {
            incoming.pieces.pop_front();
        }
        self.under_way += 1;
        Ok(Some(work))
    }

    /// A read has completed.
    pub(super) fn came(&mut self, id: u64) {
        self.under_way -= 1;
        self.came.push_back((id - FIRST) as u8);
    }

    /// Delivers what was read: how many bytes. The numbers of frames that are whole are added to `whole`.
    pub(super) fn deliver(&mut self, sink: &mut dyn Sink, whole: &mut Vec<u32>) -> usize {
        let mut bytes = 0;
        while let Some(chunk) = self.came.pop_front() {
            self.free.push(chunk);
            let Flight { number, at, len } = self.flights[usize::from(chunk)];
            let n = self.incoming.iter().position(|i| i.number == number);
            let (Some(memory), Some(n)) = (&self.memory, n) else { continue };
            let incoming = &mut self.incoming[n];
            let from = memory.at(usize::from(chunk) * CHUNK);
            // SAFETY: the read is over, and the chunk is used by no other before it is taken from `free`.
            let read = unsafe { std::slice::from_raw_parts(from, len) };
            sink.on_bulk_bytes(&incoming.header, at, read);
            incoming.delivered += len;
            bytes += len;
            if incoming.delivered == incoming.header.len as usize {
                whole.push(number);
                self.incoming.remove(n);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ProcId;
    use base::bytes::Put;

    fn content(kind: Kind, len: u32, pieces: &[(u64, u32)]) -> Vec<u8> {
        let id = ProcId { incarnation: 1, rank: 1 };
        let (source, dest) = (id, id);
        let header = Header { len, kind, ack_now: false, generation: 1, source, dest, a: 1, b: 0 };
        let mut out = header.encode().to_vec();
        for (address, len) in pieces {
            out.put_u64(*address);
            out.put_u32(*len);
            out.put_u32(7);
        }
        out
    }

    #[test]
    fn what_is_announced_is_checked() {
        let good = content(Kind::Bulk, 30, &[(100, 10), (200, 20)]);
        let add = |reads: &mut Reads, number, content: &[u8]| reads.add(number, Take(content));
        let bad = [
            content(Kind::Msg, 30, &[(100, 30)]),
            content(Kind::Bulk, 30, &[(100, 29)]),
            content(Kind::Bulk, 30, &[(100, 31)]),
            content(Kind::Bulk, 30, &[(100, 30), (200, 0)]),
            content(Kind::Bulk, 30, &[(u64::MAX, 30)]),
            content(Kind::Bulk, 5, &[(1, 1); 5]),
            content(Kind::Bulk, 30, &[]),
            good[..good.len() - 1].to_vec(),
            good[..HEADER - 1].to_vec(),
        ];
        for bad in &bad {
            assert_eq!(add(&mut Reads::new(4), 1, bad), Err(Malformed), "{bad:?}");
        }
        assert_eq!(add(&mut Reads::new(0), 1, &good), Err(Malformed), "no reads were agreed on");
        let mut reads = Reads::new(4);
        assert_eq!(add(&mut reads, 1, &good), Ok(()));
        assert_eq!(add(&mut reads, 1, &good), Err(Malformed), "its number is in use");
        assert!((2..=MAX_READS as u32).all(|n| add(&mut reads, n, &good).is_ok()));
        assert_eq!(add(&mut reads, 99, &good), Err(Malformed), "too many");
    }
}
