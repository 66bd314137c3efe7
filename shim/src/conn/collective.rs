//! The collective steps of joining two jobs, over communicators of the MPI below.

pub use super::team::{Team, failed, native, rank_and_size};
use super::tree::Talk;
use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::progress;
use base::bytes::{Put, Take};
use node::Node;
use std::ffi::c_int;

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

/// A communicator of our own over the same group, in the same order, on which errors only return. MPI_Comm_create makes
/// it: MPI_Comm_dup would run the user's copy callbacks, and MPI_Comm_split gathers what nobody asks for.
pub fn copy(abi: &Abi, comm: Handle, leader: u32) -> Result<Team, Failure> {
    let (rank, size) = rank_and_size(comm)?;
    let (mut group, mut new) = (0, 0);
    // SAFETY: plain out-arguments; the group is freed once.
    unsafe {
        native("MPI_Comm_group", pmpi::comm_group(comm, &mut group))?;
        let code = pmpi::comm_create(comm, group, &mut new);
        pmpi::group_free(&mut group);
        native("MPI_Comm_create", code)?;
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

/// What a process hands in where its contact record is asked for.
pub fn encoded_contact(node: &Node) -> Vec<u8> {
    let mut record = Vec::new();
    node.contact().encode(&mut record);
    record
}

/// A decision: each process hands in bytes, or says why it has none. The leader decides on the bytes of all in order of
/// rank, or on the first failure. All hear its verdict, but a process that had none to hand in says its own reason.
/// Every process comes to the end, so nobody waits for one that has left.
pub fn decide<'a>(
    abi: &Abi,
    node: impl Into<Option<&'a Node>>,
    team: &Team,
    own: Result<Vec<u8>, Failure>,
    decided: impl FnOnce(Result<Vec<u8>, Failure>) -> Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    let talk = Talk { abi, node: node.into(), team, tag: 0, call: None };
    let failed = own.as_ref().err().cloned();
    let all = talk.up(encode(own))?;
    let told = talk.down(team.is_led_here().then(|| encode(decided(of_all(&all)))))?;
    failed.map_or_else(|| decode(&told), Err)
}

/// What all have handed in, in order of rank, or the first failure.
pub fn of_all(handed_in: &[impl AsRef<[u8]>]) -> Result<Vec<u8>, Failure> {
    let mut whole = Vec::new();
    for message in handed_in {
        let bytes = decode(message.as_ref());
        whole.extend(bytes.map_err(|f| Failure::new(f.class, format!("on another process {}", f.text)))?);
    }
    Ok(whole)
}

/// The bytes of all processes in order of rank, on the leader; nothing elsewhere.
pub fn gather(abi: &Abi, node: &Node, team: &Team, own: Vec<u8>) -> Result<Vec<u8>, Failure> {
    Ok(Talk { abi, node: Some(node), team, tag: 0, call: None }.up(own)?.concat())
}

/// The leader's verdict, on all processes. `verdict` is given on the leader only. The others sleep until it comes.
pub fn from_leader(
    abi: &Abi,
    node: &Node,
    team: &Team,
    verdict: Option<Result<Vec<u8>, Failure>>,
) -> Result<Vec<u8>, Failure> {
    decode(&Talk { abi, node: Some(node), team, tag: 0, call: None }.down(verdict.map(encode))?)
}

/// A verdict, or what is handed in for one, as bytes.
pub fn encode(verdict: Result<Vec<u8>, Failure>) -> Vec<u8> {
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

/// The verdict of these bytes.
pub fn decode(message: &[u8]) -> Result<Vec<u8>, Failure> {
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
