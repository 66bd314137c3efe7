//! The entry points: generated ones for every exported function, hand-written ones for what we do ourselves.
//!
//! Each exported symbol is one jump through `SLOTS`. A slot holds a resolver at first, then the function below, and,
//! once the first inter-communicator lives, our checked entry. Nothing but the program and PMPI tools calls in here.

/// Calls the function of this face in the MPI below.
macro_rules! forward {
    ($face:expr, $($arg:expr),*) => {{
        type Call = unsafe extern "C" fn($(forward!(@usize $arg)),*) -> c_int;
        // SAFETY: the function of this face takes these arguments.
        unsafe { std::mem::transmute::<*const (), Call>(crate::forward::native($face.0))($($arg),*) }
    }};
    (@usize $arg:expr) => { usize };
}

mod buffers;
mod collective;
mod comm;
mod complete;
mod create;
mod fortran;
mod group;
pub mod init;
mod p2p;
mod partitioned;
mod persistent;
mod ports;
mod probe;
mod quick;
mod requests;
mod some;
mod status;

use crate::error::{Class, Failure, Place, raise};
use crate::forward::{self, Face};
use crate::inter::{self, Inter};
use crate::{abi, exports};
use node::Node;

use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the entry points are written for x86_64");

type Slot = AtomicPtr<()>;

/// The address of a function, in a table.
#[derive(Clone, Copy)]
struct Code(*const ());

// SAFETY: an address of code, never written through.
unsafe impl Sync for Code {}

/// What the generated entries call for functions marked `ours` and `always`: `None` means "not ours after all".
mod ours {
    pub use super::buffers::*;
    pub use super::collective::*;
    pub use super::comm::*;
    pub use super::complete::*;
    pub use super::create::*;
    pub use super::fortran::*;
    pub use super::group::*;
    pub use super::init::*;
    pub use super::p2p::*;
    pub use super::partitioned::*;
    pub use super::persistent::*;
    pub use super::ports::*;
    pub use super::probe::*;
    pub use super::requests::*;
    pub use super::some::*;
    pub use super::status::*;
}

/// The node of this process.
pub fn node() -> Result<&'static Node, Failure> {
    Node::get().map_err(|e| Failure::new(Class::Other, e.to_string()))
}

/// Where a failure is raised that concerns an argument of ours, by the argument's mark. `None`: not ours after all.
mod place {
    use crate::error::Place;
    use crate::{abi, group, inter, message, request};

    pub unsafe fn comm(comm: usize) -> Option<Place> {
        inter::find(comm as u64).map(|inter| inter.errors())
    }

    /// What a call that we do not serve goes to: the communicator itself when it is not ours, the twin of one within one
    /// job. Else where it is refused.
    pub unsafe fn instead_of(comm: usize) -> Result<usize, Place> {
        let Some(inter) = inter::find(comm as u64) else { return Ok(comm) };
        inter.twin_for_call().map(|twin| twin as usize).ok_or(inter.errors())
    }

    pub unsafe fn request(token: usize) -> Option<Place> {
        Some(request::find(token as u64).map_or_else(Place::world, |request| request.errors()))
    }

    pub unsafe fn request_at(at: usize) -> Option<Place> {
        // SAFETY: the check found a handle there.
        unsafe { request(abi::load_handle(at) as usize) }
    }

    pub unsafe fn request_in(array: usize, count: i32) -> Option<Place> {
        // SAFETY: the check looked at the same array.
        unsafe { request::first_token(array, count) }.and_then(|token| unsafe { request(token) })
    }

    pub unsafe fn message_at(at: usize) -> Option<Place> {
        // SAFETY: the check found a handle there.
        Some(message::errors(unsafe { abi::load_handle(at) }))
    }

    pub unsafe fn group(token: usize) -> Option<Place> {
        // SAFETY: looks at the value only.
        unsafe { group::is_token(token) }.then(Place::world)
    }
}

fn name(slot: usize) -> &'static str {
    NAMES[slot / 2].to_str().map_or("", |n| &n[1..])
}

/// The answer of a function that is not served, by what it was called on.
#[cold]
fn refuse(slot: usize, place: Place, kind: Class) -> c_int {
    let on = match kind {
        Class::Request => "a request on an inter-communicator between jobs",
        Class::Group => "a group with members in another job",
        _ => "an inter-communicator between jobs",
    };
    raise(place, &Failure::new(kind, format!("{} is not available on {on}; {}", name(slot), instead(name(slot)))))
}

