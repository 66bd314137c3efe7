//! The added calls but for those of `hold`, `notify` and `files`: a job's name, joining, checkpoints.
//!
//! Most are collective over the local communicator. Every process checks its own arguments, and all agree on whether one
//! of them has found a fault. The leader (rank 0) talks to the naming service and to the other job, and its verdict goes
//! to all. So either every process returns success or every process returns an error.
//!
//! The C header is made from the comments here and in these three files. What they leave out for Rust's sake: strings are
//! terminated or null, places for results are writable or null.
#![allow(clippy::missing_safety_doc)]

pub mod adopt;
pub mod bounds;
mod checkpoint;
pub mod claim;
pub mod collective;
pub mod directory;
pub mod expected;
pub mod files;
mod folder;
pub mod fork;
pub mod hold;
pub mod joined;
pub mod kept;
mod meet;
pub mod notify;
pub mod registration;
pub mod reopen;
mod restart;
pub mod summary;
pub mod talk;
mod team;
mod tree;
pub mod waiting;

use crate::abi::{Abi, BindError};
use crate::bind::bind;
use crate::entry::joined::hand_out;
use crate::error::{Place, die, mpi_class, raise};
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::inter::{self, Inter};
use crate::process::node;
use crate::{forward, life, progress};
use base::bytes::{Put, Take};
use base::ident::{self, random};
use bounds::{largest_tag, timeout};
use claim::open_naming;
use collective::{Team, decide, encoded_contact};
use kept::Kept;
use naming::{ClaimError, Record};
use node::figures::JobSecret;
use node::leaders::MAX_NAME;
use node::{Contact, Group, Node, ProcId};
use registration::{Lead, Registration};
use std::ffi::{CStr, c_char, c_int, c_void};

/// A communicator as the program passes it: an int or an address, by the MPI.
#[repr(transparent)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct MPI_Comm(usize);

impl MPI_Comm {
    pub fn new(handle: Handle) -> MPI_Comm {
        MPI_Comm(handle as usize)
    }

    pub fn handle(self) -> Handle {
        self.0 as Handle
    }
}

/// Registers this job, or the part of it that `local_comm` spans, under a name by which other jobs find it.
///
/// Collective over `local_comm`, an intra-communicator; the name of rank 0 counts: 1 to 255 bytes of UTF-8 without
/// control characters. `handle` is set on every process. Errors go to the error handler of `local_comm`:
/// MPI_ERR_ARG for a bad name or pointer, MPI_ERR_COMM, MPI_ERR_NAME when a live job holds the name or the naming
/// service cannot be used, MPI_ERR_OTHER when the program's MPI calls do not pass through this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_register(name: *const c_char, local_comm: MPI_Comm, handle: *mut c_int) -> c_int {
    let call = "MPI_Conn_register";
    let abi = running(call);
    let comm = local_comm.handle() & abi.mask;
    if let Err(code) = check_intra(abi, call, comm) {
        return code;
    }
    // SAFETY: the caller's promises.
    match unsafe { register(abi, name, comm, handle) } {
        Ok(()) => 0,
        Err(failure) => raise(Place::Comm(comm), &failure.of(call)),
    }
}

/// Joins the registered job with the job registered as `remote_name`, which makes the matching call.
///
/// Collective over the communicator that the handle was made with. Waits until the other job has made its call: the
/// k-th call for a pair of registrations meets the other side's k-th. Waits at most MPI_CONNECT_TIMEOUT seconds
/// (default 600). `newintercomm` is then used like any inter-communicator and freed by MPI_Comm_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_intercomm_create(
    handle: c_int,
    remote_name: *const c_char,
    newintercomm: *mut MPI_Comm,
) -> c_int {
    let call = "MPI_Conn_intercomm_create";
    let abi = running(call);
    let registration = match registration::find(handle) {
        Ok(registration) => registration,
        Err(failure) => return raise(Place::world(), &failure.of(call)),
    };
    // SAFETY: the caller's promises.
    match unsafe { create(abi, &registration, remote_name, newintercomm) } {
        Ok(()) => 0,
        Err(failure) => raise(Place::Comm(registration.comm()), &failure.of(call)),
    }
}

