//! The collective steps of joining two jobs, over communicators of the MPI below.

use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::progress;
use crate::wait::wait_asking;
use base::bytes::{Put, Take};
use node::Node;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

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

/// What one message of a decision holds: of each process to the leader, and of the leader to each. What is longer needs a
/// second one. A contact record, and the records of a small job, are not.
const HANDED_IN: usize = 256;
const TOLD: usize = 2048;
/// The length of a verdict that is none yet: what was handed in is longer than one message.
const MORE: u64 = u64::MAX;

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
    let Team { comm, leader, .. } = *team;
    let node = node.into();
    let failed = own.as_ref().err().cloned();
    let handed_in = encode(own);
    let mut first = (handed_in.len() as u32).to_le_bytes().to_vec();
    first.extend_from_slice(&handed_in[..handed_in.len().min(HANDED_IN)]);
    first.resize(size_of::<u32>() + HANDED_IN, 0);
    let mut all = vec![0; if team.is_led_here() { team.size as usize * first.len() } else { 0 }];
    let bytes = first.len() as c_int;
    // SAFETY: each process sends as many bytes, and the leader has room for all; the places stay until it is complete.
    complete(abi, node, "MPI_Igather", |request| unsafe {
        let (from, to) = (first.as_ptr().cast(), all.as_mut_ptr().cast());
        pmpi::igather(from, bytes, abi.byte, to, bytes, abi.byte, leader as c_int, comm, request)
    })?;
    let rest = &handed_in[handed_in.len().min(HANDED_IN)..];
    let verdict = team.is_led_here().then(|| {
        let firsts = all.chunks_exact(first.len()).map(|of| {
            let (length, bytes) = of.split_at(size_of::<u32>());
            (u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize, bytes)
        });
        let mut rests = Vec::new();
        if firsts.clone().any(|(length, _)| length > HANDED_IN) {
            tell(abi, node, comm, leader, &mut MORE.to_le_bytes().to_vec())?;
            rests = gather(abi, team, rest)?;
        }
        let mut rests = &rests[..];
        let mut whole = Ok(Vec::new());
        for (length, first) in firsts {
            let mut message = first[..length.min(HANDED_IN)].to_vec();
            message.extend_from_slice(rests.split_off(..length - message.len()).unwrap_or_default());
            match (&mut whole, decode(&message)) {
                (Ok(whole), Ok(bytes)) => whole.extend_from_slice(&bytes),
                (Ok(_), Err(failure)) => whole = Err(failure),
                (Err(_), _) => break,
            }
        }
        decided(whole.map_err(|f| Failure::new(f.class, format!("on another process {}", f.text))))
    });
    let told = hear(abi, node, comm, leader, verdict, || gather(abi, team, rest).map(drop));
    failed.map_or(told, Err)
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
pub fn from_leader<'a>(
    abi: &Abi,
    node: impl Into<Option<&'a Node>>,
    comm: Handle,
    leader: u32,
    verdict: Option<Result<Vec<u8>, Failure>>,
) -> Result<Vec<u8>, Failure> {
    let nothing_more = || Err(Failure::new(Class::Intern, "the leader asks for what was not announced"));
    hear(abi, node.into(), comm, leader, verdict, nothing_more)
}

/// As [`from_leader`]. `more` is called where the leader asks for the rest of what was handed in.
fn hear(
    abi: &Abi,
    node: Option<&Node>,
    comm: Handle,
    leader: u32,
    verdict: Option<Result<Vec<u8>, Failure>>,
    more: impl FnOnce() -> Result<(), Failure>,
) -> Result<Vec<u8>, Failure> {
    let mut told = verdict.map_or_else(Vec::new, |verdict| {
        let message = encode(verdict);
        [(message.len() as u64).to_le_bytes().to_vec(), message].concat()
    });
    tell(abi, node, comm, leader, &mut told)?;
    if told[..size_of::<u64>()] == MORE.to_le_bytes() {
        more()?;
        tell(abi, node, comm, leader, &mut told)?;
    }
    decode(&told[size_of::<u64>()..])
}

/// Broadcasts bytes that begin with how many follow: one message, and a second one if there are many. They are given on
/// the leader, and come where `told` is empty.
fn tell(abi: &Abi, node: Option<&Node>, comm: Handle, leader: u32, told: &mut Vec<u8>) -> Result<(), Failure> {
    let whole = told.len();
    told.resize(whole.max(TOLD), 0);
    bcast(abi, node, comm, leader, &mut told[..TOLD])?;
    let length = u64::from_le_bytes(told[..size_of::<u64>()].try_into().unwrap_or_default());
    if length == MORE {
        return Ok(());
    }
    if length > MAX_VERDICT {
        return Err(Failure::new(Class::Intern, "the leader's verdict is too long"));
    }
    told.resize(size_of::<u64>() + length as usize, 0);
    if told.len() > TOLD {
        bcast(abi, node, comm, leader, &mut told[TOLD..])?;
    }
    Ok(())
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

fn bcast(abi: &Abi, node: Option<&Node>, comm: Handle, leader: u32, bytes: &mut [u8]) -> Result<(), Failure> {
    let (length, root) = (bytes.len() as c_int, leader as c_int);
    // SAFETY: the bytes stay until the call is complete.
    complete(abi, node, "MPI_Ibcast", |request| unsafe {
        pmpi::ibcast(bytes.as_mut_ptr().cast(), length, abi.byte, root, comm, request)
    })
}

/// For so long a process asks the MPI below again and again whether a call is complete, before it waits asleep.
const SOON: Duration = Duration::from_millis(1);

/// Completes a nonblocking call of the MPI below: processes that wait sleep, and their transfers go on. In a blocking one
/// they would keep the processors from those that they wait for.
fn complete(
    abi: &Abi,
    node: Option<&Node>,
    call: &str,
    begin: impl FnOnce(&mut Handle) -> c_int,
) -> Result<(), Failure> {
    let mut request = 0;
    native(call, begin(&mut request))?;
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
    // Others are about to make the call too, and may need this processor for it. Without a node, in a process where the library
    // could not be started, there is nothing else to do.
    let soon = Instant::now() + SOON;
    while done.get().is_none() && (node.is_none() || Instant::now() < soon) {
        ask();
        std::thread::yield_now();
    }
    let (Some(node), None) = (node, done.get()) else { return native(call, done.get().unwrap_or_default()) };
    native(call, wait_asking(node, &mut ask, &|_| None, |_| done.get()))
}
