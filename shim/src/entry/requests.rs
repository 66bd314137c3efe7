//! What else a program may do with a request of ours: give it up, take its operation back, look at it.

use crate::abi;
use crate::entry::complete::{on_request, stale};
use crate::entry::node;
use crate::error::{Class, Failure, raise};
use crate::left;
use crate::request::{self, Peer, Work};
use crate::wait::look;
use std::ffi::c_int;

type Answer = Option<c_int>;

/// An operation that is under way goes on to its end.
pub unsafe fn Request_free(at: usize) -> Answer {
    // SAFETY: the program's request.
    let token = unsafe { abi::load_handle(at) };
    if let Some(request) = request::find(token)
        && let Work::Op(op) = request.work
        && request.partitions.is_some_and(|p| p.sends)
        && node().is_ok_and(|node| node.with(|core| core.pending(op) && !core.all_ready(op)))
    {
        let text = "MPI_Request_free: a partitioned send is under way, and not all of it is ready";
        return Some(raise(request.inter.errors(), &Failure::new(Class::Request, text)));
    }
    let Some(request) = request::remove(token) else { return Some(stale("MPI_Request_free")) };
    left::keep(request, None);
    // SAFETY: the program's request.
    unsafe { abi::store_handle(at, abi::get().request_null) };
    Some(0)
}

/// Takes back a receive that has no message yet. All else completes as if nothing had been asked, as MPI allows.
pub unsafe fn Cancel(at: usize) -> Answer {
    // SAFETY: the program's request.
    unsafe {
        on_request("MPI_Cancel", at, |_, request, node| {
            if let (Work::Op(op), Peer::From(_), None) = (&request.work, request.to, &request.beside) {
                node.cancel(*op);
            }
            0
        })
    }
}

/// Looks, and leaves the request as it is.
pub unsafe fn Request_get_status(token: usize, flag: usize, status: usize) -> Answer {
    let token = token as u64;
    let Some(request) = request::find(token) else { return Some(stale("MPI_Request_get_status")) };
    let completion = match node() {
        Ok(node) => look(node, |core| request.look(core)),
        Err(failure) => return Some(raise(request.inter.errors(), &failure)),
    };
    // SAFETY: the program's flag and status.
    unsafe {
        (flag as *mut c_int).write(completion.is_some().into());
        if let Some(completion) = completion {
            abi::get().write_status(status, &completion.status);
        }
    }
    Some(0)
}

/// The same question of MPICH's, without a status: the answer is the result.
pub unsafe fn X_Request_is_complete(token: usize) -> Answer {
    let Some(request) = request::find(token as u64) else { return Some(1) };
    Some(node().map_or(1, |node| look(node, |core| request.look(core)).is_some().into()))
}

/// LAM's names of requests: ours have none.
pub fn L_Request_get_name(token: usize) -> Option<usize> {
    // SAFETY: looks at the value only.
    unsafe { request::is_token(token) }.then_some(0)
}
