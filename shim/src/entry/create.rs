//! Calls that make an inter-communicator from one that there is: dup, split, create.
//!
//! A duplicate needs no word between the jobs: its name on both sides follows from its parent's, since every process
//! counts the collective calls alike, and the MPI below duplicates the carrier with all that hangs on it. For parts the
//! leaders (rank 0 of each side) exchange who goes where; every process of both sides succeeds, or all fail.

use crate::abi;
use crate::conn::adopt;
use crate::conn::collective::{agree, from_leader, native, or_free, rank_and_size};
use crate::entry::instead::unavailable;
use crate::entry::joined::hand_out;
use crate::entry::p2p::finish;
use crate::error::{Place, copy_errhandler, raise};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Face, Handle};
use crate::group::{self, Named, NativeGroup};
use crate::inter::{self, Inter};
use crate::process::node;
use crate::request::{Peer, Request, Work};
use crate::{abi::Abi, house};
use base::bytes::{Malformed, Put, Take};
use base::protocol::context::{NOWHERE, part};
// What leaders say to each other goes by the inter-communicator itself, under a tag that no receive of the user gets.
use base::protocol::tag::LEADERS;
use node::{ContextId, Layout, Mode, Node, Source, Tag};
use std::ffi::c_int;
use std::sync::Arc;

type Answer = Option<c_int>;

// ---------------------------------------------------------------------------------------------------------- duplicates

/// Whether a call that makes a duplicate may wait for the others.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blocking,
    Nonblocking,
}

/// `make` duplicates the carrier.
fn duplicate(comm: usize, at: usize, kind: Kind, make: impl FnOnce(Handle, &mut Handle) -> c_int) -> Answer {
    let inter = inter::find(comm as u64)?;
    let abi = abi::get();
    // It is the carrier's rank, and that of its duplicate.
    let (node, (rank, _)) = match node().and_then(|node| Ok((node, rank_and_size(inter.carrier)?))) {
        Ok(found) => found,
        Err(failure) => return Some(raise(inter.errors(), &failure)),
    };
    let context = inter.next_child();
    let mut carrier = abi.comm_null;
    let code = inter::below(|| make(inter.carrier, &mut carrier));
    let carrier = carrier & abi.mask;
    // An error handler that came back may have made it a success: then there is no communicator.
    if code != 0 || carrier == abi.comm_null {
        node.refuse_child(inter.id, context);
        return Some(code);
    }
    let members: Vec<u32> = (0..inter.remote.size()).collect();
    let made = inter.derive(node, carrier, context, rank, &members);
    match kind {
        Kind::Blocking => {
            // SAFETY: a live communicator on which no attribute of the program's hangs.
            let twin = from_twin(&inter, |twin, new| unsafe { pmpi::comm_dup(twin, new) });
            twin.into_iter().for_each(|twin| made.set_twin(twin));
        }
        // To ask for a twin that is under way itself would be to wait.
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

/// A communicator that the MPI below makes of the twin of another, collectively over both sides, if it can.
fn from_twin(inter: &Inter, make: impl FnOnce(Handle, &mut Handle) -> c_int) -> Option<Handle> {
    let (abi, twin) = (abi::get(), inter.twin()?);
    let mut new = abi.comm_null;
    // SAFETY: a live communicator.
    unsafe { house::errors_return(twin) };
    let code = make(twin, &mut new);
    let new = new & abi.mask;
    (house::outcome(code) == 0 && new != abi.comm_null).then_some(new)
}

/// The twin of a part: `carrier` has the local processes of it, if any here; `leader` is the first of the remote ones.
///
/// Made as any program makes an inter-communicator, over what the parent's twin has been merged into: MPICH 4 splits
/// inter-communicators wrongly where rank 0 goes to no part. LAM, which makes no parts of inter-communicators, has no
/// twins for them: its collectives do not return on what it makes in this way.
fn twin_of_part(inter: &Inter, carrier: Handle, leader: Option<u32>) -> Option<Handle> {
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
        // SAFETY: live communicators, plain out-argument; nobody else sends there.
        let code = unsafe {
            house::errors_return(merged);
            pmpi::intercomm_create(carrier, 0, merged, there, 0, &mut twin)
        };
        (house::outcome(code) == 0 && twin & abi.mask != abi.comm_null).then_some(twin & abi.mask)
    };
    let twin = leader.filter(|_| carrier != abi.comm_null).and_then(make);
    // SAFETY: our own communicator, freed once, by all of its members.
    unsafe { pmpi::comm_free(&mut merged) };
    twin
}

pub unsafe fn Comm_dup(comm: usize, newcomm: usize) -> Answer {
    // SAFETY: a live communicator of the MPI's; the program's copy callbacks run in here.
    duplicate(comm, newcomm, Kind::Blocking, |carrier, new| unsafe { pmpi::comm_dup(carrier, new) })
}

pub unsafe fn Comm_dup_with_info(comm: usize, info: usize, newcomm: usize) -> Answer {
    // SAFETY: as above; the program's info.
    duplicate(comm, newcomm, Kind::Blocking, |carrier, new| unsafe {
        pmpi::comm_dup_with_info(carrier, info as Handle, new)
    })
}

/// The request is the MPI's own: it has named the communicator when the call returns, and nothing else is waited for.
pub unsafe fn Comm_idup(comm: usize, newcomm: usize, request: usize) -> Answer {
    // SAFETY: as above; the program's request.
    duplicate(comm, newcomm, Kind::Nonblocking, |carrier, new| unsafe {
        pmpi::comm_idup(carrier, new, request as *mut Handle)
    })
}

pub unsafe fn Comm_idup_with_info(comm: usize, info: usize, newcomm: usize, request: usize) -> Answer {
    // SAFETY: as above.
    duplicate(comm, newcomm, Kind::Nonblocking, |carrier, new| unsafe {
        pmpi::comm_idup_with_info(carrier, info as Handle, new, request as *mut Handle)
    })
}

// ------------------------------------------------------------------------------------------------------ within one job

pub fn Intercomm_create(
    face: Face,
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
    let code = forward!(face, local_comm, local_leader, peer_comm, remote_leader, tag, newintercomm);
    if !adopt::is_on() || newintercomm == 0 {
        return code;
    }
    let abi = abi::get();
    // SAFETY: the program's communicator.
    let made = unsafe { abi::load_handle(newintercomm) } & abi.mask;
    // An error handler that came back may have made a failure a success.
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

/// The part that a process goes to, and where in it; `None`: to none.
type Part = Option<(u64, i32)>;

/// What one process may have got wrong: the others are told by number.
#[derive(Clone, Copy)]
enum Fault {
    Color = 1,
    Group,
    Type,
}

impl Fault {
    fn failure(number: c_int, call: &str) -> Failure {
        match number {
            1 => Failure::new(Class::Arg, format!("{call}: the color is negative and not MPI_UNDEFINED")),
            2 => Failure::new(Class::Group, format!("{call}: the group is not part of the local group")),
            _ => Failure::new(Class::Arg, format!("{call}: here only MPI_COMM_TYPE_SHARED is known")),
        }
    }
}

pub unsafe fn Comm_split(comm: usize, color: usize, key: usize, newcomm: usize) -> Answer {
    let inter = inter::find(comm as u64)?;
    let color = color as c_int;
    let part = match u64::try_from(color) {
        Ok(color) => Ok(Some((color, key as c_int))),
        Err(_) if color == abi::get().undefined => Ok(None),
        Err(_) => Err(Fault::Color),
    };
    Some(part_off("MPI_Comm_split", &inter, part, newcomm))
}

/// Processes of one host, whichever side they are on.
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
        _ => Err(Fault::Type),
    };
    Some(part_off("MPI_Comm_split_type", &inter, part, newcomm))
}

