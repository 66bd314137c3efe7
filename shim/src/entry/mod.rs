//! The entry points: generated ones for every exported function, hand-written ones for what we do ourselves.
//!
//! Each exported symbol is one jump through `SLOTS`. A slot holds a resolver at first, then the function below, and,
//! once the first inter-communicator lives, our checked entry. Nothing but the program and PMPI tools calls in here.

mod comm;
mod complete;
mod fortran;
mod group;
pub mod init;
mod p2p;

use crate::forward::{self, Face};

use std::arch::naked_asm;
use std::ffi::{CStr, c_int};
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
    pub use super::comm::*;
    pub use super::complete::*;
    pub use super::group::*;
    pub use super::init::*;
    pub use super::p2p::*;
}

/// What the generated entries call for functions marked `refuse`.
mod refuse {
    use super::NAMES;
    use crate::error::{Class, Failure, raise};
    use crate::{abi, inter};
    use std::ffi::c_int;

    fn name(slot: usize) -> &'static str {
        NAMES[slot / 2].to_str().map_or("", |n| &n[1..])
    }

    fn refusal(slot: usize, class: Class, what: &str) -> Failure {
        Failure::new(class, format!("{} is not available on {what} between jobs", name(slot)))
    }

    pub unsafe fn comm(slot: usize, comm: usize) -> Option<c_int> {
        let inter = inter::find(comm as u64)?;
        Some(raise(inter.carrier, &refusal(slot, Class::Comm, "an inter-communicator")))
    }

    pub unsafe fn comm_at(slot: usize, at: usize) -> Option<c_int> {
        // SAFETY: `maybe_at` found a handle there.
        unsafe { comm(slot, abi::load_handle(at) as usize) }
    }

    pub unsafe fn request(slot: usize, _request: usize) -> Option<c_int> {
        Some(raise(abi::get().comm_world, &refusal(slot, Class::Request, "a request on an inter-communicator")))
    }

    pub unsafe fn request_at(slot: usize, at: usize) -> Option<c_int> {
        // SAFETY: nothing is read.
        unsafe { request(slot, at) }
    }

    pub unsafe fn group(slot: usize, _group: usize) -> Option<c_int> {
        Some(raise(abi::get().comm_world, &refusal(slot, Class::Group, "the remote group of an inter-communicator")))
    }
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

/// Saves the arguments, asks `resolve` what belongs in the slot, and goes there.
#[unsafe(naked)]
unsafe extern "C" fn resolve_common() {
    naked_asm!(
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
        "mov rdi, [rsp + 48]",
        "call {resolve}",
        "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "add rsp, 8",
        "jmp rax",
        resolve = sym resolve,
    )
}

extern "C" fn resolve(slot: usize) -> *const () {
    let _filling = FILLING.lock().unwrap_or_else(|e| e.into_inner());
    let looking = match LOOKING[slot / 2] {
        Looking::Always => true,
        Looking::OnceJoined => JOINED.load(Ordering::Relaxed),
        Looking::Never => false,
    };
    if looking {
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

/// Puts our checked entries in place. Called when an inter-communicator is about to be handed out.
pub fn look_at_arguments() {
    let _filling = FILLING.lock().unwrap_or_else(|e| e.into_inner());
    if !JOINED.swap(true, Ordering::Relaxed) {
        for (i, (slot, code)) in SLOTS.iter().zip(&CHECKED).enumerate() {
            if LOOKING[i / 2] != Looking::Never {
                slot.store(code.0.cast_mut(), Ordering::Relaxed);
            }
        }
    }
}

/// `PMPI_X` of a slot's function.
pub fn pmpi_name(slot: usize) -> &'static CStr {
    NAMES[slot / 2]
}

/// The entry that passes a call through the tools below us.
pub fn guarded(slot: usize) -> *const () {
    GUARDED[slot].0
}

pub const SLOT_COUNT: usize = 2 * FUNCTIONS;
