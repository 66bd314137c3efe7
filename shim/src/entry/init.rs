//! The calls that this library serves from the first call on: MPI_Init, MPI_Abort, and the class and text of its error codes.

use super::joined::hand_out;
use crate::bind::bind;
use crate::conn::claim::give_back_before_end;
use crate::error::Place;
use crate::forward::{self as pmpi, CalledAs};
use crate::spawn::parent;
use crate::{abi, error, forward, life};
use base::{fence, settings};
use std::ffi::c_int;

pub fn Init(called_as: CalledAs, argc: usize, argv: usize) -> c_int {
    // Most MPIs begin threads in it.
    fence::register_while_alone();
    // SAFETY: the function that was called is MPI_Init.
    let code = unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(usize, usize) -> c_int>(initialiser(called_as))(
            argc, argv,
        )
    };
    started(code)
}

pub fn Init_thread(called_as: CalledAs, argc: usize, argv: usize, required: usize, provided: usize) -> c_int {
    fence::register_while_alone();
    // SAFETY: the function that was called is MPI_Init_thread.
    let code = unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(usize, usize, usize, usize) -> c_int>(initialiser(
            called_as,
        ))(argc, argv, required, provided)
    };
    started(code)
}

/// The MPI below ends the job, when the names of this process are given back.
pub fn Abort(called_as: CalledAs, comm: usize, code: usize) -> c_int {
    give_back_before_end();
    forward!(called_as, comm, code)
}

/// The class of one of our codes. For any other code, the MPI below is called.
pub fn Error_class(called_as: CalledAs, code: usize, class: usize) -> c_int {
    if let Some(ours) = error::class_of_code(code as c_int) {
        // SAFETY: the program's int.
        unsafe { (class as *mut c_int).write(ours) };
        return 0;
    }
    forward!(called_as, code, class)
}

/// The text of one of our codes. For any other code, the MPI below is called.
pub fn Error_string(called_as: CalledAs, code: usize, string: usize, len: usize) -> c_int {
    if let Some(ours) = error::text_of_code(code as c_int) {
        let text = ours.as_bytes_with_nul();
        // SAFETY: the program's int, and its MPI_MAX_ERROR_STRING bytes, which no text of ours exceeds.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), string as *mut u8, text.len());
            (len as *mut c_int).write(text.len() as c_int - 1);
        }
        return 0;
    }
    forward!(called_as, code, string, len)
}

/// The function below that starts MPI. If there is none, the process ends, since there is no error handler either.
fn initialiser(called_as: CalledAs) -> *const () {
    let below = forward::native(called_as.0);
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
        if let Some(failed) = join_parents() {
            return failed;
        }
    }
    code
}

/// Joins the parents of a job that MPI_Comm_spawn has started. The code if that fails.
fn join_parents() -> Option<c_int> {
    match parent::join()? {
        Ok(inter) => {
            let (mut handle, id, shadow) = (0u64, inter.id, inter.shadow);
            // SAFETY: a place as wide as any handle.
            unsafe { hand_out(inter, &raw mut handle as usize) };
            parent::set(shadow, id);
            None
        }
        Err(failure) => Some(error::raise(Place::world(), &failure.of("MPI_Init"))),
    }
}

/// Reports settings without a meaning, once for the whole job.
fn judge_settings() {
    let (mut rank, complaints) = (-1, settings::complaints());
    // SAFETY: MPI has just started, so its world is there.
    if !complaints.is_empty() && unsafe { pmpi::comm_rank(abi::get().comm_world, &mut rank) } == 0 && rank == 0 {
        base::log!(Notice, "{}", complaints.join("; "));
    }
}