/// Gives the name back. Inter-communicators made with the handle stay.
///
/// Collective over the communicator that the handle was made with.
#[unsafe(no_mangle)]
pub extern "C" fn MPI_Conn_remove(handle: c_int) -> c_int {
    let call = "MPI_Conn_remove";
    running(call);
    let registration = match registration::find(handle) {
        Ok(registration) => registration,
        Err(failure) => return raise(Place::world(), &failure.of(call)),
    };
    registration::remove(handle);
    release(&registration);
    registration.kept.end()
}

/// Makes a checkpoint of what concerns messages between this job and others. The program writes its own state beside it.
///
/// Collective over the communicator that the handle was made with; MPI_Conn_restart was called with the handle. Each
/// job calls it when it wants to, and waits for no other job. The folder and the label of rank 0 count. The label has up
/// to 255 bytes of UTF-8 without control characters, and tells at a restart which of the program's own files belong to
/// it. Images are written in the background: MPI_ERR_OTHER at the next call when one cannot be written.
///
/// The call is a cut in what a job does. At a restart each job goes on from a cut of its own, here `x` and `o`:
///
/// ```text
///                  early          late
/// air    -----x------1--------------2--------->   x: the cut of air
///                     \            /
///                      \          /
/// ocean  ---------------1--------2-------o---->   o: the cut of ocean
/// ```
///
/// Message 1 is early: ocean has received it before its cut, and air sends it behind its own. After a restart air's
/// program sends it once more, and the library does not deliver it twice. Message 2 is late: ocean has sent it before
/// its cut, and air receives it behind its own. The images have it: air's program receives it after a restart, and
/// ocean's does not send it again.
///
/// So the program owes this. From its cut until the other jobs have made theirs it is deterministic, but for what tests,
/// probes and receives from any source find, which the library notes and gives again. It writes its own state where it
/// makes the call, with no message to or from another job between. The messages inside its job are over at the call. A
/// send that is pending at the call counts as sent; a receive that is pending counts as not posted, and is posted again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_checkpoint(handle: c_int, directory: *const c_char, label: *const c_char) -> c_int {
    let call = "MPI_Conn_checkpoint";
    let abi = running(call);
    let registration = match registration::find(handle) {
        Ok(registration) => registration,
        Err(failure) => return raise(Place::world(), &failure.of(call)),
    };
    // SAFETY: the caller's promises.
    match node().and_then(|node| unsafe { checkpoint::checkpoint(abi, node, &registration, directory, label) }) {
        Ok(()) => 0,
        Err(failure) => raise(Place::Comm(registration.comm()), &failure.of(call)),
    }
}

/// Goes on from the newest line of checkpoints that all jobs of it have, under any MPI, with as many ranks: gives back
/// its label, and the inter-communicators in the order of their making, with the messages that were on their way.
///
/// Collective over the communicator that the handle was made with; called behind MPI_Conn_register and before any other
/// call with the handle. Without a checkpoint, as in a first run, `count` is 0 and `label` is empty. `label` has room
/// for MPI_CONN_MAX_LABEL bytes, `comms` for `max` inter-communicators. Waits at most MPI_CONNECT_TIMEOUT seconds for
/// the other jobs of the line, which restart too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_restart(
    handle: c_int,
    directory: *const c_char,
    label: *mut c_char,
    max: c_int,
    comms: *mut MPI_Comm,
    count: *mut c_int,
) -> c_int {
    let results = reopen::Results { label, room: checkpoint::MAX_LABEL, max, comms: comms as usize, count };
    // SAFETY: the caller's promises.
    unsafe { restart_with(handle, directory, results) }
}

/// The same where the room for the label has a size of its own.
///
/// # Safety
/// `directory` is null or terminated; the places are null or as large as they say.
pub unsafe fn restart_with(handle: c_int, directory: *const c_char, results: reopen::Results) -> c_int {
    let call = "MPI_Conn_restart";
    let abi = running(call);
    let registration = match registration::find(handle) {
        Ok(registration) => registration,
        Err(failure) => return raise(Place::world(), &failure.of(call)),
    };
    // SAFETY: the caller's promises.
    match unsafe { restart::restart(abi, node(), &registration, directory, results) } {
        Ok(()) => 0,
        Err(failure) => raise(Place::Comm(registration.comm()), &failure.of(call)),
    }
}

