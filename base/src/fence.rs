//! Fences that one thread has others pass (membarrier(2)), so that these need none of their own.
//!
//! The kernel is asked beforehand. It answers at once while a process has one thread. Later it takes some 15 ms, in which fences
//! of all other processes wait too. So MPI_Init asks ([`register_while_alone`]), and later only who has to.

use std::ffi::c_int;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// All running threads of this process pass it.
pub static OF_THREADS: Fence =
    Fence::new(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
/// All running threads of all processes that are registered pass it.
pub static OF_PROCESSES: Fence =
    Fence::new(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED);

/// A kind of fence.
pub struct Fence {
    register: c_int,
    make: c_int,
    registered: AtomicBool,
    /// Held while the kernel is asked: a second request would take as long again.
    asking: Mutex<()>,
}

impl Fence {
    const fn new(register: c_int, make: c_int) -> Fence {
        Fence { register, make, registered: AtomicBool::new(false), asking: Mutex::new(()) }
    }

    /// Registers this process. False: the kernel has no such fence. A process that is registered may ask again, which takes no
    /// time; one that was restored from an image has to.
    pub fn register(&self) -> bool {
        let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let is_registered = membarrier(self.register);
        self.registered.store(is_registered, Ordering::Release);
        is_registered
    }

    /// Whether [`Fence::register`] has succeeded.
    pub fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Acquire)
    }

    /// The fence. False: it was not made, since this process had to be registered.
    pub fn make(&self) -> bool {
        membarrier(self.make)
    }
}

/// Registers this process for all kinds if it has only one thread.
pub fn register_while_alone() {
    // The folder has one link for itself, one from above, and one for each thread.
    if fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3) {
        OF_THREADS.register();
        OF_PROCESSES.register();
    }
}

/// The slowest fence of all threads, which needs no registration. False: the kernel does not have it.
pub fn slow() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL)
}

fn membarrier(command: c_int) -> bool {
    // SAFETY: the call takes three numbers and writes to no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test itself runs in a second thread.
    #[test]
    fn a_process_with_threads_registers_only_when_it_has_to() {
        register_while_alone();
        for fence in [&OF_THREADS, &OF_PROCESSES] {
            assert!(!fence.is_registered());
            assert!(fence.register() && fence.is_registered() && fence.make());
        }
    }
}
