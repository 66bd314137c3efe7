//! fork(2): a child has none of its parent's threads, and must not touch its sockets or locks.
//!
//! Used by `node` at each call, and by `watch` for each descriptor. Invariants: once [`forked`] is true in a process,
//! it stays true; a child keeps no connection open that has to end when its parent dies.

use nix::sys::resource::{Resource, getrlimit};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// The descriptors that a child closes; -1 marks a free slot. The table has a fixed size, since a child of a threaded
/// process may neither allocate nor lock. Descriptors that find no slot stay open in children.
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
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only uses atomics and close(2), which a child may do at any point.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Whether this process is a child of a process that used the library.
#[inline]
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Has forked children close this descriptor.
pub(crate) fn keep_from_children(fd: impl AsFd) {
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
pub(crate) fn let_go(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for slot in &KEPT {
        if slot.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// How many descriptors this process may have open: the soft limit RLIMIT_NOFILE.
pub(crate) fn most_descriptors() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}
