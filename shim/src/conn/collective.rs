//! The collective steps of joining two jobs, over communicators of the MPI below.

use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::progress;
use crate::wait::wait_asking;
use base::bytes::{Put, Take};
use node::{Contact, Node};
use std::ffi::{c_int, c_void};

/// The most bytes of a verdict. It contains the contact records of the other job, and little else.
const MAX_VERDICT: u64 = 65 << 20;

pub fn native(what: &str, code: c_int) -> Result<(), Failure> {
    match progress::outcome(code) {
        0 => Ok(()),
        code => Err(failed(what, code)),
    }
}

pub fn failed(what: &str, code: c_int) -> Failure {
    Failure::new(Class::Intern, format!("{what} failed in the MPI below (code {code})"))
}

/// The largest fault number of all processes; 0 means that none has found a fault.
pub fn agree(abi: &Abi, comm: Handle, fault: c_int) -> Result<c_int, Failure> {
    let mut worst: c_int = 0;
    // SAFETY: one int in, one out.
    let code =
        unsafe { pmpi::allreduce((&raw const fault).cast(), (&raw mut worst).cast(), 1, abi.int, abi.max, comm) };
    native("MPI_Allreduce", code)?;
    Ok(worst)
}

/// What this process has, if no process has failed. `elsewhere`: what is said where another one has, which says why.
pub fn all_or_none<T>(abi: &Abi, comm: Handle, own: Result<T, Failure>, elsewhere: &str) -> Result<T, Failure> {
    let worst = agree(abi, comm, own.is_err().into())?;
    own.and_then(|own| if worst == 0 { Ok(own) } else { Err(Failure::new(Class::Other, elsewhere)) })
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

/// A communicator of our own over the same group, in the same order, on which errors only return. By split, never by
/// dup, which would run the user's copy callbacks.
pub fn split(abi: &Abi, comm: Handle, leader: u32) -> Result<Team, Failure> {
    let (rank, size) = rank_and_size(comm)?;
    let mut new = 0;
    // SAFETY: plain out-argument.
    unsafe {
        native("MPI_Comm_split", pmpi::comm_split(comm, 0, rank as c_int, &mut new))?;
        native("MPI_Comm_set_errhandler", progress::errors_return(new))?;
    }
    Ok(Team { comm: new & abi.mask, rank, size, leader })
}

/// Returns what was made with a communicator of ours. If it failed, as it then did on all processes, the communicator
/// is freed.
pub fn or_free<T>(abi: &Abi, mut comm: Handle, made: Result<T, Failure>) -> Result<T, Failure> {
    if made.is_err() && comm != abi.comm_null {
        // SAFETY: our own communicator, to which nothing else refers.
        unsafe { pmpi::comm_free(&mut comm) };
    }
    made
}

/// All contact records in order of rank, on the leader; nothing elsewhere. If a process has no contact record, this
/// fails on all processes, and that process gives the reason.
pub fn gather_records(abi: &Abi, team: &Team, contact: Result<Contact, Failure>) -> Result<Vec<u8>, Failure> {
    let mut own = Vec::new();
    all_or_none(abi, team.comm, contact, "another process of this job cannot take part, and says why")?
        .encode(&mut own);
    gather(abi, team, &own)
}

/// The bytes of all processes in order of rank, on the leader; nothing elsewhere.
pub fn gather(abi: &Abi, team: &Team, own: &[u8]) -> Result<Vec<u8>, Failure> {
    let Team { comm, leader, .. } = *team;
    let length = own.len() as c_int;
    let mut lengths = vec![0 as c_int; if team.is_led_here() { team.size as usize } else { 0 }];
    let root = leader as c_int;
    // SAFETY: one int each; the leader has room for all.
    native("MPI_Gather", unsafe {
        pmpi::gather((&raw const length).cast(), 1, abi.int, lengths.as_mut_ptr().cast(), 1, abi.int, root, comm)
    })?;
    let mut at: c_int = 0;
    let mut places = Vec::with_capacity(lengths.len());
    for length in &lengths {
        places.push(at);
        at = at.checked_add(*length).ok_or_else(|| Failure::new(Class::Other, "the job has too many processes"))?;
    }
    let mut all = vec![0; at as usize];
    // SAFETY: the leader has room for all the lengths that were announced.
    native("MPI_Gatherv", unsafe {
        pmpi::gatherv(
            own.as_ptr().cast(),
            length,
            abi.byte,
            all.as_mut_ptr().cast(),
            lengths.as_ptr(),
            places.as_ptr(),
            abi.byte,
            root,
            comm,
        )
    })?;
    Ok(all)
}

/// The leader's verdict, on all processes. `verdict` is given on the leader only. The others sleep until it comes.
pub fn from_leader(
    abi: &Abi,
    node: &Node,
    comm: Handle,
    leader: u32,
    verdict: Option<Result<Vec<u8>, Failure>>,
) -> Result<Vec<u8>, Failure> {
    let mut message = verdict.map(encode);
    let mut length = message.as_ref().map_or(0, |m| m.len() as u64).to_le_bytes();
    bcast(abi, node, comm, leader, &mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_VERDICT {
        return Err(Failure::new(Class::Intern, "the leader's verdict is too long"));
    }
    let message = message.get_or_insert_with(|| vec![0; length as usize]);
    bcast(abi, node, comm, leader, message)?;
    decode(message)
}

fn encode(verdict: Result<Vec<u8>, Failure>) -> Vec<u8> {
    let mut out = Vec::new();
    match verdict {
        Ok(bytes) => {
            out.put_u8(u8::MAX);
            out.extend_from_slice(&bytes);
        }
        Err(failure) => {
            out.put_u8(Class::ALL.iter().position(|c| *c == failure.class).unwrap_or(0) as u8);
            out.extend_from_slice(failure.text.as_bytes());
        }
    }
    out
}

fn decode(message: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut t = Take(message);
    match t.u8() {
        Ok(u8::MAX) => Ok(t.rest().to_vec()),
        Ok(class) => {
            let class = Class::ALL.get(usize::from(class)).copied().unwrap_or(Class::Intern);
            Err(Failure::new(class, String::from_utf8_lossy(t.rest())))
        }
        Err(_) => Err(Failure::new(Class::Intern, "the leader's verdict is empty")),
    }
}

/// Broadcasts from the leader by a nonblocking call, so that processes that wait sleep, and their transfers go on.
fn bcast(abi: &Abi, node: &Node, comm: Handle, leader: u32, bytes: &mut [u8]) -> Result<(), Failure> {
    let (mut request, root) = (0, leader as c_int);
    // SAFETY: the bytes stay until the request has completed, below.
    native("MPI_Ibcast", unsafe {
        pmpi::ibcast(bytes.as_mut_ptr().cast(), bytes.len() as c_int, abi.byte, root, comm, &mut request)
    })?;
    let done = std::cell::Cell::new(None);
    let mut ask = || {
        let mut flag = 0;
        if done.get().is_none() {
            // SAFETY: our own request; the status is ignored.
            let code =
                progress::outcome(unsafe { pmpi::test(&mut request, &mut flag, abi.status_ignore as *mut c_void) });
            if flag != 0 || code != 0 {
                done.set(Some(code));
            }
        }
    };
    ask();
    native("MPI_Ibcast", wait_asking(node, &mut ask, &|_| None, |_| done.get()))
}
