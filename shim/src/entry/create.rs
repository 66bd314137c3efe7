//! Calls that make an inter-communicator from another one: dup, split, create.
//!
//! A duplicate needs no message between the jobs: its context follows from its parent's, since all processes count the
//! collective calls alike, and the MPI below duplicates the shadow with its attributes. For parts, the leaders (rank 0
//! of each side) exchange the part of each process. Either all processes of both sides succeed or all fail.

use crate::abi;
use crate::conn::adopt;
use crate::conn::collective::{Team, decide, or_free, rank_and_size};
use crate::entry::instead::unavailable;
use crate::entry::joined::hand_out;
use crate::entry::p2p::finish;
use crate::error::{Place, copy_errhandler, raise};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, CalledAs, Handle};
use crate::group::{self, Named, NativeGroup};
use crate::inter::{self, Inter};
use crate::process::node;
use crate::request::{Peer, Request, Work};
use crate::{abi::Abi, progress};
use base::bytes::{Malformed, Put, Take};
use base::protocol::context::{NOWHERE, part};
// The leaders' messages go by the inter-communicator itself, with a tag that no receive of the user matches.
use base::protocol::tag::LEADERS;
use node::{ContextId, Layout, Mode, Node, Source, Tag};
use std::ffi::c_int;
use std::sync::Arc;

type Answer = Option<c_int>;

// ---------------------------------------------------------------------------------------------------------- duplicates

/// Whether a call that makes a duplicate is blocking or not.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blocking,
    Nonblocking,
}

/// Makes a duplicate. `make` duplicates the shadow.
fn duplicate(comm: usize, at: usize, kind: Kind, make: impl FnOnce(Handle, &mut Handle) -> c_int) -> Answer {
    let inter = inter::find(comm as u64)?;
    let abi = abi::get();
    // This is the rank in the shadow, and in its duplicate.
    let (node, (rank, _)) = match node().and_then(|node| Ok((node, rank_and_size(inter.shadow)?))) {
        Ok(found) => found,
        Err(failure) => return Some(raise(inter.errors(), &failure)),
    };
    let context = inter.next_child();
    let mut shadow = abi.comm_null;
    let code = inter::below(|| make(inter.shadow, &mut shadow));
    let shadow = shadow & abi.mask;
    // If an error handler has returned, the MPI below may return success without a communicator.
    if code != 0 || shadow == abi.comm_null {
        node.refuse_child(inter.id, context);
        return Some(code);
    }
    let members: Vec<u32> = (0..inter.remote.size()).collect();
    let made = inter.derive(node, shadow, context, rank, &members);
    match kind {
        Kind::Blocking => {
            // SAFETY: a live communicator on which no attribute of the program's hangs.
            let twin = from_twin(&inter, |twin, new| unsafe { pmpi::comm_dup(twin, new) });
            twin.into_iter().for_each(|twin| made.set_twin(twin));
        }
        // A twin that is still being made would have to be waited for.
        Kind::Nonblocking if inter.is_twin_late() => (),
        Kind::Nonblocking => {
            let mut request = abi.request_null;
            // SAFETY: as above, plain out-arguments.
            let twin = from_twin(&inter, |twin, new| unsafe { pmpi::comm_idup(twin, new, (&raw mut request).cast()) });
            twin.into_iter().for_each(|twin| made.set_late_twin(twin, request & abi.mask));
        }
    }
    // SAFETY: the program's communicator.
    unsafe { hand_out(made, at) };
    Some(0)
}

/// A communicator that the MPI below makes from the twin, collectively over both sides. `None`: there is no twin, or it
/// fails.
fn from_twin(inter: &Inter, make: impl FnOnce(Handle, &mut Handle) -> c_int) -> Option<Handle> {
    let (abi, twin) = (abi::get(), inter.twin()?);
    let mut new = abi.comm_null;
    // SAFETY: a live communicator.
    unsafe { progress::errors_return(twin) };
    let code = make(twin, &mut new);
    let new = new & abi.mask;
    (progress::outcome(code) == 0 && new != abi.comm_null).then_some(new)
}

