//! Memory of a model checker (loom), which tries all interleavings of some threads and all reorderings of their reads and writes that
//! the memory model permits.

use super::SegmentView;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Memory in which each word is an atomic and a cell of bytes. The checker reports accesses to a cell that are not ordered.
pub(crate) struct Modelled {
    words: Vec<AtomicU64>,
    bytes: Vec<UnsafeCell<[u8; 8]>>,
    fences: bool,
}

// SAFETY: the checker sees every access to the cells, and ends the test at a data race.
unsafe impl Sync for Modelled {}
// SAFETY: as above.
unsafe impl Send for Modelled {}

impl Modelled {
    pub(crate) fn new(len: usize, fences: bool) -> Arc<Modelled> {
        let words = (0..len / 8).map(|_| AtomicU64::new(0)).collect();
        let bytes = (0..len / 8).map(|_| UnsafeCell::new([0; 8])).collect();
        Arc::new(Modelled { words, bytes, fences })
    }
}

impl SegmentView for Modelled {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.words[at / 8].load(order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.words[at / 8].store(value, order);
    }

    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.words[at / 8].swap(value, order)
    }

    fn or_fenced(&self, at: usize, bits: u64) {
        self.words[at / 8].fetch_or(bits, Ordering::AcqRel);
        self.fence();
    }

    fn fence(&self) {
        if self.fences {
            fence(Ordering::SeqCst);
        }
    }

    fn fence_everywhere(&self) {
        self.fence();
    }

    // The checker knows no fence in several threads at once, so it is one in each.
    fn light_fence(&self) {
        self.fence();
    }

    unsafe fn read<R>(&self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut all = Vec::new();
        for cell in &self.bytes[at / 8..(at + len).div_ceil(8)] {
            // SAFETY: the checker makes sure that nothing writes.
            cell.with(|p| all.extend_from_slice(unsafe { &*p }));
        }
        f(&all[at % 8..][..len])
    }

    unsafe fn write<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut all = vec![0; len];
        let out = f(&mut all);
        let (mut at, mut left) = (at, &all[..]);
        while !left.is_empty() {
            let (part, rest) = left.split_at((8 - at % 8).min(left.len()));
            // SAFETY: the checker makes sure that nothing else touches it.
            self.bytes[at / 8].with_mut(|p| unsafe { (&mut *p)[at % 8..][..part.len()].copy_from_slice(part) });
            (at, left) = (at + part.len(), rest);
        }
        out
    }
}

/// Checks all interleavings with at most this number of preemptions.
pub(crate) fn check(interrupted: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interrupted);
    builder.check(model);
}
