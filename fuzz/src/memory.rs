//! How much memory one input takes.
//!
//! The allocator of every target counts. Invariant: what an input has at most, and what it leaves behind, is known when it
//! is done; a target's limits are compared with that ([`crate::run`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// No decoder asks for so much at once: such a request fails, which ends the program.
const NEVER: usize = 1 << 30;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// Begins to count anew, from nothing.
pub fn begin() {
    NOW.set(0);
    MOST.set(0);
}

/// The most bytes that this thread had at a time since [`begin`], and those that it has now.
pub fn taken() -> (isize, isize) {
    (MOST.get(), NOW.get())
}

/// Counts the bytes of each thread.
pub struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn add(bytes: isize) {
    let now = NOW.get() + bytes;
    NOW.set(now);
    if now > MOST.get() {
        MOST.set(now);
    }
}

// SAFETY: all memory is the system's, by its own functions; counting touches only two cells of this thread, which need no
// memory of their own and no end.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > NEVER {
            return std::ptr::null_mut();
        }
        add(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > NEVER {
            return std::ptr::null_mut();
        }
        add(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > NEVER {
            return std::ptr::null_mut();
        }
        add(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}
