//! Forked children close their copies of the descriptors that hold names, so that no name outlives the process that
//! holds it.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// The descriptors of held names; -1 marks a free slot. Names beyond the table are held too, but forked children keep
/// them.
static HELD: [AtomicI32; 256] = [const { AtomicI32::new(-1) }; 256];

pub fn remember(fd: RawFd) {
    static HANDLER: Once = Once::new();
    // SAFETY: the handler does what is allowed in a forked child: plain loads and close.
    HANDLER.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(close_all));
    });
    for slot in &HELD {
        if slot.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

pub fn forget(fd: RawFd) {
    for slot in &HELD {
        if slot.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

extern "C" fn close_all() {
    for slot in &HELD {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: the child's own copy of a descriptor that nothing else in the child uses.
            unsafe { libc::close(fd) };
        }
    }
}
