//! membarrier(2): one thread has others pass a full fence, so that these need none of their own.

use std::ffi::c_int;

/// Runs this command. False: the kernel does not have it, or it needs a registration that was not made.
pub fn membarrier(command: c_int) -> bool {
    // SAFETY: the call takes three numbers and writes to no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