/// The twin of a part. `shadow` has the part's local processes, if this process is one of them, and `leader` is the
/// first remote one.
///
/// It is made by MPI_Intercomm_create over the merged twin of the parent, since MPICH 4 splits inter-communicators
/// wrongly if rank 0 goes to no part. Under LAM a part has no twin: LAM cannot split inter-communicators, and its
/// collectives hang on one that is made in this way.
fn twin_of_part(inter: &Inter, shadow: Handle, leader: Option<u32>) -> Option<Handle> {
    let abi = abi::get();
    if abi.family.calls_itself {
        return None;
    }
    // SAFETY: a live communicator, plain out-argument.
    let mut merged = from_twin(inter, |twin, new| unsafe { pmpi::intercomm_merge(twin, 0, new) })?;
    let make = |leader: u32| {
        let merged_group = NativeGroup::of(merged).ok()?;
        let there = merged_group.ranks_of(inter.remote.here.as_ref()?.part(&[leader]).handle(), 1).ok()?[0];
        let mut twin = abi.comm_null;
        // SAFETY: live communicators, plain out-argument; no other message has this tag.
        let code = unsafe {
            progress::errors_return(merged);
            pmpi::intercomm_create(shadow, 0, merged, there, 0, &mut twin)
        };
        (progress::outcome(code) == 0 && twin & abi.mask != abi.comm_null).then_some(twin & abi.mask)
    };
    let twin = leader.filter(|_| shadow != abi.comm_null).and_then(make);
    // SAFETY: our own communicator, freed once, by all of its members.
    unsafe { pmpi::comm_free(&mut merged) };
    twin
}

pub unsafe fn Comm_dup(comm: usize, newcomm: usize) -> Answer {
    // SAFETY: a live communicator of the MPI's; the program's copy callbacks run in here.
    duplicate(comm, newcomm, Kind::Blocking, |shadow, new| unsafe { pmpi::comm_dup(shadow, new) })
}

pub unsafe fn Comm_dup_with_info(comm: usize, info: usize, newcomm: usize) -> Answer {
    // SAFETY: as above; the program's info.
    duplicate(comm, newcomm, Kind::Blocking, |shadow, new| unsafe {
        pmpi::comm_dup_with_info(shadow, info as Handle, new)
    })
}

/// The request is the MPI's own. The handle of the communicator is there when the call returns, and nothing else is
/// waited for.
pub unsafe fn Comm_idup(comm: usize, newcomm: usize, request: usize) -> Answer {
    // SAFETY: as above; the program's request.
    duplicate(comm, newcomm, Kind::Nonblocking, |shadow, new| unsafe {
        pmpi::comm_idup(shadow, new, request as *mut Handle)
    })
}

pub unsafe fn Comm_idup_with_info(comm: usize, info: usize, newcomm: usize, request: usize) -> Answer {
    // SAFETY: as above.
    duplicate(comm, newcomm, Kind::Nonblocking, |shadow, new| unsafe {
        pmpi::comm_idup_with_info(shadow, info as Handle, new, request as *mut Handle)
    })
}

// ------------------------------------------------------------------------------------------------------ within one job

pub fn Intercomm_create(
    called_as: CalledAs,
    local_comm: usize,
    local_leader: usize,
    peer_comm: usize,
    remote_leader: usize,
    tag: usize,
    newintercomm: usize,
) -> c_int {
    let call = "MPI_Intercomm_create";
    let mut peer_comm = peer_comm;
    if let Some(inter) = inter::find(local_comm as u64).or_else(|| inter::find(peer_comm as u64)) {
        let Some(twin) = inter.twin().filter(|_| inter::find(local_comm as u64).is_none()) else {
            return raise(inter.errors(), &unavailable(call));
        };
        peer_comm = twin as usize;
    }
    let code = forward!(called_as, local_comm, local_leader, peer_comm, remote_leader, tag, newintercomm);
    if !adopt::is_on() || newintercomm == 0 {
        return code;
    }
    let abi = abi::get();
    // SAFETY: the program's communicator.
    let made = unsafe { abi::load_handle(newintercomm) } & abi.mask;
    // If an error handler has returned, the MPI below may return success after a failure.
    if code != 0 || made == abi.comm_null {
        return code;
    }
    let local = local_comm as Handle & abi.mask;
    match node().and_then(|node| adopt::adopt(abi, node, local, made)) {
        Ok(inter) => {
            // SAFETY: the program's communicator.
            unsafe { hand_out(inter, newintercomm) };
            0
        }
        Err(failure) => raise(Place::Comm(local), &failure),
    }
}

// --------------------------------------------------------------------------------------------------------------- parts

/// The part that a process goes to, and its key there. `None`: it goes to no part.
type Part = Option<(u64, i32)>;

fn not_local() -> Failure {
    Failure::new(Class::Group, "the group is not part of the local group")
}

pub unsafe fn Comm_split(comm: usize, color: usize, key: usize, newcomm: usize) -> Answer {
    let inter = inter::find(comm as u64)?;
    let color = color as c_int;
    let part = match u64::try_from(color) {
        Ok(color) => Ok(Some((color, key as c_int))),
        Err(_) if color == abi::get().undefined => Ok(None),
        Err(_) => Err(Failure::new(Class::Arg, "the color is negative and not MPI_UNDEFINED")),
    };
    Some(part_off("MPI_Comm_split", &inter, part, newcomm))
}