/// The room for the label of a checkpoint, with its terminator.
pub const MPI_CONN_MAX_LABEL: c_int = 256;
const _: [(); checkpoint::MAX_LABEL] = [(); MPI_CONN_MAX_LABEL as usize];

/// The other process has died, or has finalized: a kind for MPI_Conn_error_class.
pub const MPI_CONN_ERR_PEER_GONE: c_int = 1;
/// The other job did not come within MPI_CONNECT_TIMEOUT: a kind for MPI_Conn_error_class.
pub const MPI_CONN_ERR_TIMEOUT: c_int = 2;

/// A job has registered the name: an event of MPI_Conn_notify.
pub const MPI_CONN_JOINED: c_int = 1;
/// It has given the name back, or finalized: an event of MPI_Conn_notify.
pub const MPI_CONN_LEFT: c_int = 2;
/// It has died, or cannot be heard any more: an event of MPI_Conn_notify.
pub const MPI_CONN_DIED: c_int = 4;

/// The MPI error class of one of our own kinds of error, to compare with what MPI_Error_class gives. Local. The
/// classes are made at run time, so they may differ between processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_error_class(which: c_int, errorclass: *mut c_int) -> c_int {
    let call = "MPI_Conn_error_class";
    let abi = running(call);
    let kind = match which {
        MPI_CONN_ERR_PEER_GONE => Class::PeerGone,
        MPI_CONN_ERR_TIMEOUT => Class::Timeout,
        _ => return raise(Place::world(), &Failure::new(Class::Arg, format!("{call}: there is no kind {which}"))),
    };
    if errorclass.is_null() {
        return raise(Place::world(), &Failure::new(Class::Arg, format!("{call}: the class is a null pointer")));
    }
    // SAFETY: the caller's promise.
    unsafe { errorclass.write(mpi_class(abi, kind)) };
    0
}

/// Gives all names back, in MPI_Finalize.
fn release_all() {
    for registration in registration::take_all() {
        release(&registration);
        registration.kept.end();
    }
}

/// Gives a name back, and removes its group.
fn release(registration: &Registration) {
    if let Some(lead) = &registration.lead {
        lead.release();
    }
    if let Ok(node) = Node::get() {
        node.remove_group(registration.group.incarnation);
    }
}

/// The ABI of a running MPI. Without one there is no error handler to call: the job ends as an MPI ends it.
fn running(call: &str) -> &'static Abi {
    if forward::is_static() {
        die(&format!(
            "{call}: MPI is linked statically into this program, so its calls cannot pass through libmpi_connect.so: link \
             with the MPI's shared library"
        ));
    }
    let abi = match bind() {
        Ok(abi) => abi,
        Err(BindError::NoMpi) => die(&format!("{call}: {}", base::NO_LIBRARY)),
        Err(BindError::Unknown(path)) => die(&format!("{call}: {path} is an MPI that this version does not know")),
    };
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: allowed at any time.
    unsafe {
        pmpi::initialized(&mut initialized);
        pmpi::finalized(&mut finalized);
    }
    if initialized == 0 {
        die(&format!(
            "{call} was called before MPI_Init: call that first. If it was called, it did not pass through libmpi_connect.so: \
             link -lmpi_connect before the MPI, or use 'mpi-connect run'"
        ));
    }
    if finalized != 0 {
        die(&format!("{call} was called after MPI_Finalize"));
    }
    abi
}

/// Checks that this is an intra-communicator. If not, an error handler was called, and the code is to be returned.
pub fn check_intra(abi: &Abi, call: &str, comm: Handle) -> Result<(), c_int> {
    let mut inter = 0;
    let refuse = |what: &str| Err(raise(Place::world(), &Failure::new(Class::Comm, what).of(call)));
    if comm == abi.comm_null {
        return refuse("the communicator is MPI_COMM_NULL");
    }
    // SAFETY: the MPI below checks the handle, and tells its own error handler.
    let code = unsafe { pmpi::comm_test_inter(comm, &mut inter) };
    match code {
        0 if inter == 0 && inter::find(comm).is_none() => Ok(()),
        0 => refuse("an intra-communicator is needed"),
        code => Err(code),
    }
}

