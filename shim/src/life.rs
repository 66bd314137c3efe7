//! From MPI_Init to MPI_Finalize: whether the first came through us, and the hook that lets us finish our transfers in the
//! second, after everything the program does there.

use crate::conn::claim;
use crate::forward as pmpi;
use crate::{abi, attr, house, inter};
use node::Node;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

/// How long MPI_Finalize waits while nothing of what was sent reaches the other job.
const DRAIN: Duration = Duration::from_secs(10);

static PASSED: AtomicBool = AtomicBool::new(false);

/// Whether the program's MPI_Init came through here. One that did not says that no other call of the program does.
pub fn passed() -> bool {
    PASSED.load(Ordering::Relaxed)
}

/// Sets our attribute on MPI_COMM_SELF. MPI deletes the attributes there first of all in Finalize, last set first: set
/// right after Init, ours comes after all of the program's own, which may still use an inter-communicator.
pub fn watch_finalize() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let comm_self = abi::get().comm_self;
        if let Some(keyval) = attr::comm_keyval(finalizing) {
            // SAFETY: a live communicator and our own keyval.
            unsafe { pmpi::comm_set_attr(comm_self, keyval, std::ptr::null_mut()) };
        }
    });
}

unsafe extern "C" fn finalizing(_comm: u64, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    for end in &ENDS {
        if let Some(end) = end.get() {
            end();
        }
    }
    inter::settle_twins();
    claim::give_back_all();
    house::clear();
    if let Some(node) = Node::started() {
        let lost = node.drain(DRAIN);
        if lost > 0 {
            base::log!(Error, "{lost} processes of other jobs did not acknowledge everything before MPI_Finalize");
        }
    }
    0
}

/// What a part of this room does first when MPI ends, in this order.
#[derive(Clone, Copy)]
pub enum Part {
    Names,
    Published,
    Ports,
}

static ENDS: [OnceLock<fn()>; 3] = [const { OnceLock::new() }; 3];

/// Has a part's end called when MPI ends.
pub fn end_with(part: Part, end: fn()) {
    ENDS[part as usize].get_or_init(|| end);
    watch_finalize();
}

/// MPI_Init has come through here.
pub fn note_passed() {
    PASSED.store(true, Ordering::Relaxed);
}
