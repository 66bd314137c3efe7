//! The calls for buffers of buffered sends. The MPI below has the buffer of the process, so that its own sends use it,
//! and sends of this library are counted beside. Only this library has the buffer of an inter-communicator of ours.

use crate::abi;
use crate::buffer;
use crate::detached;
use crate::entry::p2p::{hand_out, on};
use crate::error::raise;
use crate::failure::{Class, Failure};
use crate::flush::{self, Flush};
use crate::forward::{self, CalledAs};
use crate::inter::Inter;
use crate::process::node;
use crate::request::{Peer, Request, Work};
use crate::wait::wait;
use node::OpId;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

type Answer = Option<c_int>;

/// Calls the function below that was called, with two arguments.
unsafe fn native(called_as: CalledAs, first: usize, second: usize) -> c_int {
    // SAFETY: the callers below are functions of two arguments, or fewer, which then leave the rest alone.
    unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(usize, usize) -> c_int>(forward::native(called_as.0))(
            first, second,
        )
    }
}

/// Waits for the MPI's part of all flushes. Only then is a buffer detached: MPICH accesses it if such a request is
/// tested later.
fn finish_native() {
    if flush::is_any()
        && let Ok(node) = node()
    {
        wait(node, &|_| None, |_| (!flush::is_any()).then_some(()));
    }
}

fn attach(called_as: CalledAs, at: usize, size: usize, count: i64) -> c_int {
    // SAFETY: the function that was called attaches a buffer.
    let code = unsafe { native(called_as, at, size) };
    if code == 0 {
        buffer::attach(None, at, count);
    }
    code
}

pub fn Buffer_attach(called_as: CalledAs, at: usize, size: usize) -> c_int {
    attach(called_as, at, size, (size as c_int).into())
}

pub fn Buffer_attach_c(called_as: CalledAs, at: usize, size: usize) -> c_int {
    attach(called_as, at, size, size as i64)
}

/// Returns when neither this library nor the MPI below needs the buffer any more.
pub fn Buffer_detach(called_as: CalledAs, at: usize, size: usize) -> c_int {
    detached::flush(None);
    finish_native();
    // SAFETY: the function that was called detaches the buffer.
    let code = unsafe { native(called_as, at, size) };
    if code == 0 {
        buffer::detach(None);
    }
    code
}
pub use Buffer_detach as Buffer_detach_c;

pub fn Buffer_flush(called_as: CalledAs) -> c_int {
    detached::flush(None);
    // SAFETY: the function that was called takes no arguments.
    unsafe { native(called_as, 0, 0) }
}

/// Returns the MPI's own request, unless messages of this library are in the buffer: then a request of ours covers
/// both.
pub fn Buffer_iflush(called_as: CalledAs, at: usize) -> c_int {
    let ours = detached::sends_in(None);
    // SAFETY: the function that was called takes the place for a request.
    let code = unsafe { native(called_as, at, 0) };
    let Some(inter) = ours.first().and_then(|request| request.inter().cloned()).filter(|_| code == 0) else {
        return code;
    };
    // SAFETY: the MPI below has written its request there.
    let both = Flush::with_native(numbers(&ours), unsafe { abi::load_handle(at) });
    match hand_out(request(&inter, "MPI_Buffer_iflush", both), at) {
        Ok(()) => 0,
        Err(failure) => raise(inter.errors(), &failure),
    }
}

fn request(inter: &Arc<Inter>, call: &'static str, flush: Flush) -> Request {
    Request::new(inter, Work::Flush(Arc::new(flush)), call, Peer::Nobody)
}

fn numbers(sends: &[Request]) -> Vec<OpId> {
    sends.iter().filter_map(|r| if let Work::Op(op) = r.work { Some(op) } else { None }).collect()
}

macro_rules! of_comm {
    ($($attach:ident $detach:ident $count:ty;)*) => { $(
        pub unsafe fn $attach(comm: usize, at: usize, size: usize) -> Answer {
            on(comm, |inter| {
                let taken = || Failure::new(Class::Buffer, concat!("MPI_", stringify!($attach), ": there is one already"));
                buffer::attach(Some(inter.id), at, (size as $count).into()).then_some(()).ok_or_else(taken)
            })
        }

        pub unsafe fn $detach(comm: usize, at: usize, size: usize) -> Answer {
            on(comm, |inter| {
                detached::flush(Some(inter.id));
                let none = || Failure::new(Class::Buffer, concat!("MPI_", stringify!($detach), ": there is none"));
                let (found, bytes) = buffer::detach(Some(inter.id)).ok_or_else(none)?;
                // SAFETY: the program's pointer and count.
                unsafe {
                    (at as *mut *mut c_void).write(found as *mut c_void);
                    (size as *mut $count).write(bytes as $count);
                }
                Ok(())
            })
        }
    )* };
}

of_comm! {
    Comm_attach_buffer Comm_detach_buffer c_int;
    Comm_attach_buffer_c Comm_detach_buffer_c i64;
}

pub unsafe fn Comm_flush_buffer(comm: usize) -> Answer {
    on(comm, |inter| {
        detached::flush(Some(inter.id));
        Ok(())
    })
}

pub unsafe fn Comm_iflush_buffer(comm: usize, at: usize) -> Answer {
    on(comm, |inter| {
        let flush = Flush::new(numbers(&detached::sends_in(Some(inter.id))));
        hand_out(request(inter, "MPI_Comm_iflush_buffer", flush), at)
    })
}
