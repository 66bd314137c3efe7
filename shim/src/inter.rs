//! The live inter-communicators, by the handle of their carrier.
//!
//! The carrier is an intra-communicator of the MPI below over the local group: rank, size, group, names, attributes
//! and error handlers work on it natively. Invariant: a carrier is in the table from before the program gets it until
//! the program frees it; an [`Inter`] lives on while requests use it.

use crate::abi;
use crate::forward::Handle;
use node::{InterId, Node};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

/// The job on the other side.
#[derive(Clone, Debug)]
pub struct Remote {
    pub name: String,
    pub incarnation: u64,
    pub size: u32,
}

/// One inter-communicator.
pub struct Inter {
    pub carrier: Handle,
    pub id: InterId,
    pub remote: Remote,
    /// The smaller of both sides' MPI_TAG_UB. Boxed: the program gets its address as an attribute.
    pub tag_ub: Box<c_int>,
    freed: AtomicBool,
}

impl Inter {
    pub fn new(carrier: Handle, id: InterId, remote: Remote, tag_ub: c_int) -> Inter {
        Inter { carrier, id, remote, tag_ub: Box::new(tag_ub), freed: AtomicBool::new(false) }
    }

    /// A native communicator that stands: the carrier until the program frees it.
    pub fn comm(&self) -> Handle {
        if self.freed.load(Ordering::Relaxed) { abi::get().comm_world } else { self.carrier }
    }
}

impl Drop for Inter {
    fn drop(&mut self) {
        if let Ok(node) = Node::get() {
            node.close(self.id);
        }
    }
}

static LIVE: LazyLock<RwLock<HashMap<Handle, Arc<Inter>>>> = LazyLock::new(Default::default);

/// How many live carriers have this hash: zero says "not ours" in a few instructions.
static FILTER: [AtomicU16; 4096] = [const { AtomicU16::new(0) }; 4096];

fn hash(handle: Handle) -> usize {
    // Handles count up (ints) or are aligned addresses: the product spreads both over the top bits.
    (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// False: certainly none of ours. Called for native communicators of any program, before anything else.
///
/// # Safety
/// None needed; the mark functions share one form.
#[inline(always)]
pub unsafe fn maybe(comm: usize) -> bool {
    let Some(abi) = abi::known() else { return false };
    FILTER[hash(comm as u64 & abi.mask)].load(Ordering::Relaxed) != 0
}

/// The same for a handle in memory.
///
/// # Safety
/// `at` is null or the address of a handle.
#[inline(always)]
pub unsafe fn maybe_at(at: usize) -> bool {
    // SAFETY: the caller's promise.
    at != 0 && abi::known().is_some() && unsafe { maybe(abi::load_handle(at) as usize) }
}

/// The inter-communicator with this handle.
pub fn find(comm: u64) -> Option<Arc<Inter>> {
    let handle = comm & abi::known()?.mask;
    LIVE.read().unwrap_or_else(|e| e.into_inner()).get(&handle).cloned()
}

pub fn insert(inter: Inter) {
    let handle = inter.carrier;
    LIVE.write().unwrap_or_else(|e| e.into_inner()).insert(handle, Arc::new(inter));
    FILTER[hash(handle)].fetch_add(1, Ordering::Relaxed);
}

pub fn remove(carrier: Handle) -> Option<Arc<Inter>> {
    let removed = LIVE.write().unwrap_or_else(|e| e.into_inner()).remove(&carrier)?;
    FILTER[hash(carrier)].fetch_sub(1, Ordering::Relaxed);
    removed.freed.store(true, Ordering::Relaxed);
    Some(removed)
}
