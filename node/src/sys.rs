//! fork: a child has none of its parent's threads and must not touch its sockets or locks.
//!
//! Used by the node's face at each call. Invariant: once true in a process, true for ever.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// From now on, [`forked`] is true in children of this process.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to a static atomic, which a child may do at any point.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}
