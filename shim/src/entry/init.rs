//! What we answer from the first call on: start and end, with the hook that lets us finish our transfers in
//! MPI_Finalize after everything the program does there, and the class of our error codes.

use crate::conn::{self, registration};
use crate::forward::{self as pmpi, Face};
use crate::{abi, attr, error, forward, house, inter, port};
use base::settings;
use node::Node;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long MPI_Finalize waits while nothing of what was sent reaches the other job.
const DRAIN: Duration = Duration::from_secs(10);

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

/// Whether the program's MPI_Init came through here. One that did not says that no other call of the program does.
pub fn passed() -> bool {
    PASSED.load(Ordering::Relaxed)
}

static PASSED: AtomicBool = AtomicBool::new(false);

/// The function below that starts MPI. Without any, no error handler could be called either.
fn initialiser(face: Face) -> *const () {
    let below = forward::native(face.0);
    if below == forward::absent() && forward::library().is_none() {
        error::die(&format!("MPI_Init: {}", base::NO_LIBRARY));
    }
    below
}

fn started(code: c_int) -> c_int {
    PASSED.store(true, Ordering::Relaxed);
    if code == 0 && abi::bind().is_ok() {
        watch_finalize();
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

/// Sets our attribute on MPI_COMM_SELF. MPI deletes the attributes there first of all in Finalize, last set first: set
/// right after Init, ours comes after all of the program's own, which may still use an inter-communicator.
pub fn watch_finalize() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let comm_self = abi::get().comm_self;
        if let Some(keyval) = attr::comm_keyval(finalizing) {
            // SAFETY: a live communicator and our own keyval.
            unsafe { pmpi::comm_set_attr(comm_self, keyval, std::ptr::null_mut()) };
        }
    });
}

unsafe extern "C" fn finalizing(_comm: u64, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    for registration in registration::take_all() {
        conn::release(&registration);
    }
    port::close_all();
    inter::settle_twins();
    conn::claim::give_back_all();
    house::clear();
    if let Some(node) = Node::started() {
        let lost = node.drain(DRAIN);
        if lost > 0 {
            base::log!(Error, "{lost} processes of other jobs did not acknowledge everything before MPI_Finalize");
        }
    }
    0
}
