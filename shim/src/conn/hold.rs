//! The calls around images of this process, and moves of its host: hold, resume, and what is called meanwhile.
//!
//! The C header is made from the comments here too. What they leave out for Rust's sake: functions are null or may be called.
#![allow(clippy::missing_safety_doc)]

use super::running;
use crate::error::{Place, raise};
use crate::process::node;
use node::{Function, Node, OnHold};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A function that is called around a hold, with the state that it was registered with.
#[allow(non_camel_case_types)]
pub type MPI_Conn_hold_function = Option<unsafe extern "C" fn(state: *mut c_void)>;

/// Gives up all connections of this process to other jobs, until MPI_Conn_resume: for whoever moves its virtual machine,
/// makes an image of the process, or takes a device away.
///
/// Local. Returns when no connection, shared memory or queue pair of another job is left, which takes 10 s at most. Sends
/// and receives may be called meanwhile: nothing fails, and what needs the other job waits. The other processes are told,
/// and wait too, for an hour at most. The functions of MPI_Conn_on_hold are called. A process that calls MPI_Finalize
/// comes back first. Any thread may call it between MPI_Init and MPI_Finalize. MPI_ERR_OTHER when the library cannot be
/// started.
#[unsafe(no_mangle)]
pub extern "C" fn MPI_Conn_hold() -> c_int {
    let call = "MPI_Conn_hold";
    running(call);
    match node() {
        Ok(node) => {
            let untold = node.hold();
            if untold > 0 {
                base::log!(Error, "{call}: {untold} processes of other jobs could not be told");
            }
            0
        }
        Err(failure) => raise(Place::world(), &failure.of(call)),
    }
}

/// Connects again after MPI_Conn_hold, also if this process has another address now. Local; returns at once, or when the
/// functions of MPI_Conn_on_hold have been called. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn MPI_Conn_resume() -> c_int {
    let call = "MPI_Conn_resume";
    running(call);
    match node() {
        Ok(node) => {
            node.resume();
            0
        }
        Err(failure) => raise(Place::world(), &failure.of(call)),
    }
}

/// Has functions called around each hold of this process, whoever holds it: the program, an operator, or a signal. For tools
/// that make an image of the process, or move it.
///
/// `held` is called when nothing is left that leads to other jobs, before the hold counts as done; `resuming` before the
/// process connects again. Either may be null. A pair whose `held` was due has its `resuming` called in the end. A thread of
/// the library calls them, one after the other: `held` in the order of registration, `resuming` in the reverse. It has the
/// signal mask of the thread that registered them. They may call MPI_Conn_hold and MPI_Conn_resume, which are done when all
/// have returned, and no other function of MPI unless the level of threads is MPI_THREAD_MULTIPLE. All other threads go on
/// meanwhile.
///
/// Local. May be called at any time, before MPI_Init too, and counts from the next hold on until the process ends. Returns
/// MPI_SUCCESS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_on_hold(
    held: MPI_Conn_hold_function,
    resuming: MPI_Conn_hold_function,
    state: *mut c_void,
) -> c_int {
    Node::on_hold(OnHold::new(function(held, state), function(resuming, state)));
    0
}

/// What a function is called with.
#[derive(Clone, Copy)]
struct State(*mut c_void);

// SAFETY: whoever registers it says that it may be used by another thread.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl State {
    fn get(self) -> *mut c_void {
        self.0
    }
}

fn function(function: MPI_Conn_hold_function, state: *mut c_void) -> Option<Function> {
    let (function, state) = (function?, State(state));
    // SAFETY: the caller of MPI_Conn_on_hold promises that it may be called until the process ends.
    Some(Arc::new(move || unsafe { function(state.get()) }))
}
