//! A full fence in several processes at once (membarrier(2)), so that senders need none of their own.
//!
//! A sender needs a full fence for every message, between publishing it and reading whether the receiver sleeps; a receiver
//! needs one only when it goes to sleep. Where the kernel lets the receiver have all running threads of both processes pass a
//! fence, the sender only has to keep the compiler from reordering.
//!
//! Used by mapped memory and by the handshake. Invariant: a process that has said that it takes part does so as long as it
//! lives.

use base::fence::OF_PROCESSES;
use std::sync::atomic::{Ordering, fence};

/// Whether this process takes part: its threads pass a fence when another process calls [`everywhere`]. It is registered with
/// the kernel here, unless it is already.
pub(crate) fn takes_part() -> bool {
    OF_PROCESSES.register()
}

/// A full fence here and in every process that takes part.
pub(crate) fn everywhere() {
    // Until this process is registered, no lane of it leaves fences to others.
    if !OF_PROCESSES.is_registered() || !OF_PROCESSES.make() {
        fence(Ordering::SeqCst);
    }
}
