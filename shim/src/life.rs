//! MPI_Init and MPI_Finalize: whether MPI_Init came through this library, and the hook by which this library ends its
//! transfers in MPI_Finalize, after all that the program does there.

use crate::conn::{claim, directory, summary};
use crate::forward as pmpi;
use crate::{abi, attr, inter, progress};
use node::Node;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

/// MPI_Finalize gives up when no data has reached the other job for this time.
const DRAIN: Duration = Duration::from_secs(10);

static PASSED: AtomicBool = AtomicBool::new(false);

/// Whether the program's MPI_Init came through this library. If not, none of the program's calls does.
pub fn passed() -> bool {
    PASSED.load(Ordering::Relaxed)
}

/// Sets an attribute on MPI_COMM_SELF, whose delete callback ends this library. MPI_Finalize deletes these attributes
/// first of all, in the reverse order of their setting (MPI 4.1, section 11.2.4). This one is set right after MPI_Init,
/// so its callback comes after the program's own, which may still use an inter-communicator.
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

/// The delete callback: ends this library in MPI_Finalize.
unsafe extern "C" fn finalizing(_comm: u64, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    if let Some(node) = Node::running() {
        summary::begin(node);
    }
    directory::end(DRAIN);
    for end in &ENDS {
        if let Some(end) = end.get() {
            end();
        }
    }
    inter::settle_twins();
    // By the couplings, operators find this process while it delivers.
    claim::give_back_names();
    progress::clear();
    if let Some(node) = Node::started() {
        let lost = node.part(DRAIN);
        if lost > 0 {
            base::log!(Error, "{lost} processes of other jobs did not acknowledge everything before MPI_Finalize");
        }
        summary::end(node);
        claim::give_back_all();
        node.shut();
    }
    0
}

/// The parts of this crate that have something to do first in MPI_Finalize, in this order.
#[derive(Clone, Copy)]
pub enum Part {
    Notices,
    Names,
    Published,
    Ports,
    Spawned,
    Kept,
}

static ENDS: [OnceLock<fn()>; 6] = [const { OnceLock::new() }; 6];

/// Has `end` called in MPI_Finalize. Only the first function of each part is kept.
pub fn end_with(part: Part, end: fn()) {
    ENDS[part as usize].get_or_init(|| end);
    watch_finalize();
}

/// Says that MPI_Init has come through this library.
pub fn note_passed() {
    if !PASSED.swap(true, Ordering::Relaxed) {
        node::hold_on_signal();
    }
}
