//! A full fence in several processes at once, so that those who need one often need none of their own.
//!
//! Who publishes and then looks whether the receiver sleeps needs a full fence between the two, for every message; who goes
//! to sleep needs one now and then. Where the kernel lets the latter have all running threads pass one (`membarrier`), a
//! publisher that has said it takes part only has to keep the compiler from changing the order.
//!
//! Used by the mapped memory and by what is told in a handshake. Invariant: who has said that it takes part does so until
//! its memory is gone.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

/// Whether this process takes part: its threads pass a fence when another calls [`everywhere`], and they pass ours. Asked for
/// at the first call.
pub fn takes_part() -> bool {
    static TAKES_PART: OnceLock<bool> = OnceLock::new();
    *TAKES_PART.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED))
}

/// A full fence here and in every process that takes part.
pub fn everywhere() {
    if !takes_part() || !membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
        fence(Ordering::SeqCst);
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes three numbers, and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
