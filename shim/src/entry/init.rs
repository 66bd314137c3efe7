//! What we answer from the first call on: the start of MPI, and the class and text of our error codes.

use crate::bind::bind;
use crate::forward::{self as pmpi, Face};
use crate::{abi, error, forward, life};
use base::settings;
use std::ffi::c_int;

pub fn Init(face: Face, argc: usize, argv: usize) -> c_int {
    // SAFETY: the function of this face is MPI_Init.
    let code = unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(usize, usize) -> c_int>(initialiser(face))(argc, argv)
    };
    started(code)
}

pub fn Init_thread(face: Face, argc: usize, argv: usize, required: usize, provided: usize) -> c_int {
    // SAFETY: the function of this face is MPI_Init_thread.
    let code = unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(usize, usize, usize, usize) -> c_int>(initialiser(face))(
            argc, argv, required, provided,
        )
    };
    started(code)
}

/// The class of one of our codes; MPI's own answer for any other.
pub fn Error_class(face: Face, code: usize, class: usize) -> c_int {
    if let Some(ours) = error::class_of_code(code as c_int) {
        // SAFETY: the program's int.
        unsafe { (class as *mut c_int).write(ours) };
        return 0;
    }
    forward!(face, code, class)
}

/// The text of one of our codes; MPI's own for any other.
pub fn Error_string(face: Face, code: usize, string: usize, len: usize) -> c_int {
    if let Some(ours) = error::text_of_code(code as c_int) {
        let text = ours.as_bytes_with_nul();
        // SAFETY: the program's int, and its MPI_MAX_ERROR_STRING bytes, which no text of ours exceeds.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), string as *mut u8, text.len());
            (len as *mut c_int).write(text.len() as c_int - 1);
        }
        return 0;
    }
    forward!(face, code, string, len)
}

/// The function below that starts MPI. Without any, no error handler could be called either.
fn initialiser(face: Face) -> *const () {
    let below = forward::native(face.0);
    if below == forward::absent() && forward::library().is_none() {
        error::die(&format!("MPI_Init: {}", base::NO_LIBRARY));
    }
    below
}

fn started(code: c_int) -> c_int {
    life::note_passed();
    if code == 0 && bind().is_ok() {
        life::watch_finalize();
        judge_settings();
    }
    code
}

/// Settings that mean nothing are told of, once for the whole job.
fn judge_settings() {
    let (mut rank, complaints) = (-1, settings::complaints());
    // SAFETY: MPI has just started, so its world is there.
    if !complaints.is_empty() && unsafe { pmpi::comm_rank(abi::get().comm_world, &mut rank) } == 0 && rank == 0 {
        base::log!(Notice, "{}", complaints.join("; "));
    }
}