/// Makes parts of the processes of each host, on both sides.
pub unsafe fn Comm_split_type(comm: usize, kind: usize, key: usize, _info: usize, newcomm: usize) -> Answer {
    let inter = inter::find(comm as u64)?;
    let (abi, kind) = (abi::get(), kind as c_int);
    let host = |node: &Node| {
        node.contact().host.chunks(8).fold(0, |hash, half| {
            let half = half.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            half ^ u64::rotate_left(hash, 1)
        })
    };
    let part = match node() {
        Ok(node) if kind == abi.comm_type_shared => Ok(Some((host(node), key as c_int))),
        _ if kind == abi.undefined => Ok(None),
        _ => Err(Failure::new(Class::Arg, "here only MPI_COMM_TYPE_SHARED is known")),
    };
    Some(part_off("MPI_Comm_split_type", &inter, part, newcomm))
}

pub unsafe fn Comm_create(comm: usize, group: usize, newcomm: usize) -> Answer {
    let call = "MPI_Comm_create";
    let Some(inter) = inter::find(comm as u64) else {
        // SAFETY: looks at the value only.
        let foreign = unsafe { group::is_token(group) };
        return foreign.then(|| raise(Place::Comm(comm as Handle), &not_local().of(call)));
    };
    let part = place_in(group, &inter).ok_or_else(not_local);
    Some(part_off(call, &inter, part, newcomm))
}

/// The part of this process, given a group of local processes. `None`: the group has other members.
fn place_in(wanted: usize, inter: &Inter) -> Option<Part> {
    let undefined = abi::get().undefined;
    let Ok(Named::Native(wanted, size)) = Named::of(wanted) else { return None };
    let ranks = NativeGroup::of(inter.shadow).and_then(|local| local.ranks_of(wanted, size)).ok()?;
    let mut rank = undefined;
    // SAFETY: the program's group, plain out-argument.
    let code = unsafe { pmpi::group_rank(wanted, &mut rank) };
    (code == 0 && !ranks.contains(&undefined)).then(|| (rank != undefined).then_some((0, rank)))
}

/// Makes parts of an inter-communicator: processes of both sides that give the same part get an inter-communicator
/// together.
fn part_off(call: &'static str, inter: &Arc<Inter>, part: Result<Part, Failure>, at: usize) -> c_int {
    let context = inter.next_child();
    let made = node().and_then(|node| {
        let make = || Parting::new(node, call, inter)?.make(part, context);
        let made = inter::below(make);
        if !matches!(made, Ok(Some(_))) {
            node.refuse_child(inter.id, context);
        }
        made
    });
    match made {
        // SAFETY: the program's communicator.
        Ok(Some(made)) => unsafe { hand_out(made, at) },
        // SAFETY: the program's communicator.
        Ok(None) => unsafe { abi::store_handle(at, abi::get().comm_null) },
        Err(failure) => return raise(inter.errors(), &failure.of(call)),
    }
    0
}

/// A call that makes parts, on one process.
struct Parting<'a> {
    abi: &'static Abi,
    node: &'static Node,
    call: &'static str,
    inter: &'a Arc<Inter>,
    rank: u32,
    size: u32,
}

