//! Attributes on objects of the MPI below, whose delete callbacks tell that an object is freed; and whether the program has any.

use crate::forward as pmpi;
use crate::shadow::sees_attributes;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// The program has set an attribute on a communicator.
static SET: AtomicBool = AtomicBool::new(false);

/// The program sets an attribute on a communicator.
pub fn note_set() {
    SET.store(true, Ordering::Relaxed);
}

/// Whether a duplicate of a communicator of the program's may get attributes, by callbacks of the program's.
pub fn may_be_copied() -> bool {
    SET.load(Ordering::Relaxed) || !sees_attributes()
}

/// A delete callback of a communicator or datatype. Its arguments are the handle, the keyval, the value and the extra
/// state.
pub type OnDelete = unsafe extern "C" fn(u64, c_int, *mut c_void, *mut c_void) -> c_int;

/// The copy callback: a duplicate of the object does not get the attribute.
unsafe extern "C" fn never_copied(
    _object: u64,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a flag to write.
    unsafe { flag.write(0) };
    0
}

/// A keyval for attributes of communicators. `None`: the MPI below makes none.
pub fn comm_keyval(on_delete: OnDelete) -> Option<c_int> {
    let mut keyval = 0;
    // SAFETY: both callbacks have the types that MPI asks for.
    let made = unsafe {
        pmpi::comm_create_keyval(never_copied as *const (), on_delete as *const (), &mut keyval, std::ptr::null_mut())
    };
    (made == 0).then_some(keyval)
}

/// A keyval for attributes of datatypes. `None`: the MPI below makes none.
pub fn type_keyval(on_delete: OnDelete) -> Option<c_int> {
    let mut keyval = 0;
    // SAFETY: both callbacks have the types that MPI asks for.
    let made = unsafe {
        pmpi::type_create_keyval(never_copied as *const (), on_delete as *const (), &mut keyval, std::ptr::null_mut())
    };
    (made == 0).then_some(keyval)
}
