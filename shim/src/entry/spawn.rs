//! MPI_Comm_spawn, MPI_Comm_spawn_multiple and MPI_Comm_get_parent. Without an info key of this library's the MPI below does them.

use super::joined::hand_out;
use crate::conn::collective::{agree, rank_and_size};
use crate::error::{Place, mpi_class, raise};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, CalledAs, Handle};
use crate::spawn::{Call, Command, is_asked, number, parent, several, spawn, started};
use crate::{abi, inter, life};
use std::ffi::c_int;

pub fn Comm_get_parent(called_as: CalledAs, at: usize) -> c_int {
    match parent::get() {
        Some(parent) if at != 0 => {
            // SAFETY: the program's place for a communicator.
            unsafe { abi::store_handle(at, parent) };
            0
        }
        _ => forward!(called_as, at),
    }
}

#[allow(clippy::too_many_arguments)]
pub fn Comm_spawn(
    called_as: CalledAs,
    command: usize,
    argv: usize,
    maxprocs: usize,
    info: usize,
    root: usize,
    comm: usize,
    intercomm: usize,
    codes: usize,
) -> c_int {
    let below = || forward!(called_as, command, argv, maxprocs, info, root, comm, intercomm, codes);
    let commands = || vec![Command { name: command, argv, most: maxprocs as c_int, info: info as Handle }];
    start("MPI_Comm_spawn", commands, root, comm, [intercomm, codes], below)
}

#[allow(clippy::too_many_arguments)]
pub fn Comm_spawn_multiple(
    called_as: CalledAs,
    count: usize,
    commands: usize,
    argvs: usize,
    maxprocs: usize,
    infos: usize,
    root: usize,
    comm: usize,
    intercomm: usize,
    codes: usize,
) -> c_int {
    let below = || forward!(called_as, count, commands, argvs, maxprocs, infos, root, comm, intercomm, codes);
    // SAFETY: the program's arrays, on the root.
    let all = || unsafe { several(count as c_int, [commands, argvs, maxprocs, infos]) };
    start("MPI_Comm_spawn_multiple", all, root, comm, [intercomm, codes], below)
}

/// `commands` is asked on the root alone; `below` calls the MPI below.
fn start(
    call: &'static str,
    commands: impl Fn() -> Vec<Command>,
    root: usize,
    comm: usize,
    [intercomm, codes]: [usize; 2],
    below: impl FnOnce() -> c_int,
) -> c_int {
    if let Some(inter) = inter::find(comm as u64) {
        return raise(inter.errors(), &super::instead::unavailable(call));
    }
    let Some(abi) = abi::known().filter(|_| life::passed()) else { return below() };
    let (handle, root) = (comm as Handle & abi.mask, root as c_int);
    let mut is_inter = 0;
    // What is no communicator for this is the MPI's to refuse. SAFETY: plain out-argument.
    if handle == abi.comm_null || unsafe { pmpi::comm_test_inter(handle, &mut is_inter) } != 0 || is_inter != 0 {
        return below();
    }
    let Ok((rank, size)) = rank_and_size(handle) else { return below() };
    let Some(leader) = u32::try_from(root).ok().filter(|leader| *leader < size) else { return below() };
    let commands = if rank == leader { commands() } else { Vec::new() };
    // 0: the MPI below does it; else one more than the processes that are asked for.
    let own = if is_asked(&commands) { 1 + number(&commands).min(c_int::MAX as usize - 1) as c_int } else { 0 };
    let asked = match agree(abi, handle, own) {
        Ok(0) => return below(),
        Ok(asked) => asked as usize - 1,
        Err(failure) => return raise(Place::Comm(handle), &failure.of(call)),
    };
    let place = match intercomm {
        0 => Err(Failure::new(Class::Arg, "the place for the result is a null pointer")),
        _ => Ok(()),
    };
    // SAFETY: the program's arguments, on the root.
    let made = spawn(call, leader, handle, place, || unsafe { Call::of(&commands) });
    let mut each = vec![mpi_class(abi, Class::Spawn); asked];
    if made.is_ok() {
        let started = started(&commands);
        each.iter_mut().zip(started).filter(|(_, started)| *started).for_each(|(code, _)| *code = 0);
        // SAFETY: as many ints on all processes.
        unsafe { pmpi::bcast(each.as_mut_ptr().cast(), asked as c_int, abi.int, leader as c_int, handle) };
    }
    if codes != 0 {
        // SAFETY: as many codes as processes are asked for. MPI_ERRCODES_IGNORE is null everywhere.
        unsafe { std::ptr::copy_nonoverlapping(each.as_ptr(), codes as *mut c_int, asked) };
    }
    match made {
        Ok(inter) => {
            // SAFETY: the program's place for a communicator.
            unsafe { hand_out(inter, intercomm) };
            0
        }
        Err(failure) => raise(Place::Comm(handle), &failure.of(call)),
    }
}
