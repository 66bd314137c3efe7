//! The buffers for buffered sends: the MPI below keeps the process's, so that its own sends find it; ours are counted
//! beside. A communicator of ours has its own buffer with us alone.

use crate::abi;
use crate::buffer;
use crate::entry::p2p::{hand_out, on};
use crate::error::raise;
use crate::failure::{Class, Failure};
use crate::flush::{self, Flush};
use crate::forward::{self, Face};
use crate::inter::Inter;
use crate::left;
use crate::process::node;
use crate::request::{Peer, Request, Work};
use crate::wait::wait;
use node::OpId;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

type Answer = Option<c_int>;

/// The function of a face, with two arguments.
unsafe fn native(face: Face, first: usize, second: usize) -> c_int {
    // SAFETY: the callers below are functions of two arguments, or fewer, which then leave the rest alone.
    unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(usize, usize) -> c_int>(forward::native(face.0))(
            first, second,
        )
    }
}

/// Waits for what the MPI below has of them. A buffer is detached only then: MPICH still looks into it when such a request
/// is tested afterwards.
fn finish_native() {
    if flush::is_any()
        && let Ok(node) = node()
    {
        wait(node, &|_| None, |_| (!flush::is_any()).then_some(()));
    }
}

fn attach(face: Face, at: usize, size: usize, count: i64) -> c_int {
    // SAFETY: the function of this face attaches a buffer.
    let code = unsafe { native(face, at, size) };
    if code == 0 {
        buffer::attach(None, at, count);
    }
    code
}

pub fn Buffer_attach(face: Face, at: usize, size: usize) -> c_int {
    attach(face, at, size, (size as c_int).into())
}

pub fn Buffer_attach_c(face: Face, at: usize, size: usize) -> c_int {
    attach(face, at, size, size as i64)
}

/// Returns when nothing of the buffer is needed any more, by us or by the MPI below.
pub fn Buffer_detach(face: Face, at: usize, size: usize) -> c_int {
    left::flush(None);
    finish_native();
    // SAFETY: the function of this face detaches the buffer.
    let code = unsafe { native(face, at, size) };
    if code == 0 {
        buffer::detach(None);
    }
    code
}
pub use Buffer_detach as Buffer_detach_c;

pub fn Buffer_flush(face: Face) -> c_int {
    left::flush(None);
    // SAFETY: the function of this face takes no arguments.
    unsafe { native(face, 0, 0) }
}

/// One request for both: ours, once something of ours is in the buffer.
pub fn Buffer_iflush(face: Face, at: usize) -> c_int {
    let ours = left::sends_in(None);
    // SAFETY: the function of this face takes the place for a request.
    let code = unsafe { native(face, at, 0) };
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
                left::flush(Some(inter.id));
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
        left::flush(Some(inter.id));
        Ok(())
    })
}

pub unsafe fn Comm_iflush_buffer(comm: usize, at: usize) -> Answer {
    on(comm, |inter| {
        let flush = Flush::new(numbers(&left::sends_in(Some(inter.id))));
        hand_out(request(inter, "MPI_Comm_iflush_buffer", flush), at)
    })
}
