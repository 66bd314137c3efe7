//! The added calls for Fortran: names in lower case with an underscore, arguments by address, lengths of strings last.
//! All other calls of a Fortran program reach this library by the C names that its MPI's Fortran layer calls, with the
//! conversions of handles among them.
#![allow(clippy::missing_safety_doc)]

use crate::abi;
use crate::conn::files::{MPI_Conn_getfile, MPI_Conn_putfile};
use crate::conn::hold::{MPI_Conn_hold, MPI_Conn_resume};
use crate::conn::notify::{MPI_Conn_notify, MPI_Conn_notify_cancel};
use crate::conn::reopen::Results;
use crate::conn::{
    MPI_CONN_MAX_LABEL, MPI_Comm, MPI_Conn_checkpoint, MPI_Conn_error_class, MPI_Conn_intercomm_create,
    MPI_Conn_register, MPI_Conn_remove, restart_with,
};
use crate::forward::{comm_from_fortran, comm_to_fortran};
use crate::{group, message, request};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Refused as not UTF-8, wherever the library takes text.
const NO_TEXT: u8 = 0xff;

/// A blank-padded Fortran string as a C string. One that is too long is not cut, so that it is refused later.
unsafe fn trimmed(text: *const c_char, len: usize) -> CString {
    // SAFETY: the compiler passes the string's own length.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let end = bytes.iter().rposition(|b| *b != b' ' && *b != 0).map_or(0, |at| at + 1);
    // A zero byte would end the text.
    let bytes = bytes[..end].iter().map(|b| if *b == 0 { NO_TEXT } else { *b });
    CString::new(bytes.collect::<Vec<_>>()).unwrap_or_default()
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

/// A subroutine of a Fortran program: an event and a name, whose length comes last.
type Subroutine = unsafe extern "C" fn(*const c_int, *const c_char, usize);

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_notify_(
    pattern: *const c_char,
    events: *const c_int,
    function: Option<Subroutine>,
    notice: *mut c_int,
    ierror: *mut c_int,
    len: usize,
) {
    /// `state` is the subroutine.
    unsafe extern "C" fn call(event: c_int, name: *const c_char, state: *mut c_void) {
        // SAFETY: the subroutine that was registered, and a terminated name.
        unsafe {
            let subroutine = std::mem::transmute::<*mut c_void, Subroutine>(state);
            subroutine(&event, name, CStr::from_ptr(name).count_bytes());
        }
    }
    let state = function.map_or(std::ptr::null_mut(), |function| function as *mut c_void);
    let call = function.map(|_| call as unsafe extern "C" fn(c_int, *const c_char, *mut c_void));
    // SAFETY: a Fortran caller passes addresses of its variables, and a subroutine of its own.
    unsafe { ierror.write(MPI_Conn_notify(trimmed(pattern, len).as_ptr(), events.read(), call, state, notice)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_notify_cancel_(notice: *const c_int, ierror: *mut c_int) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe { ierror.write(MPI_Conn_notify_cancel(notice.read())) }
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

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_checkpoint_(
    handle: *const c_int,
    directory: *const c_char,
    label: *const c_char,
    ierror: *mut c_int,
    directory_len: usize,
    label_len: usize,
) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe {
        let (directory, label) = (trimmed(directory, directory_len), trimmed(label, label_len));
        ierror.write(MPI_Conn_checkpoint(handle.read(), directory.as_ptr(), label.as_ptr()));
    }
}

/// The label is padded with blanks; one that is longer than its variable is an error, not cut.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_restart_(
    handle: *const c_int,
    directory: *const c_char,
    label: *mut c_char,
    max: *const c_int,
    comms: *mut c_int,
    count: *mut c_int,
    ierror: *mut c_int,
    directory_len: usize,
    label_len: usize,
) {
    let mut text = [0; MPI_CONN_MAX_LABEL as usize];
    // SAFETY: a Fortran caller passes addresses of its variables, the array as long as it says.
    unsafe {
        let max = max.read();
        // As the MPI has handles, which are at most a register wide.
        let mut handles: Vec<u64> = vec![0; max.max(0) as usize];
        let results = Results {
            label: text.as_mut_ptr(),
            room: text.len().min(label_len + 1),
            max,
            comms: handles.as_mut_ptr() as usize,
            count,
        };
        let code = restart_with(handle.read(), trimmed(directory, directory_len).as_ptr(), results);
        if code == 0 {
            let width = abi::get().family.handle_bytes;
            for at in 0..count.read() as usize {
                let comm = abi::load_handle(handles.as_ptr() as usize + at * width);
                comms.add(at).write(comm_to_fortran(comm));
            }
            let end = text.iter().position(|c| *c == 0).unwrap_or(text.len()).min(label_len);
            label.copy_from_nonoverlapping(text.as_ptr(), end);
            label.add(end).write_bytes(b' ', label_len - end);
        }
        ierror.write(code);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_getfile_(
    comm: *const c_int,
    path: *const c_char,
    local_path: *const c_char,
    ierror: *mut c_int,
    path_len: usize,
    local_path_len: usize,
) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe {
        let comm = MPI_Comm::new(comm_from_fortran(comm.read()));
        let (path, local_path) = (trimmed(path, path_len), trimmed(local_path, local_path_len));
        ierror.write(MPI_Conn_getfile(comm, path.as_ptr(), local_path.as_ptr()));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_conn_putfile_(
    comm: *const c_int,
    local_path: *const c_char,
    path: *const c_char,
    ierror: *mut c_int,
    local_path_len: usize,
    path_len: usize,
) {
    // SAFETY: a Fortran caller passes addresses of its variables.
    unsafe {
        let comm = MPI_Comm::new(comm_from_fortran(comm.read()));
        let (local_path, path) = (trimmed(local_path, local_path_len), trimmed(path, path_len));
        ierror.write(MPI_Conn_putfile(comm, local_path.as_ptr(), path.as_ptr()));
    }
}
