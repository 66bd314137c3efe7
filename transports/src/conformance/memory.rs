//! User memory for the cases, a sink that records what arrives, and frames to send.

use base::bytes::Malformed;
use base::{Memory, ProcId};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::time::{Duration, Instant};
use wire::frame::{Header, Kind};
use wire::lane::{Lane, Payload, Sent, Sink};

/// A limit for what takes a moment.
pub const LIMIT: Duration = Duration::from_secs(20);

/// User memory in pieces of `block` bytes.
pub struct Mem {
    pub buffers: BTreeMap<u64, Vec<u8>>,
    block: usize,
}

impl Mem {
    pub fn new(block: usize) -> Mem {
        Mem { buffers: BTreeMap::new(), block }
    }
}

impl Memory for Mem {
    fn read(&self, buf: u64, offset: u64, len: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.buffers[&buf][offset as usize..][..len]);
    }
    fn fill(&self, buf: u64, offset: u64, to: &mut [u8]) -> usize {
        let Some(v) = self.buffers.get(&buf) else { return 0 };
        to.copy_from_slice(&v[offset as usize..][..to.len()]);
        to.len()
    }
    fn write(&mut self, buf: u64, offset: u64, data: &[u8]) {
        self.buffers.get_mut(&buf).unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
    }
    fn with_slices<R>(&self, buf: u64, offset: u64, len: usize, max: usize, f: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let Some(v) = self.buffers.get(&buf) else { return f(&[]) };
        let pieces: Vec<_> = v[offset as usize..][..len].chunks(self.block).take(max).map(IoSlice::new).collect();
        f(&pieces)
    }
    fn with_slices_mut<R>(
        &mut self,
        buf: u64,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let Some(v) = self.buffers.get_mut(&buf) else { return f(&mut []) };
        let part = &mut v[offset as usize..][..len];
        let mut pieces: Vec<_> = part.chunks_mut(self.block).take(max).map(IoSliceMut::new).collect();
        f(&mut pieces)
    }
}

/// Records what arrives.
pub struct Seen {
    pub mem: Mem,
    pub frames: Vec<(Header, Vec<u8>)>,
    pub bulk_bytes: usize,
    pub unwanted: bool,
    /// Parts of messages are brought where they belong, for so many bytes more.
    pub places: usize,
    /// What has come so of the next one.
    placed: Vec<u8>,
}

impl Seen {
    pub fn new(block: usize) -> Seen {
        Seen { mem: Mem::new(block), frames: Vec::new(), bulk_bytes: 0, unwanted: false, places: 0, placed: Vec::new() }
    }
}

impl Sink for Seen {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        assert_eq!(payload.len(), header.len as usize);
        self.frames.push((*header, payload.to_vec()));
        Ok(())
    }
    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        if self.unwanted {
            return None;
        }
        let (offset, len) = (header.b + at as u64, header.len as usize - at);
        let done = self.mem.with_slices_mut(header.a, offset, len, 16, |pieces| read(pieces));
        self.bulk_bytes += done.as_ref().copied().unwrap_or(0);
        Some(done)
    }
    fn on_part(&mut self, _: &Header, _: u64, part: &[u8], total: u64) {
        assert!((part.len() as u64) < total);
        self.placed = part.to_vec();
    }
    fn wants_rest(&mut self, _: &Header, _: usize) -> bool {
        self.places > 0
    }
    fn on_rest(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        if self.places == 0 {
            return None;
        }
        assert_eq!(self.placed.len(), at);
        self.placed.resize(header.len as usize, 0);
        let mut pieces: Vec<_> = self.placed[at..].chunks_mut(self.mem.block).take(16).map(IoSliceMut::new).collect();
        let done = read(&mut pieces);
        let n = done.as_ref().copied().unwrap_or(0);
        self.placed.truncate(at + n);
        self.places = self.places.saturating_sub(n);
        Some(done)
    }
    fn on_placed(&mut self, header: &Header) -> Result<bool, Malformed> {
        let is_whole = self.placed.len() == header.len as usize;
        if is_whole {
            self.frames.push((*header, std::mem::take(&mut self.placed)));
        }
        Ok(is_whole)
    }
}

pub const ME: ProcId = ProcId { incarnation: 1, rank: 2 };
pub const YOU: ProcId = ProcId { incarnation: 3, rank: 4 };

pub fn header(kind: Kind, a: u64, b: u64, len: usize) -> Header {
    Header { len: len as u32, kind, ack_now: false, generation: 1, source: ME, dest: YOU, a, b }
}

pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Flushes one side and polls the other until `done`.
pub fn until<L: Lane<Mem>>(
    a: &mut L,
    b: &mut L,
    mem: &Mem,
    seen: &mut Seen,
    mut done: impl FnMut(&mut L, &Seen) -> bool,
) {
    let start = Instant::now();
    while !done(a, seen) {
        assert!(start.elapsed() < LIMIT, "nothing moves");
        a.flush(mem);
        b.poll(seen, 1 << 16);
    }
}

pub fn send<L: Lane<Mem>>(a: &mut L, b: &mut L, mem: &Mem, seen: &mut Seen, header: &Header, payload: Payload<'_>) {
    until(a, b, mem, seen, |a, _| a.try_send(mem, header, payload) == Sent::Taken);
}

/// Whether the writer of a body of so many bytes was asked for these ranges as [`wire::lane::Fill`] promises: each byte once and in order, but
/// that what lies behind the head may come first.
pub fn is_asked_once(asked: &[Range<usize>], len: usize) -> bool {
    let is_in_order = |asked: &[Range<usize>]| {
        asked.iter().try_fold(0, |end, range| (range.start == end).then_some(range.end)) == Some(len)
    };
    let is_turned = |[rest, head]: &[Range<usize>; 2]| is_in_order(&[head.clone(), rest.clone()]);
    is_in_order(asked) || asked.try_into().is_ok_and(is_turned)
}
