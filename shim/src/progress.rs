//! The progress communicator: a communicator of this process alone, which returns errors and is never freed.
//!
//! The library's own calls of the MPI below use it: the pokes that let the MPI make progress, and questions about
//! datatypes. So they touch neither the program's communicators nor their error handlers.

use crate::abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

struct Progress {
    comm: Handle,
    /// A receive that never gets a message. Testing it makes progress in every MPI. MPI_Iprobe does not: on a
    /// communicator of one process, MPICH answers it without making progress.
    pending: Mutex<Handle>,
}

static PROGRESS: OnceLock<Progress> = OnceLock::new();

/// Makes the communicator. Every process calls this before its first inter-communicator.
pub fn build() -> Result<(), Failure> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(|e| e.into_inner());
    if PROGRESS.get().is_some() {
        return Ok(());
    }
    let failed = || Failure::new(Class::Intern, "the MPI below gives no communicator");
    let abi = abi::get();
    let comm = lone_comm().ok_or_else(failed)?;
    let mut pending: Handle = 0;
    // SAFETY: an empty buffer, our own communicator, plain out-argument.
    if unsafe { pmpi::irecv(std::ptr::null_mut(), 0, abi.byte, 0, 0, comm, &mut pending) } != 0 {
        return Err(failed());
    }
    let _ = PROGRESS.set(Progress { comm, pending: Mutex::new(pending) });
    Ok(())
}

/// Cancels the receive: nothing may be pending in MPI_Finalize.
pub fn clear() {
    if let Some(progress) = PROGRESS.get() {
        let mut pending = progress.pending.lock().unwrap_or_else(|e| e.into_inner());
        let abi = abi::get();
        if *pending & abi.mask != abi.request_null {
            // SAFETY: our own request, ended once.
            unsafe {
                pmpi::cancel(&mut *pending);
                pmpi::wait(&mut *pending, abi.status_ignore as *mut c_void);
            }
            *pending = abi.request_null;
        }
    }
}

thread_local! {
    /// The last error on a communicator of ours that [`outcome`] has not returned yet.
    static HEARD: Cell<c_int> = const { Cell::new(0) };
}

/// Has errors on a communicator of ours returned, by an error handler of ours: MPI_ERRORS_RETURN has no single value in
/// the standard ABI. [`outcome`] then gives the error of a call.
///
/// # Safety
/// `comm` is a live communicator.
pub unsafe fn errors_return(comm: Handle) -> c_int {
    /// The error handler. MPI passes further arguments, which are not used.
    unsafe extern "C" fn hear(_comm: *mut Handle, code: *mut c_int) {
        // SAFETY: MPI gives the code.
        HEARD.set(unsafe { *code });
    }
    let mut handler: Handle = 0;
    // SAFETY: `hear` has the type of an error handler; the communicator keeps what it is given.
    unsafe {
        let mut code = pmpi::comm_create_errhandler(hear as *const (), &mut handler);
        if code == 0 {
            code = pmpi::comm_set_errhandler(comm, handler);
            pmpi::errhandler_free(&mut handler);
        }
        code
    }
}

/// The error of a call on a communicator of ours, given what it returned: MPICH 5 returns success if an error handler
/// was called.
pub fn outcome(returned: c_int) -> c_int {
    let heard = HEARD.take();
    if returned != 0 { returned } else { heard }
}

/// A new communicator of this process alone, on which errors only return.
fn lone_comm() -> Option<Handle> {
    let abi = abi::get();
    let mut comm: Handle = 0;
    // SAFETY: a live communicator, plain out-argument.
    unsafe {
        (pmpi::comm_split(abi.comm_self, 0, 0, &mut comm) == 0 && errors_return(comm) == 0).then_some(comm & abi.mask)
    }
}

fn progress() -> &'static Progress {
    PROGRESS.get().expect("built before the first inter-communicator")
}

/// A test that lasts longer than this has moved data. With cold caches, a test that finds nothing takes a few
/// microseconds.
const IDLE: Duration = Duration::from_micros(15);
/// How long testing goes on after data has moved: by then the other process may have taken it, and sent more.
const LINGER: Duration = Duration::from_micros(50);
/// The longest time of one poke, since the caller has other work too.
const ENOUGH: Duration = Duration::from_millis(1);

/// Lets the MPI below make progress by a cheap native call, which is repeated while it finds work: Intel MPI does one
/// small piece of work at a time. Returns whether data has moved.
pub fn poke() -> bool {
    // If another thread pokes at this moment, this one need not.
    let Ok(mut pending) = progress().pending.try_lock() else { return false };
    let abi = abi::get();
    let mut flag = 0;
    let begun = Instant::now();
    let (mut last, mut moved) = (begun, None);
    while *pending & abi.mask != abi.request_null {
        // SAFETY: our own request; the status is ignored.
        unsafe { pmpi::test(&mut *pending, &mut flag, abi.status_ignore as *mut c_void) };
        let now = Instant::now();
        if now - last > IDLE {
            moved = Some(now);
        }
        if now - begun > ENOUGH || moved.is_none_or(|at| now - at > LINGER) {
            break;
        }
        last = now;
    }
    moved.is_some()
}

/// Whether the MPI below would take this datatype in a send: valid and committed.
pub fn accepts_datatype(datatype: Handle) -> bool {
    // One element to an existing process: some MPIs check nothing for a count of 0, or for MPI_PROC_NULL.
    let (nothing, mut request) = (0u64, 0);
    HEARD.set(0);
    // SAFETY: nothing is read until it is started, which it never is.
    unsafe {
        let code = pmpi::send_init((&raw const nothing).cast(), 1, datatype, 0, 0, progress().comm, &mut request);
        outcome(code) == 0 && pmpi::request_free(&mut request) == 0
    }
}

/// Calls an error handler whose communicator the program has freed, on a temporary communicator.
pub fn call_errhandler(handler: Handle, code: c_int) {
    if let Some(mut comm) = lone_comm() {
        // SAFETY: our own communicator, freed once.
        unsafe {
            pmpi::comm_set_errhandler(comm, handler);
            pmpi::comm_call_errhandler(comm, code);
            pmpi::comm_free(&mut comm);
        }
    }
}
