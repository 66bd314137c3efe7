//! The added calls for Fortran: names in lower case with an underscore, arguments by address, lengths of strings last.
//! All other calls of a Fortran program reach this library by the C names that its MPI's Fortran layer calls, with the
//! conversions of handles among them.
#![allow(clippy::missing_safety_doc)]

use crate::conn::{
    MPI_Comm, MPI_Conn_error_class, MPI_Conn_hold, MPI_Conn_intercomm_create, MPI_Conn_register, MPI_Conn_remove,
    MPI_Conn_resume,
};
use crate::forward::{comm_from_fortran, comm_to_fortran};
use crate::{group, message, request};
use node::leaders::MAX_NAME;
use std::ffi::{CString, c_char, c_int};

/// A blank-padded Fortran string as a C string. A name that is too long is not cut, so that it is refused later.
unsafe fn trimmed(name: *const c_char, len: usize) -> CString {
    // SAFETY: the compiler passes the string's own length.
    let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), len) };
    let end = bytes.iter().rposition(|b| *b != b' ' && *b != 0).map_or(0, |at| at + 1);
    let bytes = &bytes[..end.min(MAX_NAME + 1)];
    // A zero byte would end the name, so it is replaced by a control character, for which the name is refused.
    CString::new(bytes.iter().map(|b| if *b == 0 { 1 } else { *b }).collect::<Vec<_>>()).unwrap_or_default()
}

/// The conversions between tokens and INTEGERs. `None`: it is no token.
macro_rules! conversions {
    ($($kind:ident: $c2f:ident $toint:ident $f2c:ident $fromint:ident;)*) => { $(
        pub fn $c2f(token: usize) -> Option<usize> {
            $kind::to_int(token as u64).map(|int| int as usize)
        }
        pub use $c2f as $toint;

        pub fn $f2c(int: usize) -> Option<usize> {
            $kind::from_int(int as c_int).map(|token| token as usize)
        }
        pub use $f2c as $fromint;
    )* };
}

conversions! {
    request: Request_c2f Request_toint Request_f2c Request_fromint;
    group: Group_c2f Group_toint Group_f2c Group_fromint;
    message: Message_c2f Message_toint Message_f2c Message_fromint;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_register_(
    name: *const c_char,
    local_comm: *const c_int,
    handle: *mut c_int,
    ierror: *mut c_int,
    len: usize,
) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe {
        let comm = MPI_Comm::new(comm_from_fortran(local_comm.read()));
        ierror.write(MPI_Conn_register(trimmed(name, len).as_ptr(), comm, handle));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_intercomm_create_(
    handle: *const c_int,
    remote_name: *const c_char,
    newintercomm: *mut c_int,
    ierror: *mut c_int,
    len: usize,
) {
    let mut new = MPI_Comm::new(0);
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe {
        let code = MPI_Conn_intercomm_create(handle.read(), trimmed(remote_name, len).as_ptr(), &mut new);
        if code == 0 {
            newintercomm.write(comm_to_fortran(new.handle()));
        }
        ierror.write(code);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_remove_(handle: *const c_int, ierror: *mut c_int) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe { ierror.write(MPI_Conn_remove(handle.read())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_error_class_(which: *const c_int, errorclass: *mut c_int, ierror: *mut c_int) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe { ierror.write(MPI_Conn_error_class(which.read(), errorclass)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_hold_(ierror: *mut c_int) {
    // SAFETY: a Fortran caller passes the address of its variable.
    unsafe { ierror.write(MPI_Conn_hold()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_resume_(ierror: *mut c_int) {
    // SAFETY: a Fortran caller passes the address of its variable.
    unsafe { ierror.write(MPI_Conn_resume()) }
}
