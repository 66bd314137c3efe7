//! The inter-communicators of an image: opened anew at a restart, over shadows with the ranks that they had, with their names and
//! with the messages that were on their way.
//!
//! Invariant: no message of the program is sent or received before those of the images are there.

use super::bounds::{largest_tag, timeout};
use super::collective::{Team, agree, all_or_none, decide, native};
use super::directory;
use super::joined::{self, Other, Told};
use super::meet;
use super::registration::Registration;
use crate::abi::Abi;
use crate::entry::joined::hand_out;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::inter::Inter;
use crate::progress;
use crate::wait::wait_until;
use base::ProcId;
use node::images::{self, Image, pack, unpack};
use node::leaders::Agreement;
use node::{ContextId, InterId, Node, Opened, Place};
use std::ffi::{CString, c_char, c_int};
use std::time::{Duration, Instant};

/// Where results go.
#[derive(Clone, Copy)]
pub struct Results {
    pub label: *mut c_char,
    /// Bytes that there are for the label, with its terminator.
    pub room: usize,
    pub max: c_int,
    pub comms: usize,
    pub count: *mut c_int,
}

impl Results {
    /// Whether all of them are there.
    pub fn is_there(&self) -> bool {
        !self.label.is_null() && !self.count.is_null() && self.max >= 0 && (self.max == 0 || self.comms != 0)
    }
}

/// The inter-communicators of an image: the other job's name and the context. Parts that one call has made have the same.
type Key = (String, ContextId);

/// Opens the inter-communicators of an image, waits for the messages that are to be there, and gives them to the program.
///
/// # Safety
/// The places of the results are as large as they say.
pub unsafe fn go_on(
    abi: &Abi,
    node: &Node,
    registration: &Registration,
    team: &Team,
    image: Image,
    told: &[Told],
    results: Results,
) -> Result<(), Failure> {
    let own = registration.me();
    let places = told.iter().map(|told| directory::place(abi, node, team, told.sides()));
    let places: Vec<_> = places.collect::<Result<_, Failure>>()?;
    let jobs: Vec<&Agreement> = told.iter().map(|told| &told.agreement).collect();
    let jobs = &jobs[..];
    check(abi, team, &image, jobs, results)?;
    node.with(|core| core.number_cuts_from(own, image.head.serial));
    // The processes are known by an inter-communicator of a number that leaders never give. The one that they have
    // given now is not opened: its number may be that of an old one.
    let tag_ub = largest_tag(abi);
    let agreements = image.remotes.iter().filter_map(|remote| of_name(jobs, &remote.name));
    let others = agreements.map(|job| {
        let other = joined::other(tag_ub, job)?;
        let place = jobs.iter().zip(&places).find(|(of, _)| of.remote.name == job.remote.name);
        directory::acquaint(node, own, &other.group, place.and_then(|(_, place)| place.as_ref()));
        let base = node.open(own, &other.group, ContextId::root(0));
        Ok((base, other))
    });
    let others: Vec<(InterId, Other)> = others.collect::<Result<_, Failure>>()?;
    let (mut places, mut inters): (Vec<Place>, Vec<Inter>) = (Vec::new(), Vec::new());
    for (of, shadow) in image.inters.iter().zip(shadows(abi, node, team, &image)?) {
        // SAFETY: our own communicator.
        native("MPI_Comm_set_errhandler", unsafe { progress::errors_return(shadow) })?;
        let (base, other) = &others[of.remote as usize];
        let id = node.open_child(*base, of.context, of.rank, &of.members);
        places.push((of.remote, of.context, id, of.members.clone()));
        let mut remote = other.remote.clone();
        remote.members = other.remote.members.part(&of.members);
        let inter = Inter::new(shadow, id, of.context, remote, other.tag_ub).with_children(of.children);
        give_name(&inter, &of.name);
        inters.push(inter);
    }
    let contexts: Vec<u64> = image.remotes.iter().map(|remote| remote.contexts).collect();
    for (at, (remote, (_, other))) in (0u32..).zip(image.remotes.into_iter().zip(&others)) {
        let of_it = places.iter().filter(|(remote, ..)| *remote == at);
        let opened: Vec<Opened> = of_it.map(|(_, context, id, members)| (*context, *id, members.clone())).collect();
        node.with(|core| core.begin_resume(own, other.group.incarnation, remote.of, opened));
    }
    let done = wait_for_images(node, own, timeout()?);
    let incarnations: Vec<u64> = others.iter().map(|(_, other)| other.group.incarnation).collect();
    node.with(|core| core.begin_replay(own, &image.head.jobs, image.outcomes, &incarnations, &places));
    let worst = agree(abi, team.comm, done.is_err().into())?;
    // Also where all of an inter-communicator was freed, the other side or a duplicate may have its number.
    for ((base, other), last) in others.iter().zip(contexts) {
        let leader = ProcId { incarnation: other.group.incarnation, rank: 0 };
        node.with(|core| core.skip_contexts(own, leader, ContextId::root(last)));
        registration.note_context(other.group.incarnation, last);
        node.close(*base);
    }
    done?;
    if worst != 0 {
        return Err(Failure::new(Class::Other, CANNOT));
    }
    for (at, job) in (0u32..).zip(others.iter().filter_map(|(_, other)| of_name(jobs, &other.remote.name))) {
        let told = registration.lead.as_ref().and_then(|lead| meet::note_coupling(node, registration, lead, job));
        let Some(told) = told else { continue };
        let its = inters.iter().zip(&places).filter(|(_, (remote, ..))| *remote == at);
        its.for_each(|(inter, _)| inter.set_coupling(told.clone()));
    }
    for (at, inter) in inters.into_iter().enumerate() {
        registration.inherit_errhandler(inter.shadow);
        // SAFETY: there is room for as many, of the MPI's width.
        unsafe { hand_out(inter, results.comms + at * abi.family.handle_bytes) };
    }
    Ok(())
}