/// The name that a program passes, where its calls pass through this library and it has a place for the result.
unsafe fn read_name(name: *const c_char, result: *const c_void) -> Result<String, Failure> {
    let bad = |text: &str| Err(Failure::new(Class::Arg, text));
    let coded = || bad("the name is not UTF-8 or contains a control character");
    let long = || bad("the name is longer than 255 bytes");
    if !life::passed() {
        return Err(Failure::new(
            Class::Other,
            "MPI_Init did not pass through libmpi_connect.so, so sends would not either: link -lmpi_connect before the \
             MPI, or use 'mpi-connect run'; where the MPI is loaded by dlopen, call the functions of libmpi_connect.so",
        ));
    }
    if name.is_null() {
        return bad("the name is a null pointer");
    }
    // SAFETY: no further than the terminator, or one byte more than a name may have.
    let len = unsafe { libc::strnlen(name, MAX_NAME + 1) };
    if len > MAX_NAME {
        return long();
    }
    // SAFETY: there is a terminator within the bounds.
    let Ok(name) = unsafe { CStr::from_ptr(name) }.to_str() else { return coded() };
    match naming::check_name(name) {
        Ok(()) if result.is_null() => bad("the place for the result is a null pointer"),
        Ok(()) => Ok(name.to_owned()),
        Err(naming::NameError::Empty) => bad("the name is empty"),
        Err(naming::NameError::TooLong(_)) => long(),
        Err(naming::NameError::Control | naming::NameError::NotUtf8) => coded(),
    }
}

unsafe fn register(abi: &Abi, name: *const c_char, comm: Handle, handle: *mut c_int) -> Result<(), Failure> {
    // SAFETY: the caller's string.
    let name = unsafe { read_name(name, handle.cast()) };
    let node = progress::build().and_then(|()| node());
    let running = node.as_ref().ok().copied();
    let (kept, enrolled) = Kept::new(abi, running, "MPI_Conn_register", comm, |team| enroll(abi, node, name, team))?;
    let (name, group, lead) = enrolled.inspect_err(|_| {
        kept.end();
    })?;
    life::end_with(life::Part::Names, release_all);
    let number = registration::insert(Registration::new(name, group, kept, comm, lead));
    // SAFETY: the caller's promise, checked for null.
    unsafe { handle.write(number) };
    Ok(())
}

/// The part of a registration that may fail on one process, which is then told to all. Between collective steps no
/// process returns early, or the others would wait for ever.
fn enroll(
    abi: &Abi,
    node: Result<&Node, Failure>,
    name: Result<String, Failure>,
    team: &Team,
) -> Result<(String, Group, Option<Lead>), Failure> {
    let Team { rank, size, .. } = *team;
    let mut lead = None;
    let own = name.as_ref().map_err(Failure::clone).and(node.clone().map(encoded_contact));
    let decided = |records: Result<Vec<u8>, Failure>| {
        let (records, node, name) = (records?, node.clone()?, name.as_ref().map_err(Failure::clone)?);
        let cookie = random();
        let incarnation = node::incarnation(&node.contact().process, &cookie);
        let group = Group { incarnation, cookie, rank, size };
        let secret = random();
        // The group is added before the name can be found: a process that finds it may dial at once.
        node.add_group(group);
        let claimed =
            claim_name(node, name, &group, secret, records).inspect_err(|_| node.remove_group(group.incarnation))?;
        let mut told = Vec::new();
        told.put_u64(group.incarnation);
        told.extend_from_slice(&group.cookie);
        told.extend_from_slice(&secret);
        node.contact().encode(&mut told);
        lead = Some(claimed);
        Ok(told)
    };
    let told = decide(abi, node.as_ref().ok().copied(), team, own, decided)?;
    let (node, name) = (node?, name?);
    let mut told = Take(&told);
    let damaged = |_| Failure::new(Class::Intern, "the leader's verdict is damaged");
    let incarnation = told.u64().map_err(damaged)?;
    let cookie = told.array().map_err(damaged)?;
    let secret = told.array().map_err(damaged)?;
    let contact = Contact::decode(&mut told).map_err(damaged)?;
    let group = Group { incarnation, cookie, rank, size };
    ident::name_job(incarnation, &name);
    base::log::registered(&name, rank);
    if rank != 0 {
        node.add_group(group);
        node.follow(incarnation, secret);
    }
    summary::note(node, &name, ProcId { incarnation, rank }, size, &contact);
    Ok((name, group, lead))
}

