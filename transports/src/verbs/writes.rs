//! What we write to the other side's memory, by RDMA, where memory cannot be read: pieces of user buffers, into chunks of its room.
//!
//! Used by [`super::messages`]. A write and the message that tells of it go out one behind the other, so the bytes are there when
//! the message comes. Invariants: a piece stays registered until all its writes have completed, or the lane ends; no chunk is written that
//! is not free.

use super::device::{Device, Lent};
use super::room::Written;
use base::bytes::{Malformed, Take};
use base::protocol::rdma::MAX_READS;
use base::rdma::{WRITE, Work};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use wire::frame::Header;

/// Numbers of writes begin here, behind those of reads.
const FIRST: u64 = 3 << 32;

/// What is known of the other side's room.
enum There {
    /// It has none, or memory is read instead.
    Nothing,
    /// It was not asked for yet.
    Unasked,
    Asked,
    Room(Chunks),
}

/// The other side's room.
struct Chunks {
    address: u64,
    key: u32,
    chunk: usize,
    chunks: u32,
    /// How many of them are free, from this one on.
    free: u32,
    next: u32,
}

/// A frame that is written.
struct Outgoing {
    header: Header,
    /// What is still to be written: address, bytes, key.
    pieces: VecDeque<(u64, usize, u32)>,
    /// The offset in the frame of the next write.
    at: usize,
    /// Writes that have not completed.
    under_way: usize,
    _lent: Vec<Lent>,
}

pub(super) struct Writes {
    there: There,
    all: VecDeque<Outgoing>,
    under_way: usize,
}

impl Writes {
    /// `agreed`: large bulk is written between these two sides.
    pub(super) fn new(agreed: bool) -> Writes {
        let there = if agreed { There::Unasked } else { There::Nothing };
        Writes { there, all: VecDeque::new(), under_way: 0 }
    }

    /// Whether the other side has room, or may have.
    pub(super) fn is_possible(&self) -> bool {
        !matches!(self.there, There::Nothing)
    }

    /// Whether the other side is still to be asked for room.
    pub(super) fn is_unasked(&self) -> bool {
        matches!(self.there, There::Unasked)
    }

    /// It is asked now.
    pub(super) fn set_asked(&mut self) {
        self.there = There::Asked;
    }

    /// Takes the content of a ROOM.
    pub(super) fn hear(&mut self, mut content: Take<'_>) -> Result<(), Malformed> {
        let (address, key) = (content.u64()?, content.u32()?);
        let (chunk, chunks) = (content.u32()? as usize, content.u32()?);
        content.end()?;
        let all = u64::from(chunks) * chunk as u64;
        let good = chunk > 0 && chunks <= u8::MAX.into() && address.checked_add(all).is_some();
        if !good || !matches!(self.there, There::Asked) {
            return Err(Malformed);
        }
        self.there = match chunks {
            0 => There::Nothing,
            _ => There::Room(Chunks { address, key, chunk, chunks, free: chunks, next: 0 }),
        };
        Ok(())
    }

    /// The other side has given back this number of chunks.
    pub(super) fn free(&mut self, given: u8) -> Result<(), Malformed> {
        match &mut self.there {
            There::Room(room) if room.free + u32::from(given) <= room.chunks => room.free += u32::from(given),
            _ if given > 0 => return Err(Malformed),
            _ => {}
        }
        Ok(())
    }

