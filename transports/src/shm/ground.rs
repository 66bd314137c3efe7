//! Memory that two processes share, as the algorithms of this room see it: words that both sides touch, and bytes that
//! belong to one side at a time.
//!
//! The rings and the board are written against [`Ground`]; a mapped [`super::segment::Segment`] is one, and so is the
//! model checker's memory in tests. Invariant: a word is only ever touched as a word, at a multiple of 8.

use std::sync::atomic::Ordering;

pub trait Ground {
    fn load(&self, at: usize, order: Ordering) -> u64;
    fn store(&self, at: usize, value: u64, order: Ordering);
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64;

    /// Sets bits, with a full fence between this and what comes after it.
    fn or_fenced(&self, at: usize, bits: u64);

    /// A full fence.
    fn fence(&self);

    /// A full fence, here and wherever [`Ground::light_fence`] is used.
    fn fence_everywhere(&self);

    /// Enough on one side if the other has [`Ground::fence_everywhere`], and this process takes part in that.
    fn light_fence(&self);

    /// A word that is about to be written.
    fn expect_store(&self, _at: usize) {}

    /// Shows bytes to `f`.
    ///
    /// # Safety
    /// Nobody writes to them meanwhile.
    unsafe fn read<R>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> R;

    /// Has `f` write bytes; what was there before is anything.
    ///
    /// # Safety
    /// Nobody else touches them meanwhile.
    unsafe fn write<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R;
}
