//! User memory as engine and lanes see it: buffers are named by number and addressed by packed offset.

use std::io::{IoSlice, IoSliceMut};

/// The number of a user buffer. The engine uses the number of the operation that the buffer belongs to.
pub type BufId = u64;

/// The table of user buffers. Offsets and lengths count packed bytes: holes of a datatype are not counted.
///
/// Engine and lanes touch user memory only through this trait. So both run unchanged over plain vectors in tests.
pub trait Memory {
    /// Appends `len` packed bytes from `offset` of `buf` to `out`.
    fn read(&self, buf: BufId, offset: u64, len: usize, out: &mut Vec<u8>);
    /// Fills `to` from `offset` of `buf`, and returns how many bytes it wrote: 0 if `buf` is unknown.
    fn fill(&self, buf: BufId, offset: u64, to: &mut [u8]) -> usize;
    /// Writes `data` at `offset` of `buf`.
    fn write(&mut self, buf: BufId, offset: u64, data: &[u8]);
    /// Calls `f` with the pieces of memory that hold `[offset, offset+len)`, in order, and returns its result. At
    /// most `max` pieces are given, so they may cover less than `len` bytes. An unknown `buf` gives no pieces.
    fn with_slices<R>(&self, buf: BufId, offset: u64, len: usize, max: usize, f: impl FnOnce(&[IoSlice<'_>]) -> R) -> R
    where
        Self: Sized;
    /// As [`Memory::with_slices`], with pieces that `f` may write.
    fn with_slices_mut<R>(
        &mut self,
        buf: BufId,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R
    where
        Self: Sized;
}

/// Vectors are given in pieces, as if their parts lay apart.
fn piece_of(vector: &[u8]) -> usize {
    vector.len().div_ceil(VEC_PIECES).max(VEC_PIECE)
}

/// A piece has so many bytes, or so many more that there are not too many.
const VEC_PIECE: usize = 500;
const VEC_PIECES: usize = 40;

/// Plain vectors as user memory, for tests. Reading or writing an unknown buffer panics.
#[derive(Default, Clone, Debug)]
pub struct VecMemory(pub std::collections::BTreeMap<BufId, Vec<u8>>);

impl Memory for VecMemory {
    fn read(&self, buf: BufId, offset: u64, len: usize, out: &mut Vec<u8>) {
        let at = offset as usize;
        out.extend_from_slice(&self.0[&buf][at..at + len]);
    }

    fn fill(&self, buf: BufId, offset: u64, to: &mut [u8]) -> usize {
        let Some(v) = self.0.get(&buf) else { return 0 };
        to.copy_from_slice(&v[offset as usize..][..to.len()]);
        to.len()
    }

    fn write(&mut self, buf: BufId, offset: u64, data: &[u8]) {
        let at = offset as usize;
        self.0.get_mut(&buf).expect("known buffer")[at..at + data.len()].copy_from_slice(data);
    }

    fn with_slices<R>(
        &self,
        buf: BufId,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> R {
        match self.0.get(&buf) {
            Some(v) => {
                let pieces = v[offset as usize..offset as usize + len].chunks(piece_of(v));
                f(&pieces.take(max).map(IoSlice::new).collect::<Vec<_>>())
            }
            None => f(&[]),
        }
    }

    fn with_slices_mut<R>(
        &mut self,
        buf: BufId,
        offset: u64,
        len: usize,
        max: usize,
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        match self.0.get_mut(&buf) {
            Some(v) => {
                let piece = piece_of(v);
                let pieces = v[offset as usize..offset as usize + len].chunks_mut(piece);
                f(&mut pieces.take(max).map(IoSliceMut::new).collect::<Vec<_>>())
            }
            None => f(&mut []),
        }
    }
}

/// One array that stands for every buffer, for tests and benchmarks that measure everything but user memory. It never
/// gives pieces.
pub struct OneBuffer<const N: usize>(pub [u8; N]);

impl<const N: usize> Memory for OneBuffer<N> {
    fn read(&self, _: BufId, offset: u64, len: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[offset as usize..][..len]);
    }

    fn fill(&self, _: BufId, offset: u64, to: &mut [u8]) -> usize {
        to.copy_from_slice(&self.0[offset as usize..][..to.len()]);
        to.len()
    }

    fn write(&mut self, _: BufId, offset: u64, data: &[u8]) {
        self.0[offset as usize..][..data.len()].copy_from_slice(data);
    }

    fn with_slices<R>(&self, _: BufId, _: u64, _: usize, _: usize, f: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        f(&[])
    }

    fn with_slices_mut<R>(
        &mut self,
        _: BufId,
        _: u64,
        _: usize,
        _: usize,
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        f(&mut [])
    }
}