    /// Whether one more frame may be added.
    pub(super) fn has_room(&self) -> bool {
        matches!(self.there, There::Room(_)) && self.all.len() < MAX_READS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Writes that have not completed.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// The bytes of frames that are not written.
    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|one| u64::from(one.header.len)).sum()
    }

    /// Registers a frame's data, to be written as there are chunks.
    pub(super) fn add(&mut self, device: &Arc<Device>, header: &Header, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let lent = pieces.iter().map(|bytes| device.lend(bytes, 0)).collect::<io::Result<Vec<_>>>()?;
        let keys = lent.iter().map(|lent| lent.region.local);
        let pieces = pieces.iter().zip(keys).map(|(bytes, key)| (bytes.as_ptr() as u64, bytes.len(), key)).collect();
        self.all.push_back(Outgoing { header: *header, pieces, at: 0, under_way: 0, _lent: lent });
        Ok(())
    }

    /// Whether there is something to be written, and a chunk for it.
    pub(super) fn has_next(&self) -> bool {
        matches!(&self.there, There::Room(room) if room.free > 0) && self.all.iter().any(|one| !one.pieces.is_empty())
    }

    /// The next write to be posted, and what is then said of it; it counts as under way from then on.
    pub(super) fn next(&mut self) -> Option<(Work, Written)> {
        let There::Room(room) = &mut self.there else { return None };
        let one = self.all.iter_mut().find(|one| !one.pieces.is_empty()).filter(|_| room.free > 0)?;
        let piece = one.pieces.front_mut()?;
        let len = piece.1.min(room.chunk);
        let work = Work {
            id: FIRST,
            kind: WRITE,
            inline: 0,
            address: piece.0,
            len: len as u32,
            key: piece.2,
            remote: room.address + u64::from(room.next) * room.chunk as u64,
            remote_key: room.key,
        };
        let written = Written { header: one.header, at: one.at, len };
        (piece.0, piece.1) = (piece.0 + len as u64, piece.1 - len);
        if piece.1 == 0 {
            one.pieces.pop_front();
        }
        (one.at, one.under_way, self.under_way) = (one.at + len, one.under_way + 1, self.under_way + 1);
        (room.free, room.next) = (room.free - 1, (room.next + 1) % room.chunks);
        Some((work, written))
    }

    /// A write has completed: the oldest one.
    pub(super) fn done(&mut self) {
        if let Some(one) = self.all.iter_mut().find(|one| one.under_way > 0) {
            one.under_way -= 1;
            self.under_way -= 1;
        }
        while self.all.front().is_some_and(|one| one.pieces.is_empty() && one.under_way == 0) {
            self.all.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::room::Room;
    use base::ProcId;
    use base::bytes::Put;
    use base::protocol::rdma::{room, written};
    use wire::frame::Kind;

    fn content(address: u64, chunk: u32, chunks: u32) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(address);
        out.put_u32(7);
        out.put_u32(chunk);
        out.put_u32(chunks);
        assert_eq!(out.len(), room::BYTES);
        out
    }

    fn asked() -> Writes {
        let mut writes = Writes::new(true);
        writes.set_asked();
        writes
    }

    #[test]
    fn a_room_is_checked() {
        let good = content(4096, 100, 3);
        for bad in [content(4096, 0, 3), content(4096, 100, 256), content(u64::MAX, 1, 1), good[1..].to_vec()] {
            assert_eq!(asked().hear(Take(&bad)), Err(Malformed), "{bad:?}");
        }
        assert_eq!(Writes::new(false).hear(Take(&good)), Err(Malformed), "nobody has asked");
        assert_eq!(Writes::new(true).hear(Take(&good)), Err(Malformed), "nobody has asked yet");
        let mut writes = asked();
        assert_eq!(writes.free(1), Err(Malformed), "there is no room yet");
        assert_eq!((writes.hear(Take(&good)), writes.hear(Take(&good))), (Ok(()), Err(Malformed)));
        assert_eq!((writes.free(0), writes.free(1)), (Ok(()), Err(Malformed)), "all are free");
        let mut without = asked();
        assert_eq!((without.hear(Take(&content(0, 100, 0))), without.is_possible()), (Ok(()), false));
    }

    #[test]
    fn what_is_said_to_be_written_is_checked() {
        let id = ProcId { incarnation: 1, rank: 1 };
        let (source, dest) = (id, id);
        let header = Header { len: 30, kind: Kind::Bulk, ack_now: false, generation: 1, source, dest, a: 1, b: 0 };
        let good = Written { header, at: 10, len: 20 };
        let bytes = good.encode();
        assert_eq!((bytes.len(), Written::decode(Take(&bytes))), (written::BYTES, Ok(good)));
        let bad = [
            Written { at: 11, ..good },
            Written { len: 0, ..good },
            Written { at: u32::MAX as usize, len: u32::MAX as usize, ..good },
            Written { header: Header { kind: Kind::Msg, ..header }, ..good },
        ];
        for bad in bad {
            assert_eq!(Written::decode(Take(&bad.encode())), Err(Malformed), "{bad:?}");
        }
        assert_eq!(Written::decode(Take(&bytes[..written::BYTES - 1])), Err(Malformed));
        let mut room = Room::default();
        assert_eq!(room.add(Take(&bytes)), Err(Malformed), "there is no room");
        assert_eq!((room.ask(), room.ask()), (Ok(()), Err(Malformed)), "it was asked for already");
    }
}
