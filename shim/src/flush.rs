//! Requests of `MPI_Buffer_iflush`: they complete when all messages that were in an attached buffer have left it.
//!
//! Such a request covers this library's sends and a request of the MPI below. The latter is tested by each waiting
//! thread when it pokes, and never under the node's lock.

use crate::abi;
use crate::forward::{self as pmpi, Handle};
use node::{Core, OpId};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A flush of an attached buffer.
pub struct Flush {
    /// The sends that were in the buffer.
    sends: Vec<OpId>,
    /// Whether the request of the MPI below has completed.
    native: Arc<AtomicBool>,
}

impl Flush {
    pub fn new(sends: Vec<OpId>) -> Flush {
        Flush { sends, native: Arc::new(AtomicBool::new(true)) }
    }

    /// A flush that also waits for a request of the MPI below.
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

/// Whether a request of the MPI below is pending.
pub fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Tests the requests of the MPI below.
pub fn poll() {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    // If another thread tests them at this moment, this one need not.
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
