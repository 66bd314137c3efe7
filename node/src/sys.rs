//! fork: a child has none of its parent's threads and must not touch its sockets or locks.
//!
//! Used by the node's face at each call, and by the watch for each socket. Invariants: once true in a
//! process, [`forked`] is true for ever; a child holds no connection open that its parent's death should close.

use nix::sys::resource::{Resource, getrlimit};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// The descriptors that a child closes, -1 where there is none. A fixed table, since a child of a threaded process may
/// not allocate or lock; connections beyond it stay open in children.
static KEPT: [AtomicI32; 4096] = [const { AtomicI32::new(-1) }; 4096];

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    for slot in &KEPT {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: the descriptor is one of ours, and nothing in this child will use it: every call asks `forked`
            // first, and the objects that own it live in statics that are never dropped.
            unsafe { libc::close(fd) };
        }
    }
}

/// From now on, [`forked`] is true in children of this process.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only uses atomics and close(2), which a child may do at any point.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[inline]
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Children are to close this.
pub fn keep_from_children(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for slot in &KEPT {
        // The slot may hold the number of a listener that was only paused.
        if slot.load(Ordering::Relaxed) == fd {
            return;
        }
        if slot.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// This is about to be closed here.
pub fn let_go(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for slot in &KEPT {
        if slot.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// How many descriptors the program may have open.
pub fn most_descriptors() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}
