//! Stand-ins for functions that LAM lacks and this library calls, made of functions that LAM has.
//!
//! Only `forward::own` uses them, for the library's own calls. A program is never offered a function that its MPI
//! lacks.

use crate::abi;
use crate::forward::{Handle, Library, Own, origin, types};
use base::Family;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// The function that stands in for `PMPI_X` if the MPI below is LAM and its own function is missing or wrong.
pub fn stand_in(library: &Library, name: &CStr) -> Option<*const ()> {
    if !Family::Lam.marks(|mark| library.symbol(mark).is_some()) {
        return None;
    }
    Some(match name.to_bytes() {
        b"PMPI_Add_error_class" => add_error_class as types::Add_error_class as *const (),
        b"PMPI_Add_error_string" => add_error_string as types::Add_error_string as *const (),
        b"PMPI_Comm_call_errhandler" => comm_call_errhandler as types::Comm_call_errhandler as *const (),
        // LAM's MPI_Comm_get_errhandler returns the handler without a reference, so freeing it would take the
        // program's.
        b"PMPI_Comm_get_errhandler" => library.symbol(c"PMPI_Errhandler_get")?,
        b"PMPI_Errhandler_free" => errhandler_free as types::Errhandler_free as *const (),
        b"PMPI_Comm_idup" => comm_idup as types::Comm_idup as *const (),
        b"PMPI_Type_get_contents" => type_get_contents as types::Type_get_contents as *const (),
        b"PMPI_Type_get_envelope" => type_get_envelope as types::Type_get_envelope as *const (),
        b"PMPI_Type_get_extent_x" => type_get_extent_x as types::Type_get_extent_x as *const (),
        b"PMPI_Type_size_x" => type_size_x as types::Type_size_x as *const (),
        _ => return None,
    })
}

/// LAM's function of this name and type, which has to exist. To be used in an `unsafe` block.
macro_rules! lams {
    ($symbol:literal as $of:ty) => {{
        static OWN: Own = Own::new($symbol);
        std::mem::transmute::<*const (), $of>(OWN.get(Library::symbol))
    }};
}

/// Makes an error class. LAM's error codes hold their class in the low byte, and handlers get only that byte. So the
/// classes are numbers of one byte above LAM's own.
unsafe extern "C" fn add_error_class(class: *mut c_int) -> c_int {
    static NEXT: AtomicI32 = AtomicI32::new(100);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    if next > 255 {
        return abi::get().err_other;
    }
    // SAFETY: our own call, with a place for the result.
    unsafe { class.write(next) };
    0
}

/// Does nothing: `error` keeps the texts.
unsafe extern "C" fn add_error_string(_code: c_int, _text: *const c_char) -> c_int {
    0
}

/// LAM's number for MPI_Comm_call_errhandler, which it declares but does not implement.
const CALL_ERRHANDLER: c_int = 161;

unsafe extern "C" fn comm_call_errhandler(comm: Handle, code: c_int) -> c_int {
    // SAFETY: a live communicator. LAM calls handlers only within an MPI function whose number was set by lam_setfunc.
    unsafe {
        lams!(c"lam_setfunc" as unsafe extern "C" fn(c_int) -> c_int)(CALL_ERRHANDLER);
        lams!(c"lam_err_comm" as unsafe extern "C" fn(Handle, c_int, c_int, *const c_char) -> c_int)(
            comm,
            code,
            0,
            c"".as_ptr(),
        )
    }
}

/// Frees a handler that a program made. LAM does not count references to its own handlers.
unsafe extern "C" fn errhandler_free(handler: *mut Handle) -> c_int {
    // SAFETY: our own reference, given up once. LAM's own handlers are variables of the library; all others are
    // allocated.
    unsafe {
        if origin(handler.read() as *const c_void).is_some() {
            return 0;
        }
        lams!(c"MPI_Errhandler_free" as types::Errhandler_free)(handler)
    }
}

/// A duplicate that is complete when the call returns.
unsafe extern "C" fn comm_idup(comm: Handle, new: *mut Handle, request: *mut Handle) -> c_int {
    // SAFETY: our own call, with places for both.
    unsafe {
        request.write(abi::get().request_null);
        lams!(c"PMPI_Comm_dup" as types::Comm_dup)(comm, new)
    }
}

/// Says of each predefined type that it is named. LAM describes some of them as derived, and would let them be freed.
unsafe extern "C" fn type_get_envelope(
    datatype: Handle,
    integers: *mut c_int,
    addresses: *mut c_int,
    datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    // Predefined types are variables of the library; all others are allocated.
    if origin(datatype as *const c_void).is_some() {
        // SAFETY: our own call, with places for the results.
        unsafe {
            for count in [integers, addresses, datatypes] {
                count.write(0);
            }
            combiner.write(abi::get().combiner_named);
        }
        return 0;
    }
    // SAFETY: as above.
    unsafe {
        lams!(c"MPI_Type_get_envelope" as types::Type_get_envelope)(datatype, integers, addresses, datatypes, combiner)
    }
}

/// Gives the contents of a datatype. LAM returns the type within a hindexed type without a reference, so freeing it
/// would take the reference of the hindexed type; a duplicate of it has a reference of its own.
unsafe extern "C" fn type_get_contents(
    datatype: Handle,
    integers: c_int,
    addresses: c_int,
    datatypes: c_int,
    ints: *mut c_int,
    aints: *mut isize,
    types: *mut c_void,
) -> c_int {
    let abi = abi::get();
    let mut envelope = [0; 4];
    // SAFETY: our own call, with places for all results; handles are as wide as `Handle`.
    unsafe {
        let [ni, na, nd, combiner] = &mut envelope;
        let mut code = type_get_envelope(datatype, ni, na, nd, combiner);
        if code == 0 {
            let own = lams!(c"MPI_Type_get_contents" as types::Type_get_contents);
            code = own(datatype, integers, addresses, datatypes, ints, aints, types);
        }
        let without_reference = [abi.combiner_hindexed, abi.combiner_hindexed_integer].contains(combiner);
        let inner = types.cast::<Handle>();
        if code == 0 && without_reference && origin(inner.read() as *const c_void).is_none() {
            code = lams!(c"PMPI_Type_dup" as types::Type_dup)(inner.read(), inner);
        }
        code
    }
}

unsafe extern "C" fn type_size_x(datatype: Handle, size: *mut i64) -> c_int {
    let mut small = 0;
    // SAFETY: our own call, with a place for the result.
    unsafe {
        let code = lams!(c"PMPI_Type_size" as types::Type_size)(datatype, &mut small);
        size.write(i64::from(small));
        code
    }
}

unsafe extern "C" fn type_get_extent_x(datatype: Handle, lb: *mut i64, extent: *mut i64) -> c_int {
    // SAFETY: our own call, with places for the results; an address is as wide as they are.
    unsafe { lams!(c"PMPI_Type_get_extent" as types::Type_get_extent)(datatype, lb.cast(), extent.cast()) }
}

/// Frees the INTEGER that stands for a handle in LAM's Fortran layer.
///
/// # Safety
/// The INTEGER stands for a handle, and is not used any more.
pub unsafe fn free_integer(integer: c_int) {
    // SAFETY: the caller's promise.
    unsafe { lams!(c"lam_F_free_hdl" as unsafe extern "C" fn(c_int) -> c_int)(integer) };
}
