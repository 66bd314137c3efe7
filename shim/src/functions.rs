//! The exported functions and their names. Each function has two slots, for `MPI_X` and `PMPI_X`.

use std::ffi::CStr;

include!(concat!(env!("OUT_DIR"), "/names.rs"));

/// The address of a function, as an element of a table.
#[derive(Clone, Copy)]
pub struct Code(pub *const ());

// SAFETY: an address of code, never written through.
unsafe impl Sync for Code {}

/// `MPI_X` of `PMPI_X`.
pub fn mpi_name(pmpi: &'static CStr) -> &'static CStr {
    // SAFETY: the name is longer than its P, and stays terminated.
    unsafe { CStr::from_ptr(pmpi.as_ptr().add(1)) }
}

/// `PMPI_X` of a slot's function.
pub fn pmpi_name(slot: usize) -> &'static CStr {
    NAMES[slot / 2]
}

/// The name that a slot stands for: `MPI_X` or `PMPI_X`.
pub fn name_of(slot: usize) -> &'static CStr {
    if slot.is_multiple_of(2) { mpi_name(NAMES[slot / 2]) } else { NAMES[slot / 2] }
}
