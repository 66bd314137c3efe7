//! Requests that are over when an attached buffer has nothing of what was in it: ours, and the MPI's own beside them.
//!
//! The MPI's part is a request of its own, which whoever waits tests along with the poke: never under the node's lock.

use crate::abi;
use crate::forward::{self as pmpi, Handle};
use node::{Core, OpId};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub struct Flush {
    /// The sends that were in the buffer.
    sends: Vec<OpId>,
    /// Whether the MPI's part is over.
    native: Arc<AtomicBool>,
}

impl Flush {
    pub fn new(sends: Vec<OpId>) -> Flush {
        Flush { sends, native: Arc::new(AtomicBool::new(true)) }
    }

    /// The same, with a request of the MPI below.
    pub fn with_native(sends: Vec<OpId>, request: Handle) -> Flush {
        let done = Arc::new(AtomicBool::new(false));
        let flush = Flush { sends, native: done.clone() };
        NATIVE.lock().unwrap_or_else(|e| e.into_inner()).push((request, done));
        ANY.store(true, Ordering::Relaxed);
        poll();
        flush
    }

    pub fn is_over(&self, core: &Core) -> bool {
        self.native.load(Ordering::Relaxed) && !self.sends.iter().any(|op| core.pending(*op))
    }
}

static NATIVE: Mutex<Vec<(Handle, Arc<AtomicBool>)>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the MPI below has any of them.
pub fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Tests what the MPI below has of them.
pub fn poll() {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    // Another thread that is at it does the same work.
    let Ok(mut native) = NATIVE.try_lock() else { return };
    let abi = abi::get();
    native.retain_mut(|(request, done)| {
        let mut flag: c_int = 1;
        if *request & abi.mask != abi.request_null {
            // SAFETY: the MPI's own request, which the program never saw; the status is ignored.
            let code = unsafe { pmpi::test(request, &mut flag, abi.status_ignore as *mut c_void) };
            flag |= c_int::from(code != 0);
        }
        done.store(flag != 0, Ordering::Relaxed);
        flag == 0
    });
    ANY.store(!native.is_empty(), Ordering::Relaxed);
}
