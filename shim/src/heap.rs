//! The allocator for the library's own memory.
//!
//! LAM brings an allocator that serves the whole process, and sometimes fails to allocate a large block while other
//! threads allocate. So large blocks come from the kernel under LAM. Invariant: this is decided before the first large
//! block is allocated, so each block is freed where it came from. LAM's allocator has memalign(3) alone for aligned
//! blocks: the newer functions belong to another allocator, and LAM's free(3) cannot free what they return.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Under LAM, blocks of this size in bytes, or larger, come from the kernel.
const LARGE: usize = 128 << 10;

/// The alignment of all blocks of every allocator, in bytes.
const ALIGNED: usize = 16;

static FROM_KERNEL: AtomicBool = AtomicBool::new(false);

/// From now on, large blocks come from the kernel. Called by the library's constructor, which allocates no large block.
pub fn take_large_blocks_from_kernel() {
    FROM_KERNEL.store(true, Ordering::Relaxed);
}

struct Heap;

// The fuzz targets count what a decoder allocates, with an allocator of their own.
#[cfg_attr(not(feature = "fuzzing"), global_allocator)]
#[cfg_attr(feature = "fuzzing", allow(dead_code))]
static HEAP: Heap = Heap;

fn from_kernel(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= 4096 && FROM_KERNEL.load(Ordering::Relaxed)
}

// SAFETY: both sources give blocks of the size and alignment asked for, and a block's layout tells its source.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !from_kernel(layout) {
            if layout.align() > ALIGNED {
                // SAFETY: an alignment is a power of two.
                return unsafe { libc::memalign(layout.align(), layout.size()) }.cast();
            }
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: fresh memory, wherever there is room.
        let found = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), protection, flags, -1, 0) };
        if found == libc::MAP_FAILED { std::ptr::null_mut() } else { found.cast() }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if from_kernel(layout) {
            // SAFETY: `alloc` mapped a block of this size there.
            unsafe { libc::munmap(at.cast(), layout.size()) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(at, layout) }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is no overflow with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !from_kernel(layout) && !from_kernel(new) && layout.align() <= ALIGNED {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(at, layout, size) };
        }
        // SAFETY: two separate blocks, both at least as long as what is copied; the old one is freed once.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(at, to, layout.size().min(size));
                self.dealloc(at, layout);
            }
            to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_blocks_keep_what_is_in_them() {
        for log in 0..13 {
            let layout = |size| Layout::from_size_align(size, 1 << log).expect("a small one");
            // SAFETY: blocks of this heap, within their sizes, given back once.
            unsafe {
                let mut at = HEAP.alloc(layout(100));
                for (from, to) in [(100, 5_000), (5_000, 300_000), (300_000, 70)] {
                    assert_eq!(at as usize % (1 << log), 0);
                    at.write_bytes(log as u8, from);
                    at = HEAP.realloc(at, layout(from), to);
                    assert!((0..from.min(to)).all(|i| at.add(i).read() == log as u8));
                }
                HEAP.dealloc(at, layout(70));
            }
        }
    }
}