impl Parting<'_> {
    fn new<'a>(node: &'static Node, call: &'static str, inter: &'a Arc<Inter>) -> Result<Parting<'a>, Failure> {
        let (rank, size) = rank_and_size(inter.shadow)?;
        Ok(Parting { abi: abi::get(), node, call, inter, rank, size })
    }

    /// Makes the part that this process goes to, if there is one.
    fn make(&self, part: Result<Part, Failure>, context: ContextId) -> Result<Option<Inter>, Failure> {
        let (abi, inter) = (self.abi, self.inter);
        let (ours, theirs) = self.exchange(&part)?;
        let part = part.unwrap_or(None);
        let (own, members) = (ranks_in(part, &ours), ranks_in(part, &theirs));
        // A color has to be an int that is not negative, so it is the first rank that goes to the part.
        let (color, key) = match (part, own.iter().min()) {
            (Some((_, key)), Some(first)) if !members.is_empty() => (*first as c_int, key),
            _ => (abi.undefined, 0),
        };
        let mut shadow = abi.comm_null;
        // SAFETY: a live communicator, plain out-argument.
        let code = progress::outcome(unsafe { pmpi::comm_split(inter.shadow, color, key, &mut shadow) });
        let shadow = if code == 0 { shadow & abi.mask } else { abi.comm_null };
        or_free(abi, shadow, self.all_made(code))?;
        let twin = twin_of_part(inter, shadow, members.first().copied());
        let Some(rank) = own.iter().position(|r| *r == self.rank).filter(|_| shadow != abi.comm_null) else {
            return Ok(None);
        };
        copy_errhandler(inter.shadow, shadow);
        let made = inter.derive(self.node, shadow, context, rank as u32, &members);
        twin.into_iter().for_each(|twin| made.set_twin(twin));
        Ok(Some(made))
    }

    /// The parts of all local processes and of all remote ones, in order of rank.
    fn exchange(&self, part: &Result<Part, Failure>) -> Result<(Vec<Part>, Vec<Part>), Failure> {
        let inter = self.inter;
        let job = &inter.remote.name;
        let own = part.as_ref().map_err(Failure::clone).map(|part| {
            let (color, key) = part.unwrap_or((NOWHERE, 0));
            let mut own = Vec::with_capacity(part::BYTES);
            own.put_u64(color);
            own.put_u32(key as u32);
            own
        });
        let all = self.decide(own, |ours| {
            // A side that has found a fault sends no parts.
            let theirs = self.swap_with_leader(ours.as_deref().unwrap_or_default())?;
            let mut all = ours?;
            if theirs.is_empty() {
                return Err(Failure::new(Class::Arg, format!("a process of job '{job}' gave a bad argument")));
            }
            all.extend_from_slice(&theirs);
            Ok(all)
        })?;
        let mut all = parts(&all, self.size + inter.remote.size())
            .map_err(|_| Failure::new(Class::Intern, format!("job '{job}' makes another call")))?;
        let theirs = all.split_off(self.size as usize);
        Ok((all, theirs))
    }

    /// Checks that the MPI below has made its communicator on all processes of both sides. `code` is what it returned
    /// here.
    fn all_made(&self, code: c_int) -> Result<(), Failure> {
        let none = |whose: String| Failure::new(Class::Other, format!("the MPI {whose} makes no communicator"));
        let own = if code == 0 { Ok(Vec::new()) } else { Err(none(format!("below (code {code})"))) };
        let all = self.decide(own, |ours| {
            // One byte stands for a fault.
            let theirs = self.swap_with_leader(if ours.is_ok() { &[] } else { &[1] })?;
            ours?;
            if theirs.is_empty() { Ok(theirs) } else { Err(none(format!("of job '{}'", self.inter.remote.name))) }
        });
        all.map(drop)
    }

    /// A decision of the processes of this side.
    fn decide(
        &self,
        own: Result<Vec<u8>, Failure>,
        decided: impl FnOnce(Result<Vec<u8>, Failure>) -> Result<Vec<u8>, Failure>,
    ) -> Result<Vec<u8>, Failure> {
        let team = Team { comm: self.inter.shadow, rank: self.rank, size: self.size, leader: 0 };
        decide(self.abi, self.node, &team, own, decided)
    }

    /// Sends bytes to the other leader, and returns those that it sends, at most the parts of its job.
    fn swap_with_leader(&self, told: &[u8]) -> Result<Vec<u8>, Failure> {
        let (node, call, inter) = (self.node, self.call, self.inter);
        let mut heard = vec![0; inter.remote.size() as usize * part::BYTES];
        // SAFETY: both buffers stay until both operations are over, below; the first is only read.
        let (out, back) = unsafe {
            (
                Layout::contiguous(told.as_ptr().cast_mut(), told.len()),
                Layout::contiguous(heard.as_mut_ptr(), heard.len()),
            )
        };
        let receive = node.irecv(inter.id, Source::Rank(0), Tag::Is(LEADERS), back);
        let send = node.isend(inter.id, 0, LEADERS, out, Mode::Standard);
        let sent = finish(&Request::new(inter, Work::Op(send), call, Peer::To(0)))?;
        if sent.failure.is_some() {
            node.cancel(receive);
        }
        let received = finish(&Request::new(inter, Work::Op(receive), call, Peer::From(Source::Rank(0))))?;
        if let Some(failure) = sent.failure.or(received.failure) {
            return Err(failure);
        }
        heard.truncate(received.status.bytes as usize);
        Ok(heard)
    }
}

/// The ranks of a side that go to a part, ordered by key, and by rank if keys are equal.
fn ranks_in(part: Part, side: &[Part]) -> Vec<u32> {
    let Some((color, _)) = part else { return Vec::new() };
    let there = |(rank, other): (u32, &Part)| other.filter(|p| p.0 == color).map(|p| (p.1, rank));
    let mut found: Vec<(i32, u32)> = (0..).zip(side).filter_map(there).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, rank)| rank).collect()
}

fn parts(bytes: &[u8], count: u32) -> Result<Vec<Part>, Malformed> {
    let mut t = Take(bytes);
    let mut one = || {
        let (color, key) = (t.u64()?, t.u32()?);
        Ok((color != NOWHERE).then_some((color, key as i32)))
    };
    let all = (0..count).map(|_| one()).collect::<Result<_, _>>()?;
    t.end()?;
    Ok(all)
}