pub unsafe fn Comm_create(comm: usize, group: usize, newcomm: usize) -> Answer {
    let call = "MPI_Comm_create";
    let Some(inter) = inter::find(comm as u64) else {
        // SAFETY: looks at the value only.
        let foreign = unsafe { group::is_token(group) };
        return foreign.then(|| raise(Place::Comm(comm as Handle), &Fault::failure(2, call)));
    };
    let part = place_in(group, &inter).ok_or(Fault::Group);
    Some(part_off(call, &inter, part, newcomm))
}

/// Where this process goes by a group of the local ones: `None` when the group has others.
fn place_in(wanted: usize, inter: &Inter) -> Option<Part> {
    let undefined = abi::get().undefined;
    let Ok(Named::Native(wanted, size)) = Named::of(wanted) else { return None };
    let ranks = NativeGroup::of(inter.carrier).and_then(|local| local.ranks_of(wanted, size)).ok()?;
    let mut rank = undefined;
    // SAFETY: the program's group, plain out-argument.
    let code = unsafe { pmpi::group_rank(wanted, &mut rank) };
    (code == 0 && !ranks.contains(&undefined)).then(|| (rank != undefined).then_some((0, rank)))
}

/// Makes the part of an inter-communicator that has the processes of both sides which name the same one.
fn part_off(call: &'static str, inter: &Arc<Inter>, part: Result<Part, Fault>, at: usize) -> c_int {
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
        Err(failure) => return raise(inter.errors(), &failure),
    }
    0
}

