//! The other calls on a request of ours: MPI_Request_free, MPI_Cancel, MPI_Request_get_status.

use crate::abi;
use crate::detached;
use crate::entry::complete::{on_request, stale};
use crate::error::{Place, raise};
use crate::failure::{Class, Failure};
use crate::outcomes;
use crate::process::node;
use crate::request::{self, Peer, Work};
use crate::wait::look;
use node::Core;
use node::images::Call;
use std::ffi::c_int;

type Answer = Option<c_int>;

/// Frees a request. A pending operation goes on to its end.
pub unsafe fn Request_free(at: usize) -> Answer {
    // SAFETY: the program's request.
    let token = unsafe { abi::load_handle(at) };
    if request::is_sent(token) {
        // SAFETY: the program's request.
        unsafe { abi::store_handle(at, abi::get().request_null) };
        return Some(0);
    }
    let node = match node() {
        Ok(node) => node,
        Err(failure) => return Some(raise(Place::world(), &failure)),
    };
    let taken = node.with(|core| {
        request::live(core, |core, live| {
            let request = live.get(token)?;
            if let Work::Op(op) = request.work
                && request.partitions().is_some_and(|p| p.sends)
                && core.pending(op)
                && !core.all_ready(op)
            {
                return Some(Err(request.clone()));
            }
            request::remove(live, token).map(Ok)
        })
    });
    let request = match taken {
        Some(Ok(request)) => request,
        Some(Err(request)) => {
            let text = "MPI_Request_free: a partitioned send is under way, and not all of it is ready";
            return Some(raise(request.errors(), &Failure::new(Class::Request, text)));
        }
        None => return Some(stale("MPI_Request_free")),
    };
    detached::keep(request, None);
    // SAFETY: the program's request.
    unsafe { abi::store_handle(at, abi::get().request_null) };
    Some(0)
}

/// Cancels a receive that has no message yet. All other operations complete as if they had not been cancelled, as MPI
/// allows.
pub unsafe fn Cancel(at: usize) -> Answer {
    // SAFETY: the program's request.
    unsafe {
        on_request("MPI_Cancel", at, |_, request, node| {
            if let (Work::Op(op), Peer::From(_), None) = (&request.work, request.to, request.beside()) {
                node.cancel(*op);
            }
            0
        })
    }
}

/// Tests a request and leaves it as it is.
pub unsafe fn Request_get_status(token: usize, flag: usize, status: usize) -> Answer {
    let token = token as u64;
    let looked = |core: &mut Core| request::live(core, |core, live| live.get(token).map(|r| r.look(core)));
    let about = |core: &mut Core| request::about(core, "MPI_Request_get_status", [token]);
    let completion = match node() {
        // If the request is not complete, `look` also lets the MPI below make progress.
        Ok(node) => match outcomes::look(node, Call::Status, &about, |core| {
            Some(looked(core)).filter(|found| !matches!(found, Some(None)))
        }) {
            Some(Some(found)) => found,
            Some(None) => return Some(stale("MPI_Request_get_status")),
            None => None,
        },
        Err(failure) => return Some(raise(Place::world(), &failure)),
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

/// MPICH's extension of the same kind, without a status: the result is whether the request is complete.
pub unsafe fn X_Request_is_complete(token: usize) -> Answer {
    let over = |core: &mut Core| {
        request::live(core, |core, live| live.get(token as u64).is_none_or(|r| r.look(core).is_some()).then_some(()))
    };
    Some(node().map_or(1, |node| look(node, over).is_some().into()))
}

/// LAM's extension for names of requests. Requests of ours have none.
pub fn L_Request_get_name(token: usize) -> Option<usize> {
    // SAFETY: looks at the value only.
    unsafe { request::is_token(token) }.then_some(0)
}
