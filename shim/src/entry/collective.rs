//! The collective calls that are served on an inter-communicator between jobs: those that programs with ports use. Data
//! goes from the root of one side to rank 0 of the other side, which distributes it by the MPI below.
//!
//! Either all processes of a side succeed or all fail.

use super::p2p::{conclude, finish, on, request};
use crate::abi;
use crate::conn::collective::{Team, agree, from_leader, rank_and_size};
use crate::datatype::{layout, layout_from};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::inter::{self, Inter};
use crate::process::node;
use crate::request::{Plan, SendMode};
use base::protocol::tag::{BARRIER, BCAST};
use node::{Layout, Source, Tag};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

type Answer = Option<c_int>;

/// The twin, if the inter-communicator is within one job.
fn twin(comm: usize) -> Option<Handle> {
    inter::find(comm as u64)?.twin_for_call()
}

/// Has the leader do something, and tells its result to all processes of this side.
fn share(inter: &Inter, done: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let (rank, size) = rank_and_size(inter.shadow)?;
    let team = Team { comm: inter.shadow, rank, size, leader: 0 };
    let verdict = team.is_led_here().then(|| done().map(|()| Vec::new()));
    inter::below(|| from_leader(abi::get(), node()?, &team, verdict)).map(drop)
}

/// A broadcast. `local` broadcasts among the processes of this side, from rank 0.
fn bcast(
    inter: &Arc<Inter>,
    (call, buf, count, datatype): (&'static str, usize, i64, usize),
    root: c_int,
    local: impl FnOnce(Handle) -> c_int,
) -> Result<c_int, Failure> {
    let abi = abi::get();
    if root == abi.proc_null {
        return Ok(0);
    }
    if root == abi.root {
        // SAFETY: the program's buffer, as it promises by the call.
        let data = unsafe { layout(call, buf, count, datatype) }?;
        let plan = Plan::Send { dest: 0, tag: BCAST, data, mode: SendMode::Standard };
        conclude(finish(&request(inter, call, &plan)?)?, None)?;
        return Ok(0);
    }
    let Some(source) = u32::try_from(root).ok().filter(|root| *root < inter.remote.size()) else {
        let text = format!("{call}: root {root} is neither MPI_ROOT, MPI_PROC_NULL nor a rank of the other job");
        return Err(Failure::new(Class::Root, text));
    };
    share(inter, || {
        // SAFETY: the program's buffer, as it promises by the call.
        let data = unsafe { layout_from(inter.remote.foreign, call, buf, count, datatype) }?;
        let plan = Plan::Recv { source: Source::Rank(source), tag: Tag::Is(BCAST), data };
        conclude(finish(&request(inter, call, &plan)?)?, None)
    })?;
    Ok(inter::below(|| local(inter.shadow)))
}

/// The result of a collective call. For an error of the MPI below, the error handler was called already.
fn answer(comm: usize, call: impl FnOnce(&Arc<Inter>) -> Result<c_int, Failure>) -> Answer {
    let mut native = 0;
    let code = on(comm, |inter| call(inter).map(|code| native = code))?;
    Some(if code == 0 { native } else { code })
}

pub unsafe fn Bcast(buffer: usize, count: usize, datatype: usize, root: usize, comm: usize) -> Answer {
    let (count, root) = (count as c_int, root as c_int);
    // SAFETY: the program's buffer and a live communicator.
    let native = |root, comm| unsafe { pmpi::bcast(buffer as *mut c_void, count, datatype as Handle, root, comm) };
    match twin(comm) {
        Some(twin) => Some(native(root, twin)),
        None => answer(comm, |inter| {
            bcast(inter, ("MPI_Bcast", buffer, count.into(), datatype), root, |comm| native(0, comm))
        }),
    }
}

pub unsafe fn Bcast_c(buffer: usize, count: usize, datatype: usize, root: usize, comm: usize) -> Answer {
    let (count, root) = (count as i64, root as c_int);
    // SAFETY: the program's buffer and a live communicator.
    let native = |root, comm| unsafe { pmpi::bcast_c(buffer as *mut c_void, count, datatype as Handle, root, comm) };
    match twin(comm) {
        Some(twin) => Some(native(root, twin)),
        None => {
            answer(comm, |inter| bcast(inter, ("MPI_Bcast_c", buffer, count, datatype), root, |comm| native(0, comm)))
        }
    }
}

/// A barrier: when all processes of a side have entered it, its leader tells the other leader.
pub unsafe fn Barrier(comm: usize) -> Answer {
    let call = "MPI_Barrier";
    if let Some(twin) = twin(comm) {
        // SAFETY: a live communicator.
        return Some(unsafe { pmpi::barrier(twin) });
    }
    on(comm, |inter| {
        inter::below(|| agree(abi::get(), inter.shadow, 0))?;
        share(inter, || {
            // SAFETY: nothing is read or written.
            let nothing = || unsafe { Layout::contiguous(std::ptr::dangling_mut(), 0) };
            let back = Plan::Recv { source: Source::Rank(0), tag: Tag::Is(BARRIER), data: nothing() };
            let there = Plan::Send { dest: 0, tag: BARRIER, data: nothing(), mode: SendMode::Standard };
            let receive = request(inter, call, &back)?;
            conclude(finish(&request(inter, call, &there)?)?, None)?;
            conclude(finish(&receive)?, None)
        })
    })
}
