//! Shared memory as the algorithms of this folder see it: words that both sides touch, and bytes that belong to one side at a
//! time.
//!
//! The rings and the doorbells are written against [`SegmentView`]. A mapped [`super::segment::Segment`] implements it, and so
//! does the model checker's memory in tests. Invariant: a word is only touched as a whole, at a multiple of 8.

use std::sync::atomic::Ordering;

/// Memory that two processes share. Positions are in bytes from its begin.
pub(crate) trait SegmentView {
    fn load(&self, at: usize, order: Ordering) -> u64;
    fn store(&self, at: usize, value: u64, order: Ordering);
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64;

    /// Sets bits, with a full fence behind.
    fn or_fenced(&self, at: usize, bits: u64);

    /// A full fence.
    fn fence(&self);

    /// A full fence in this process, and in every process that uses [`SegmentView::light_fence`].
    fn fence_everywhere(&self);

    /// A fence for the compiler alone. It is enough on one side if the other side uses [`SegmentView::fence_everywhere`] and
    /// this process takes part in that.
    fn light_fence(&self);

    /// A hint that these bytes, at whole pages, will be used, so their memory is to be provided and mapped.
    fn populate(&self, _at: usize, _len: usize) {}

    /// A hint that this word will be read soon.
    fn expect_load(&self, _at: usize) {}

    /// A hint that this word will be written soon.
    fn expect_store(&self, _at: usize) {}

    /// Shows bytes to `f`.
    ///
    /// # Safety
    /// Nothing writes to them meanwhile.
    unsafe fn read<R>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> R;

    /// Has `f` write bytes, which may hold anything before.
    ///
    /// # Safety
    /// Nothing else touches them meanwhile.
    unsafe fn write<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R;
}
