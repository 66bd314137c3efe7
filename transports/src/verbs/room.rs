//! Room for the other side's RDMA writes, where memory cannot be read by RDMA: chunks of memory of our own, and from there into
//! the user's buffer.
//!
//! Used by [`super::messages`]. As with reads, the device never writes user memory itself: a write may still be under way when its
//! receive has ended. Invariants: the memory is made when the other side first asks for it; chunks are filled one after the other, round and
//! round; a chunk is given back when its bytes are delivered, and is not filled before.

use super::device::{Device, Memory};
use base::bytes::{Malformed, Put, Take};
use base::protocol::rdma::{room, written};
use base::rdma::{LOCAL_WRITE, REMOTE_WRITE};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use wire::frame::{HEADER, Header, Kind};
use wire::lane::Sink;

/// The bytes of one chunk, and their number: as for reads.
const CHUNK: usize = 512 << 10;
const CHUNKS: u8 = 4;

/// What was written to a chunk: of which frame, from which offset there on, and how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub header: Header,
    pub at: usize,
    pub len: usize,
}

impl Written {
    pub(super) fn encode(&self) -> [u8; written::BYTES] {
        let mut out = [0; written::BYTES];
        out[..HEADER].copy_from_slice(&self.header.encode());
        out[written::OFFSET..][..4].copy_from_slice(&(self.at as u32).to_le_bytes());
        out[written::LEN..][..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        out
    }

    pub(super) fn decode(mut content: Take<'_>) -> Result<Written, Malformed> {
        let header = Header::decode(&content.array::<HEADER>()?)?;
        let (at, len) = (content.u32()? as usize, content.u32()? as usize);
        content.end()?;
        let good = header.kind == Kind::Bulk && len > 0 && at + len <= header.len as usize;
        if good { Ok(Written { header, at, len }) } else { Err(Malformed) }
    }
}

#[derive(Default)]
pub(super) struct Room {
    memory: Option<Memory>,
    /// Filled chunks, in order, of which the first is this one.
    came: VecDeque<Written>,
    first: u8,
    /// Chunks that were delivered and not given back.
    owed: u8,
    /// The other side has asked for it.
    asked: bool,
    /// It waits for the answer.
    pub waits: bool,
}

impl Room {
    /// Takes the other side's question.
    pub(super) fn ask(&mut self) -> Result<(), Malformed> {
        self.waits = !std::mem::replace(&mut self.asked, true);
        if self.waits { Ok(()) } else { Err(Malformed) }
    }

    /// Makes the memory. Returns the content of ROOM: without chunks if there is no memory.
    pub(super) fn make(&mut self, device: &Arc<Device>) -> Vec<u8> {
        self.waits = false;
        let made = Memory::new(device, usize::from(CHUNKS) * CHUNK, LOCAL_WRITE | REMOTE_WRITE);
        self.memory = made.inspect_err(|e: &io::Error| base::log!(Info, "no room for RDMA writes: {e}")).ok();
        let mut out = Vec::with_capacity(room::BYTES);
        out.put_u64(self.memory.as_ref().map_or(0, |memory| memory.at(0) as u64));
        out.put_u32(self.memory.as_ref().map_or(0, |memory| memory.region.remote));
        out.put_u32(CHUNK as u32);
        out.put_u32(self.memory.as_ref().map_or(0, |_| CHUNKS.into()));
        out
    }

    /// Takes the content of a WRITTEN.
    pub(super) fn add(&mut self, content: Take<'_>) -> Result<(), Malformed> {
        let written = Written::decode(content)?;
        let is_free = self.came.len() + usize::from(self.owed) < CHUNKS.into();
        if self.memory.is_none() || !is_free || written.len > CHUNK {
            return Err(Malformed);
        }
        self.came.push_back(written);
        Ok(())
    }

    /// Whether something was written that is not delivered.
    pub(super) fn has_some(&self) -> bool {
        !self.came.is_empty()
    }

    /// Delivers what was written: how many bytes.
    pub(super) fn deliver(&mut self, sink: &mut dyn Sink) -> usize {
        let mut bytes = 0;
        while let (Some(memory), Some(Written { header, at, len })) = (&self.memory, self.came.pop_front()) {
            let from = memory.at(usize::from(self.first) * CHUNK);
            // SAFETY: the write is over, and no other goes to this chunk before it is given back.
            let written = unsafe { std::slice::from_raw_parts(from, len) };
            sink.on_bulk_bytes(&header, at, written);
            self.first = (self.first + 1) % CHUNKS;
            self.owed += 1;
            bytes += len;
        }
        bytes
    }

    /// Whether so many chunks are to be given back that a message is worth it.
    pub(super) fn owes_much(&self) -> bool {
        self.owed >= CHUNKS / 2
    }

    /// Gives back all chunks that were delivered: how many.
    pub(super) fn give_back(&mut self) -> u8 {
        std::mem::take(&mut self.owed)
    }
}