/// One such call, on one process.
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
        let (rank, size) = rank_and_size(inter.carrier)?;
        Ok(Parting { abi: abi::get(), node, call, inter, rank, size })
    }

    /// The part that this process goes to, if any.
    fn make(&self, part: Result<Part, Fault>, context: ContextId) -> Result<Option<Inter>, Failure> {
        let (abi, inter) = (self.abi, self.inter);
        let (ours, theirs) = self.exchange(part)?;
        let part = part.unwrap_or(None);
        let (own, members) = (ranks_in(part, &ours), ranks_in(part, &theirs));
        // The MPI below takes small numbers only: the first rank that goes there.
        let (color, key) = match (part, own.iter().min()) {
            (Some((_, key)), Some(first)) if !members.is_empty() => (*first as c_int, key),
            _ => (abi.undefined, 0),
        };
        let mut carrier = abi.comm_null;
        // SAFETY: a live communicator, plain out-argument.
        let code = house::outcome(unsafe { pmpi::comm_split(inter.carrier, color, key, &mut carrier) });
        let carrier = if code == 0 { carrier & abi.mask } else { abi.comm_null };
        or_free(abi, carrier, self.all_made(code))?;
        let twin = twin_of_part(inter, carrier, members.first().copied());
        let Some(rank) = own.iter().position(|r| *r == self.rank).filter(|_| carrier != abi.comm_null) else {
            return Ok(None);
        };
        copy_errhandler(inter.carrier, carrier);
        let made = inter.derive(self.node, carrier, context, rank as u32, &members);
        twin.into_iter().for_each(|twin| made.set_twin(twin));
        Ok(Some(made))
    }

    /// Where each process goes: the local ones and the others, in order of rank.
    fn exchange(&self, part: Result<Part, Fault>) -> Result<(Vec<Part>, Vec<Part>), Failure> {
        let (call, inter) = (self.call, self.inter);
        let fault = part.err().map_or(0, |fault| fault as c_int);
        let worst = agree(self.abi, inter.carrier, fault)?;
        let job = &inter.remote.name;
        let verdict = self.gather(part.unwrap_or(None))?.map(|mut ours| {
            // A side that has found a fault says nothing of its processes.
            if worst != 0 {
                ours.clear();
            }
            let theirs = self.swap_with_leader(&ours)?;
            if theirs.is_empty() && worst == 0 {
                return Err(Failure::new(Class::Arg, format!("{call}: a process of job '{job}' gave a bad argument")));
            }
            ours.extend_from_slice(&theirs);
            Ok(ours)
        });
        let all = from_leader(self.abi, self.node, inter.carrier, 0, verdict)?;
        if worst != 0 {
            return Err(Fault::failure(if fault != 0 { fault } else { worst }, call));
        }
        let mut all = parts(&all, self.size + inter.remote.size())
            .map_err(|_| Failure::new(Class::Intern, format!("{call}: job '{job}' makes another call")))?;
        let theirs = all.split_off(self.size as usize);
        Ok((all, theirs))
    }

    /// The parts of all local processes, in order of rank, on the leader; nothing elsewhere.
    fn gather(&self, part: Part) -> Result<Option<Vec<u8>>, Failure> {
        let (color, key) = part.unwrap_or((NOWHERE, 0));
        let mut own = Vec::with_capacity(part::BYTES);
        own.put_u64(color);
        own.put_u32(key as u32);
        let leads = self.rank == 0;
        let mut all = vec![0u8; if leads { self.size as usize * part::BYTES } else { 0 }];
        let (bytes, byte, comm) = (part::BYTES as c_int, self.abi.byte, self.inter.carrier);
        // SAFETY: so many bytes each; the leader has room for all.
        native("MPI_Gather", unsafe {
            pmpi::gather(own.as_ptr().cast(), bytes, byte, all.as_mut_ptr().cast(), bytes, byte, 0, comm)
        })?;
        Ok(leads.then_some(all))
    }

    /// Whether the MPI below has made its communicator on every process of both sides: `code` is what it answered here.
    fn all_made(&self, code: c_int) -> Result<(), Failure> {
        let (call, inter) = (self.call, self.inter);
        let none = |whose: String| Failure::new(Class::Other, format!("{call}: the MPI {whose} makes no communicator"));
        let worst = agree(self.abi, inter.carrier, (code != 0).into())?;
        let verdict = (self.rank == 0).then(|| {
            // One byte for a fault.
            let theirs = self.swap_with_leader(if worst == 0 { &[] } else { &[1] })?;
            if theirs.is_empty() { Ok(theirs) } else { Err(none(format!("of job '{}'", inter.remote.name))) }
        });
        let verdict = from_leader(self.abi, self.node, inter.carrier, 0, verdict);
        if worst != 0 {
            return Err(none(format!("below (code {code})")));
        }
        verdict.map(drop)
    }

    /// Tells the other leader something, and hears what it says: no more than the parts of its job.
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

/// The ranks of a side that go to this part, in its order: that of the keys, and among equals that of the ranks.
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
