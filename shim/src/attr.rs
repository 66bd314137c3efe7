//! Attributes on objects of the MPI below, whose delete callbacks tell that an object is freed.

use crate::forward as pmpi;
use std::ffi::{c_int, c_void};

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
