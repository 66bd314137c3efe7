//! The slots, and the entries that stand in them, which the build generates from `api/functions.txt`.

use super::instead::instead;
use super::joined;
use crate::error::{Place, raise};
use crate::failure::{Class, Failure};
use crate::forward::{self, CalledAs};
use crate::functions::{Code, FUNCTIONS, NAMES};
use crate::token::glance;
use crate::{abi, exports};
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the entry points are written for x86_64");

type Slot = AtomicPtr<()>;

/// What the generated entries call for functions marked `ours` and `always`: `None` means "not ours after all".
mod ours {
    pub use crate::entry::buffers::*;
    pub use crate::entry::collective::*;
    pub use crate::entry::comm::*;
    pub use crate::entry::complete::*;
    pub use crate::entry::create::*;
    pub use crate::entry::fortran::*;
    pub use crate::entry::group::*;
    pub use crate::entry::init::*;
    pub use crate::entry::p2p::*;
    pub use crate::entry::partitioned::*;
    pub use crate::entry::persistent::*;
    pub use crate::entry::ports::*;
    pub use crate::entry::probe::*;
    pub use crate::entry::requests::*;
    pub use crate::entry::some::*;
    pub use crate::entry::spawn::*;
    pub use crate::entry::status::*;
}

/// Where a failure about an argument of ours is raised, by the argument's mark in the table. `None`: it is not ours
/// after all.
mod place {
    use crate::error::Place;
    use crate::{abi, group, inter, message, request};

    pub unsafe fn comm(comm: usize) -> Option<Place> {
        inter::find(comm as u64).map(|inter| inter.errors())
    }

    /// The communicator for a call that this library does not serve: the same one if it is not ours, or the twin. The
    /// error is the place where the call is refused.
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

/// The result of a function that is not served, whose failure is raised at `place`.
#[cold]
fn refuse(slot: usize, place: Place, kind: Class) -> c_int {
    let on = match kind {
        Class::Request => "a request on an inter-communicator between jobs",
        Class::Group => "a group with members in another job",
        _ => "an inter-communicator between jobs",
    };
    raise(place, &Failure::new(kind, format!("{} is not available on {on}; {}", name(slot), instead(name(slot)))))
}

/// The result of a call of ours that got a null pointer for its result.
#[cold]
fn nowhere(slot: usize, place: Option<Place>) -> Option<c_int> {
    let failure = Failure::new(Class::Arg, format!("{}: the place for a result is a null pointer", name(slot)));
    Some(raise(place?, &failure))
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

/// When the checking entry stands in a function's slot.
#[derive(Clone, Copy, PartialEq)]
enum Looking {
    Always,
    OnceJoined,
    Never,
}

/// Whether the checking entries are in their slots. Changed under the lock below.
static FILLED: AtomicBool = AtomicBool::new(false);
/// Held while slots are filled, so that no slot keeps an old function when the checks begin.
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
    // The first call of the program comes through here, and the MPI below is the one that this caller is bound to.
    forward::library_for(caller);
    let _filling = FILLING.lock().unwrap_or_else(|e| e.into_inner());
    let looking = match LOOKING[slot / 2] {
        Looking::Always => true,
        Looking::OnceJoined => joined::looks(look_at_arguments),
        Looking::Never => false,
    };
    if looking {
        if LOOKING[slot / 2] == Looking::OnceJoined {
            forward::settle_native(slot);
        }
        let checked = checked(slot);
        SLOTS[slot].store(checked.cast_mut(), Ordering::Relaxed);
        return checked;
    }
    match forward::find_native(slot) {
        Some(native) => {
            SLOTS[slot].store(native.cast_mut(), Ordering::Relaxed);
            native
        }
        // There is no MPI yet, or it lacks the function. The next call looks again.
        None => forward::absent(),
    }
}

/// The checking entry of a slot. It is wanted once there is an inter-communicator, so the ABI is known.
fn checked(slot: usize) -> *const () {
    let glance = GLANCES.iter().find(|(at, _)| *at == slot && is_x86_feature_detected!("avx2"));
    glance.map_or(CHECKED[slot], |(_, by_width)| by_width[usize::from(abi::is_wide())]).0
}

/// Puts the checking entries into their slots.
fn look_at_arguments() {
    let _filling = FILLING.lock().unwrap_or_else(|e| e.into_inner());
    if !FILLED.swap(true, Ordering::Relaxed) {
        for (i, slot) in SLOTS.iter().enumerate() {
            // A function that was never called has its resolver still, which does the same later.
            if LOOKING[i / 2] == Looking::OnceJoined && !forward::found(i).is_null() {
                slot.store(checked(i).cast_mut(), Ordering::Relaxed);
            }
        }
    }
}

/// The resolver by which the dynamic linker finds the function of a slot's name.
pub fn resolver(slot: usize) -> *const () {
    VISIBLE[slot].0
}