/// What to do instead of a call that is refused. With the rest it fits into LAM's 256 bytes.
fn instead(name: &str) -> String {
    let is = |words: &[&str]| words.iter().any(|word| name.to_lowercase().contains(word));
    let way = if is(&["neighbor", "cart", "graph", "topo", "win_", "file_", "scan"]) {
        "use this job's own communicator for it"
    } else if is(&["bcast", "barrier"]) {
        "MPI_Bcast and MPI_Barrier work"
    } else if is(&["reduce", "gather", "scatter", "alltoall"]) {
        "do it in each job, let ranks 0 swap results by MPI_Sendrecv, and spread them"
    } else if is(&["merge", "create", "spawn"]) {
        "MPI_Comm_dup, _split and _create work"
    } else {
        "there is no other way"
    };
    format!("{way}. What works: docs/coverage.md")
}

/// The failure of a call of ours that some inter-communicators only can serve.
fn unavailable(call: &str) -> Failure {
    Failure::new(
        Class::Comm,
        format!("{call} is not available on an inter-communicator between jobs; {}", instead(call)),
    )
}

/// The answer of a call of ours that was given no place for its result.
#[cold]
fn nowhere(slot: usize, place: Option<Place>) -> Option<c_int> {
    let failure = Failure::new(Class::Arg, format!("{}: the place for a result is a null pointer", name(slot)));
    Some(raise(place?, &failure))
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

/// When our checked entry stands in a function's slot.
#[derive(Clone, Copy, PartialEq)]
enum Looking {
    Always,
    OnceJoined,
    Never,
}

/// True once an inter-communicator has lived: from then on arguments are looked at.
static JOINED: AtomicBool = AtomicBool::new(false);
/// Held while slots are filled, so that none keeps an old function when looking begins.
static FILLING: Mutex<()> = Mutex::new(());

/// Saves the arguments, asks `resolve` what belongs in the slot (above it lies the caller's address), and goes there.
#[unsafe(naked)]
unsafe extern "C" fn resolve_common() {
    naked_asm!(
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
        "mov rdi, [rsp + 48]",
        "mov rsi, [rsp + 56]",
        "call {resolve}",
        "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "add rsp, 8",
        "jmp rax",
        resolve = sym resolve,
    )
}

extern "C" fn resolve(slot: usize, caller: *const c_void) -> *const () {
    // The first call comes through here, whatever it is, so the MPI below is the one that its caller is bound to.
    forward::library_for(caller);
    let _filling = FILLING.lock().unwrap_or_else(|e| e.into_inner());
    let looking = match LOOKING[slot / 2] {
        Looking::Always => true,
        Looking::OnceJoined => JOINED.load(Ordering::Relaxed),
        Looking::Never => false,
    };
    if looking {
        if LOOKING[slot / 2] == Looking::OnceJoined {
            forward::settle_native(slot);
        }
        SLOTS[slot].store(CHECKED[slot].0.cast_mut(), Ordering::Relaxed);
        return CHECKED[slot].0;
    }
    match forward::find_native(slot) {
        Some(native) => {
            SLOTS[slot].store(native.cast_mut(), Ordering::Relaxed);
            native
        }
        // No MPI yet, or none that has the function: look again at the next call.
        None => forward::absent(),
    }
}

/// Gives the program an inter-communicator.
///
/// # Safety
/// `at` is the address of a communicator of the program's.
pub unsafe fn hand_out(inter: Inter, at: usize) {
    let handle = inter.carrier;
    inter::insert(inter);
    look_at_arguments();
    // SAFETY: the caller's promise.
    unsafe { abi::store_handle(at, handle) };
}

/// Puts our checked entries in place.
fn look_at_arguments() {
    let _filling = FILLING.lock().unwrap_or_else(|e| e.into_inner());
    if !JOINED.swap(true, Ordering::Relaxed) {
        for (i, (slot, code)) in SLOTS.iter().zip(&CHECKED).enumerate() {
            // What was never called has its resolver still, which does the same.
            if LOOKING[i / 2] == Looking::OnceJoined && !forward::found(i).is_null() {
                slot.store(code.0.cast_mut(), Ordering::Relaxed);
            }
        }
    }
}

/// `PMPI_X` of a slot's function.
pub fn pmpi_name(slot: usize) -> &'static CStr {
    NAMES[slot / 2]
}

/// The name that a slot stands for: `MPI_X` or `PMPI_X`.
pub fn name_of(slot: usize) -> &'static CStr {
    if slot.is_multiple_of(2) { forward::mpi_name(NAMES[slot / 2]) } else { NAMES[slot / 2] }
}

/// What tells the dynamic linker where a slot's name leads.
pub fn resolver(slot: usize) -> *const () {
    VISIBLE[slot].0
}

/// The entry that passes a call through the tools below us.
pub fn guarded(slot: usize) -> *const () {
    GUARDED[slot].0
}
