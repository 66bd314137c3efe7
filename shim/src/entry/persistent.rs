//! Persistent requests on an inter-communicator. Their arguments are checked once, and they are started again and
//! again.

use crate::entry::complete::{on_array, on_request, stale};
use crate::entry::p2p::{begin, hand_out, on, plan_recv, plan_send};
use crate::entry::quick::Message;
use crate::error::raise;
use crate::failure::{Class, Failure};
use crate::forward as pmpi;
use crate::request::{self, Plan, Request, SendMode};
use node::Node;
use std::ffi::c_int;

type Answer = Option<c_int>;

/// Gives the program an inactive request.
fn prepare(
    comm: usize,
    call: &'static str,
    at: usize,
    plan: impl FnOnce(&crate::inter::Inter) -> Result<Plan, Failure>,
) -> Answer {
    on(comm, |inter| hand_out(Request::planned(inter, call, plan(inter)?, None), at))
}

macro_rules! sends {
    ($($name:ident $mode:ident $count:ty;)*) => { $(
        pub unsafe fn $name(
            buf: usize, count: usize, datatype: usize, dest: usize, tag: usize, comm: usize, request: usize,
        ) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($name)), (count as $count).into());
            let m = Message { call, buf, count, datatype, peer: dest, tag };
            prepare(comm, call, request, |inter| plan_send(inter, &m, SendMode::$mode))
        }
    )* };
}

sends! {
    Send_init Standard c_int;
    Send_init_c Standard i64;
    Ssend_init Synchronous c_int;
    Ssend_init_c Synchronous i64;
    Rsend_init Standard c_int;
    Rsend_init_c Standard i64;
    Bsend_init Buffered c_int;
    Bsend_init_c Buffered i64;
}

macro_rules! receives {
    ($($name:ident $count:ty;)*) => { $(
        pub unsafe fn $name(
            buf: usize, count: usize, datatype: usize, source: usize, tag: usize, comm: usize, request: usize,
        ) -> Answer {
            let (call, count) = (concat!("MPI_", stringify!($name)), (count as $count).into());
            let m = Message { call, buf, count, datatype, peer: source, tag };
            prepare(comm, call, request, |inter| plan_recv(inter, &m))
        }
    )* };
}

receives! {
    Recv_init c_int;
    Recv_init_c i64;
}

fn start(call: &str, token: u64, request: &Request, node: &Node) -> c_int {
    let work = || match (request.plan().filter(|_| request.is_inactive()), request.inter()) {
        (Some(plan), Some(inter)) => begin(inter, request.call, plan),
        _ => {
            let text = format!("{call}: this request is active, or not a persistent one");
            Err(Failure::new(Class::Request, text))
        }
    };
    match work() {
        Ok(work) => {
            request::set_work(node, token, work);
            0
        }
        Err(failure) => raise(request.errors(), &failure),
    }
}

pub unsafe fn Start(at: usize) -> Answer {
    let call = "MPI_Start";
    // SAFETY: the program's request.
    unsafe { on_request(call, at, |token, request, node| start(call, token, request, node)) }
}

pub unsafe fn Startall(count: usize, array: usize) -> Answer {
    let call = "MPI_Startall";
    // SAFETY: the program's array.
    unsafe {
        on_array(call, count, array, |mut mixed| {
            let mut code = 0;
            if mixed.native_count() > 0 {
                // SAFETY: our copies of the native handles; the program's array.
                code = pmpi::startall(mixed.native_count(), mixed.natives.as_mut_ptr().cast());
                mixed.store_natives();
            }
            for (_, token) in &mixed.ours {
                if code == 0 {
                    code = request::find(*token).map_or_else(|| stale(call), |r| start(call, *token, &r, mixed.node));
                }
            }
            code
        })
    }
}