const CANNOT: &str = "another process of this job cannot restart, and says why";

fn of_name<'a>(jobs: &[&'a Agreement], name: &str) -> Option<&'a Agreement> {
    jobs.iter().copied().find(|job| job.remote.name == name)
}

/// All processes agree on whether the jobs that have come are those of their images.
fn check(abi: &Abi, team: &Team, image: &Image, jobs: &[&Agreement], results: Results) -> Result<(), Failure> {
    let mut fault = image.remotes.iter().find_map(|remote| match of_name(jobs, &remote.name) {
        None => Some(format!("job '{}' of the checkpoint is not there", remote.name)),
        Some(job) if job.remote.size != remote.size => Some(format!(
            "job '{}' has {} ranks, and had {} at the checkpoint: restart it with as many",
            remote.name, job.remote.size, remote.size
        )),
        Some(_) => None,
    });
    let (count, label) = (image.inters.len(), image.head.label.len());
    if count > results.max as usize {
        fault.get_or_insert_with(|| format!("there are {count} inter-communicators, and room for {}", results.max));
    }
    if label >= results.room {
        let room = results.room.saturating_sub(1);
        fault.get_or_insert_with(|| format!("the label has {label} bytes, and room for {room}"));
    }
    let size = |inter: &images::Inter| image.remotes[inter.remote as usize].size;
    if image.inters.iter().any(|inter| inter.members.iter().any(|rank| *rank >= size(inter))) {
        fault.get_or_insert_with(|| "the checkpoint has ranks that the other job has not".into());
    }
    let own = fault.map_or(Ok(()), |fault| Err(Failure::new(Class::Other, fault)));
    all_or_none(abi, team.comm, own, CANNOT)
}

/// The shadows of the inter-communicators of an image, made in one order by all processes of the job.
fn shadows(abi: &Abi, node: &Node, team: &Team, image: &Image) -> Result<Vec<Handle>, Failure> {
    let key = |inter: &images::Inter| (image.remotes[inter.remote as usize].name.clone(), inter.context);
    let keys: Vec<Key> = image.inters.iter().map(key).collect();
    let decided = |all: Result<Vec<u8>, Failure>| Ok(pack(&in_order(unpack(&all?).unwrap_or_default())));
    let order = decide(abi, node, team, Ok(pack(&keys)), decided)?;
    let order: Vec<Vec<Key>> = unpack(&order).unwrap_or_default();
    let mut shadows = vec![abi.comm_null; keys.len()];
    for key in order.into_iter().flatten() {
        let at = keys.iter().position(|own| *own == key);
        let of = at.map(|at| &image.inters[at]);
        // Parts that one call has made have no member in common.
        let colour = of.and_then(|of| of.members.iter().min()).map_or(abi.undefined, |first| *first as c_int);
        let (rank, mut shadow) = (of.map_or(0, |of| of.rank), abi.comm_null);
        // SAFETY: plain out-argument; all processes of the group split it as often.
        native("MPI_Comm_split", unsafe { pmpi::comm_split(team.comm, colour, rank as c_int, &mut shadow) })?;
        if let Some(at) = at {
            shadows[at] = shadow & abi.mask;
        }
    }
    Ok(shadows)
}

/// The inter-communicators of all processes in an order that has those of each in its own.
fn in_order(all: Vec<Vec<Key>>) -> Vec<Key> {
    let mut order: Vec<Key> = Vec::new();
    for of in all {
        let mut at = 0;
        for key in of {
            match order.iter().position(|known| *known == key) {
                Some(known) => at = known + 1,
                None => {
                    order.insert(at, key);
                    at += 1;
                }
            }
        }
    }
    order
}

/// Gives the shadow the name that the program had given. Nothing depends on it.
fn give_name(inter: &Inter, name: &[u8]) {
    let Ok(text) = CString::new(name) else { return };
    // SAFETY: our own communicator; the MPI copies the text.
    if !name.is_empty() && unsafe { pmpi::comm_set_name(inter.shadow, text.as_ptr()) } == 0 {
        inter.set_named();
    }
}

/// Waits until what is to come of the images is there.
fn wait_for_images(node: &Node, own: ProcId, limit: Duration) -> Result<(), Failure> {
    let done = wait_until(node, Some(Instant::now() + limit), |core| {
        let awaited = core.awaited(own);
        match awaited.iter().find(|(_, _, is_gone)| *is_gone) {
            Some((peer, ..)) => Some(Err(Failure::new(Class::PeerGone, format!("{peer} has died meanwhile")))),
            None => awaited.is_empty().then_some(Ok(())),
        }
    });
    done.unwrap_or_else(|| {
        let of = |(peer, told, _): (ProcId, bool, bool)| {
            format!("{peer}: {}", if told { "messages of its image" } else { "what it wants" })
        };
        let lacks: Vec<String> = node.with(|core| core.awaited(own)).into_iter().map(of).collect();
        let text =
            format!("not all of the checkpoint came in time (MPI_CONNECT_TIMEOUT); from {}", lacks.join(", from "));
        Err(Failure::new(Class::Timeout, text))
    })
}
