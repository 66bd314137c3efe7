//! The functions below to which the program's calls are forwarded.

use super::guarded::guarded;
use super::library::{Handle, Library, absent, library};
use super::tool::note_tool;
use crate::functions::{FUNCTIONS, mpi_name, pmpi_name};
use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The name by which the program called a function, `MPI_X` or `PMPI_X`, as the index of its slot.
#[derive(Clone, Copy)]
pub struct CalledAs(pub usize);

pub static NATIVE: [AtomicPtr<()>; 2 * FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2 * FUNCTIONS];

/// The function to which a native call of this slot goes. Null: it was not looked for yet.
#[inline(always)]
pub fn found(slot: usize) -> *const () {
    NATIVE[slot].load(Ordering::Relaxed)
}

/// The function to which a native call of this slot goes.
pub fn native(slot: usize) -> *const () {
    let found = found(slot);
    if found.is_null() { find_native(slot).unwrap_or(absent()) } else { found }
}

/// Finds the function of a slot for good. If there is none now, it is taken to be absent for ever.
pub fn settle_native(slot: usize) {
    if found(slot).is_null() && find_native(slot).is_none() {
        NATIVE[slot].store(absent().cast_mut(), Ordering::Relaxed);
    }
}

/// Finds the function to which a native call of this slot goes. `None`: there is none yet.
pub fn find_native(slot: usize) -> Option<*const ()> {
    let name = pmpi_name(slot);
    let next = next(mpi_name(name));
    // Some serial programs contain stubs of MPI functions without an MPI; then the calls go to the stubs.
    let Some(library) = library() else { return if slot.is_multiple_of(2) { next } else { None } };
    let native = if next.is_some_and(|next| note_tool(slot / 2, next, library)) {
        guarded(slot)
    } else if slot.is_multiple_of(2) {
        next.or_else(|| library.symbol(name)).or_else(|| conversion(name, library))?
    } else {
        library.symbol(name).or_else(|| conversion(name, library))?
    };
    NATIVE[slot].store(native.cast_mut(), Ordering::Relaxed);
    Some(native)
}

/// A stand-in for a conversion between handle and INTEGER that the MPI below lacks: the same function by its other
/// name; or the identity, if handles are ints and the conversion is a macro in C.
fn conversion(pmpi: &CStr, library: &Library) -> Option<*const ()> {
    extern "C" fn the_same(value: usize) -> usize {
        value
    }
    const NAMES: [(&str, &str); 4] =
        [("_c2f", "_toint"), ("_toint", "_c2f"), ("_f2c", "_fromint"), ("_fromint", "_f2c")];
    let name = pmpi.to_str().ok()?;
    let other = NAMES.iter().find_map(|(end, other)| name.strip_suffix(end).map(|kind| format!("{kind}{other}")))?;
    Some(library.symbol(&CString::new(other).ok()?).unwrap_or(the_same as *const ()))
}

fn next(name: &CStr) -> Option<*const ()> {
    // SAFETY: a terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found as *const ())
}

/// The C handle of a Fortran communicator.
pub fn comm_from_fortran(comm: c_int) -> Handle {
    match library().and_then(|l| l.symbol(c"PMPI_Comm_f2c").or_else(|| conversion(c"PMPI_Comm_f2c", l))) {
        // SAFETY: every conversion takes and gives a register; an int below the ABI's width stays one.
        Some(f) => unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn(c_int) -> Handle>(f)(comm) },
        None => 0,
    }
}

/// The Fortran INTEGER of a communicator.
pub fn comm_to_fortran(comm: Handle) -> c_int {
    match library().and_then(|l| l.symbol(c"PMPI_Comm_c2f").or_else(|| conversion(c"PMPI_Comm_c2f", l))) {
        // SAFETY: as above.
        Some(f) => unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn(Handle) -> c_int>(f)(comm) },
        None => 0,
    }
}
