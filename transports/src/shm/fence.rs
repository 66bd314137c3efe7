//! A full fence in several processes at once (membarrier(2)), so that senders need none of their own.
//!
//! A sender needs a full fence for every message, between publishing it and reading whether the receiver sleeps; a receiver
//! needs one only when it goes to sleep. Where the kernel lets the receiver have all running threads of both processes pass a
//! fence, the sender only has to keep the compiler from reordering.
//!
//! Used by mapped memory and by the handshake. Invariant: a process that has said that it takes part does so as long as it
//! lives.

use base::fence::membarrier;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

/// Whether this process takes part: its threads pass a fence when another process calls [`everywhere`]. The first call
/// registers it with the kernel.
pub(super) fn takes_part() -> bool {
    static TAKES_PART: OnceLock<bool> = OnceLock::new();
    *TAKES_PART.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED))
}

/// A full fence here and in every process that takes part.
pub(super) fn everywhere() {
    if !takes_part() || !membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
        fence(Ordering::SeqCst);
    }
}
