//! The library's own memory.
//!
//! LAM brings an allocator of its own, which serves the whole process and now and then has no room for a large block
//! while other threads allocate. Under LAM large blocks come from the kernel. Invariant: whether they do is decided
//! before the first of them, so a block goes back to where it came from.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

const LARGE: usize = 128 << 10;

static FROM_KERNEL: AtomicBool = AtomicBool::new(false);

/// Called by the constructor, which makes no large block.
pub fn take_large_blocks_from_kernel() {
    FROM_KERNEL.store(true, Ordering::Relaxed);
}

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

fn from_kernel(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= 4096 && FROM_KERNEL.load(Ordering::Relaxed)
}

// SAFETY: both sources give blocks of the size and alignment asked for, and a block's layout tells its source.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !from_kernel(layout) {
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
            // SAFETY: `alloc` mapped so many bytes there.
            unsafe { libc::munmap(at.cast(), layout.size()) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(at, layout) }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is no overflow with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !from_kernel(layout) && !from_kernel(new) {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(at, layout, size) };
        }
        // SAFETY: two blocks of their own, both at least as long as what is copied; the old one is given up once.
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
