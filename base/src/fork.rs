//! Descriptors that forked children close, so that no child keeps a connection open that has to end when its parent dies.
//!
//! Used by whoever opens sockets for longer than a call. Invariant: a descriptor is in the table only while its owner lives.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The descriptors that a child closes; -1 marks a free slot. The table has a fixed size, since a child of a threaded
/// process may neither allocate nor lock. Descriptors that find no slot stay open in children.
static KEPT: [AtomicI32; 4096] = [const { AtomicI32::new(-1) }; 4096];

/// Closes them: for the handler of fork(2) in a child. Only atomics and close(2) are used, which a child may do at any point.
///
/// # Safety
/// Nothing in this process uses the descriptors any more, and their owners are never dropped.
pub unsafe fn close_kept() {
    for slot in &KEPT {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: the descriptor is one of ours, and the caller promises that nobody uses it.
            unsafe { libc::close(fd) };
        }
    }
}

/// Has forked children close this descriptor.
pub fn keep_from_children(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for slot in &KEPT {
        // A listener that was only paused is in the table already.
        if slot.load(Ordering::Relaxed) == fd {
            return;
        }
        if slot.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Takes a descriptor that is about to be closed out of the table.
pub fn let_go(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for slot in &KEPT {
        if slot.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}