/// The leader claims the name for its group.
fn claim_name(node: &Node, name: &str, group: &Group, secret: JobSecret, records: Vec<u8>) -> Result<Lead, Failure> {
    let naming = open_naming()?;
    let size = group.size;
    let contacts = joined::gathered(&records, size)?;
    let members: Vec<Contact> = contacts.iter().collect();
    let mut record = Record { incarnation: group.incarnation, cookie: group.cookie, size, ..claim::record(name)? };
    members[0].encode(&mut record.leader);
    let held = claim::hold(node, &*naming, &record).map_err(|e| {
        let alone = matches!(&e, ClaimError::Held { by } if size == 1 && by.size == 1 && by.host == record.host);
        // The launcher of another MPI starts a program as many jobs of one process each.
        let hint = if alone {
            "; if both are ranks of one job, start it by the launcher of the program's own MPI"
        } else {
            ""
        };
        Failure::new(Class::Name, format!("{e}{hint}"))
    })?;
    base::log!(Info, "registered '{name}' in {}", naming.describe());
    node.lead(group.incarnation, name, members, secret);
    Ok(Lead::new(naming, contacts, held))
}

unsafe fn create(
    abi: &Abi,
    registration: &Registration,
    wanted: *const c_char,
    newintercomm: *mut MPI_Comm,
) -> Result<(), Failure> {
    // SAFETY: the caller's string.
    let wanted = unsafe { read_name(wanted, newintercomm.cast()) };
    let inter = join(abi, registration, wanted)?;
    registration.inherit_errhandler(inter.shadow);
    // SAFETY: the caller's promise, checked for null.
    unsafe { hand_out(inter, newintercomm as usize) };
    Ok(())
}

fn join(abi: &Abi, registration: &Registration, wanted: Result<String, Failure>) -> Result<Inter, Failure> {
    let (node, tag_ub) = (node(), largest_tag(abi));
    let join = registration.kept.begin("MPI_Conn_intercomm_create", 0);
    let own = wanted.as_ref().map_err(Failure::clone).and(node.clone()).map(|_| Vec::new());
    let decided = |all: Result<Vec<u8>, Failure>| {
        all?;
        let (node, wanted) = (node.clone()?, wanted?);
        let lead = registration.lead()?;
        let agreement = meet::meet(node, registration, lead, &wanted, tag_ub as u32, timeout()?)?;
        Ok(joined::tell(node, &agreement, registration.group.size))
    };
    let (told, shadow) = join.decide(abi, node.as_ref().ok().copied(), own, decided)?;
    let node = node?;
    let told = joined::hear(node, &told)?;
    let directory = directory::place(abi, node, &registration.kept.team, told.sides())?;
    let agreement = told.agreement;
    if registration::is_member(agreement.remote.incarnation) {
        return Err(joined::with_itself());
    }
    let shadow_and_tags = (shadow.handle, tag_ub);
    let inter =
        joined::open(node, registration.me(), shadow_and_tags, &agreement, directory.as_ref())?.with_shadow(shadow);
    registration.note_context(agreement.remote.incarnation, agreement.context);
    let told = registration.lead.as_ref().and_then(|lead| meet::note_coupling(node, registration, lead, &agreement));
    told.into_iter().for_each(|told| inter.set_coupling(told));
    base::log!(Info, "joined '{}' with '{}', size {}", registration.name, inter.remote.name, inter.remote.size());
    Ok(inter)
}
