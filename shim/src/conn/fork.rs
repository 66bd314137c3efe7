//! A forked child closes its copies of the descriptors that hold our names, so that it does not keep a name alive
//! beyond its parent.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors held, -1 where there is none. More names than this in one process are held all the same, only a
/// forked child keeps those too.
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
