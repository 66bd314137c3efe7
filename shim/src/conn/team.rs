//! The processes that decide something together, and what a call of the MPI below has come to.

use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::progress;
use std::ffi::c_int;

pub fn native(what: &str, code: c_int) -> Result<(), Failure> {
    match progress::outcome(code) {
        0 => Ok(()),
        code => Err(failed(what, code)),
    }
}

pub fn failed(what: &str, code: c_int) -> Failure {
    Failure::new(Class::Intern, format!("{what} failed in the MPI below (code {code})"))
}

/// The rank of this process in a communicator, and the size.
pub fn rank_and_size(comm: Handle) -> Result<(u32, u32), Failure> {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: plain out-arguments.
    unsafe {
        native("MPI_Comm_rank", pmpi::comm_rank(comm, &mut rank))?;
        native("MPI_Comm_size", pmpi::comm_size(comm, &mut size))?;
    }
    Ok((rank as u32, size as u32))
}

/// The processes of a communicator of ours. One of them, the leader, talks to the naming service and to the other job.
#[derive(Clone, Copy)]
pub struct Team {
    pub comm: Handle,
    pub rank: u32,
    pub size: u32,
    pub leader: u32,
}

impl Team {
    pub fn is_led_here(&self) -> bool {
        self.rank == self.leader
    }
}
