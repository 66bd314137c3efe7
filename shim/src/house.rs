//! A communicator of the library's own: this process alone, errors only returned, never freed.
//!
//! Everything that we ask the MPI below on our own account goes to it: the pokes that let it make progress, and
//! questions about datatypes. So the program's communicators and their error handlers are left alone.

use crate::abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

struct House {
    comm: Handle,
    /// A receive on it that never gets a message: testing it makes progress in every MPI, and finds nothing. An
    /// MPI_Iprobe would not do: on a communicator of one process, MPICH answers it without a look around.
    pending: Mutex<Handle>,
}

static HOUSE: OnceLock<House> = OnceLock::new();

/// Makes the communicator. Before the first inter-communicator, in every process.
pub fn build() -> Result<(), Failure> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(|e| e.into_inner());
    if HOUSE.get().is_some() {
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
    let _ = HOUSE.set(House { comm, pending: Mutex::new(pending) });
    Ok(())
}

/// Takes the receive back: MPI_Finalize wants nothing pending.
pub fn clear() {
    if let Some(house) = HOUSE.get() {
        let mut pending = house.pending.lock().unwrap_or_else(|e| e.into_inner());
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
    /// The last error on a communicator of ours that nobody has asked about.
    static HEARD: Cell<c_int> = const { Cell::new(0) };
}

/// Makes errors on a communicator of ours only return, by an error handler of ours: MPI_ERRORS_RETURN has no one value
/// in the standard ABI. What a call returned is then asked of [`outcome`].
///
/// # Safety
/// `comm` is a live communicator.
pub unsafe fn errors_return(comm: Handle) -> c_int {
    /// MPI gives it further arguments, of its own.
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

/// How a call on a communicator of ours went: MPICH 5 returns success when an error handler has seen the error.
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

fn house() -> &'static House {
    HOUSE.get().expect("built before the first inter-communicator")
}

/// A call that lasts longer has moved something; with cold caches one that finds nothing takes a few.
const IDLE: Duration = Duration::from_micros(15);
/// So soon the other process may have taken it, and make room for more.
const LINGER: Duration = Duration::from_micros(50);
/// The caller has other work too.
const ENOUGH: Duration = Duration::from_millis(1);

/// Lets the MPI below make progress: a cheap native call, and more of them while they find work, of which Intel MPI does
/// one small piece at a time. Says whether something moved.
pub fn poke() -> bool {
    // Another thread that is at it does the same work.
    let Ok(mut pending) = house().pending.try_lock() else { return false };
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
    // One element to a process that is there, since some check nothing for none, or for MPI_PROC_NULL.
    let (nothing, mut request) = (0u64, 0);
    HEARD.set(0);
    // SAFETY: nothing is read until it is started, which it never is.
    unsafe {
        let code = pmpi::send_init((&raw const nothing).cast(), 1, datatype, 0, 0, house().comm, &mut request);
        outcome(code) == 0 && pmpi::request_free(&mut request) == 0
    }
}

/// Calls an error handler whose communicator the program has freed, on a short-lived one in its place.
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
