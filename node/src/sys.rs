//! fork(2): a child has none of its parent's threads, and must not touch its sockets or locks.
//!
//! Used by `node` at each call. Invariants: once [`forked`] is true in a process, it stays true; a child keeps no connection open that has to end when its parent dies.

use nix::sys::resource::{Resource, getrlimit};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    // SAFETY: every call asks `forked` first, so nothing in this child uses them, and the objects that own them live in statics
    // that are never dropped.
    unsafe { base::fork::close_kept() };
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

/// How many descriptors this process may have open: the soft limit RLIMIT_NOFILE.
pub(crate) fn most_descriptors() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}
