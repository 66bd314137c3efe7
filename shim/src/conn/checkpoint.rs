//! `MPI_Conn_checkpoint`: every process makes its cut, and the leader tells the other jobs of it.
//!
//! Invariant: nothing waits for another job, and nothing for the disk unless the job is joined with no other.

use super::collective::{Team, agree, all_or_none, decide, gather, rank_and_size};
use super::registration::Registration;
use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::forward as pmpi;
use crate::inter::{self, Inter};
use crate::progress;
use base::ProcId;
use base::bytes::{Malformed, Put, Take};
use base::settings;
use node::images::{Head, Image, LineId, Outcomes, Packing, Row, Store, pack, unpack};
use node::{AllRows, Besides, Node, With};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest label, with its terminator.
pub(super) const MAX_LABEL: usize = 256;
/// The longest name of a folder.
const MAX_FOLDER: usize = 4096;
/// More than the longest name of a communicator in any MPI.
const MAX_NAME: usize = 256;

/// What is wrong with the arguments, or with the moment of the call.
pub(super) fn fault(text: &str) -> Failure {
    Failure::new(Class::Arg, text)
}

/// The folder as the caller names it.
///
/// # Safety
/// `folder` is null or terminated.
pub unsafe fn read_folder(folder: *const c_char) -> Result<String, Failure> {
    // SAFETY: the caller's promise.
    let folder = unsafe { read(folder, MAX_FOLDER) }.filter(|folder| !folder.is_empty());
    folder.ok_or_else(|| fault("the folder is a null pointer, empty, too long, or not UTF-8"))
}

unsafe fn read(text: *const c_char, room: usize) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: no further than the terminator, or the room.
    let length = unsafe { libc::strnlen(text, room) };
    if length == room {
        return None;
    }
    // SAFETY: there is a terminator within the room.
    unsafe { CStr::from_ptr(text) }.to_str().ok().map(str::to_owned)
}

unsafe fn read_label(label: *const c_char) -> Result<String, Failure> {
    if label.is_null() {
        return Err(fault("the label is a null pointer"));
    }
    // SAFETY: the caller's promise.
    let label = unsafe { read(label, MAX_LABEL) }.filter(|label| !label.contains(char::is_control));
    label.ok_or_else(|| fault("the label is longer than 255 bytes, is not UTF-8, or has control characters"))
}

pub fn team(registration: &Registration) -> Team {
    let group = &registration.group;
    Team { comm: registration.kept.copy(), rank: group.rank, size: group.size, leader: 0 }
}

fn damaged(_: Malformed) -> Failure {
    Failure::new(Class::Intern, "the leader's verdict is damaged")
}

/// A checkpoint. `folder` and `label` are those of the leader.
///
/// # Safety
/// The strings are null or terminated.
pub unsafe fn checkpoint(
    abi: &Abi,
    node: &Node,
    registration: &Registration,
    folder: *const c_char,
    label: *const c_char,
) -> Result<(), Failure> {
    let (team, own) = (team(registration), registration.me());
    // SAFETY: the caller's promise.
    let arguments = unsafe { read_folder(folder).and_then(|folder| Ok((folder, read_label(label)?))) };
    let handed_in = if node.with(|core| core.is_tracked(own)) {
        arguments.as_ref().map(|_| Vec::new()).map_err(Failure::clone)
    } else {
        Err(fault(
            "MPI_Conn_restart was not called with this handle: it comes behind MPI_Conn_register, also in a first run",
        ))
    };
    let decided = |all: Result<Vec<u8>, Failure>| {
        all?;
        let lead = registration.lead()?;
        let (folder, label) = arguments?;
        // The folder may be named from where this process is.
        let folder = std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder));
        lead.images.open(&Store::new(&folder, &registration.name)).map_err(unusable)?;
        let mut told = Vec::new();
        told.put_bytes(folder.to_string_lossy().as_bytes());
        told.put_bytes(label.as_bytes());
        Ok(told)
    };
    let told = decide(abi, node, &team, handed_in, decided)?;
    let mut told = Take(&told);
    let mut text = || told.bytes(MAX_FOLDER).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).map_err(damaged);
    let (folder, label) = (text()?, text()?);
    let inters = match node.with(|core| core.image_trouble(own)) {
        Some(why) => Err(Failure::new(Class::Other, format!("an earlier checkpoint could not be written: {why}"))),
        None => here(node, registration),
    };
    let inters =
        all_or_none(abi, team.comm, inters, "another process of this job cannot make a checkpoint, and says why")?;
    let store = as_set(Store::new(Path::new(&folder), &registration.name));
    let (serial, joined, rows) = cut(node, registration, inters, store.clone(), label.clone());
    let rows: BTreeMap<ProcId, Row> = rows;
    let all = gather(abi, node, &team, pack(&(joined.clone(), rows)))?;
    let all: Vec<Told> = unpack(&all).unwrap_or_default();
    let mut others: BTreeMap<u64, With> = BTreeMap::new();
    let mut of_all = AllRows::new();
    for (rank, (joined, rows)) in (0u32..).zip(all) {
        joined.into_iter().for_each(|(job, with)| others.entry(job).or_default().add(with));
        for (peer, row) in rows {
            of_all.entry(peer).or_default().insert(rank, row);
        }
    }
    let is_alone = agree(abi, team.comm, if joined.is_empty() && others.is_empty() { 0 } else { 1 })? == 0;
    if is_alone {
        return alone(abi, node, &team, registration, &store, serial, label);
    }
    if team.is_led_here() {
        node.with(|core| core.announce(own, serial, others, of_all));
    }
    base::log!(Info, "checkpoint {serial} of '{}'", registration.name);
    Ok(())
}

/// A store that writes images as the user wants them.
fn as_set(store: Store) -> Store {
    let (is_packed, is_per_node) = settings::images();
    let store = if is_packed { store.packed(Packing::Lz4) } else { store };
    if is_per_node { store.per_node() } else { store }
}

fn unusable(e: node::images::StoreError) -> Failure {
    Failure::new(Class::Other, format!("the folder for checkpoints cannot be used: {e}"))
}

/// The jobs joined with, and the inter-communicators with each in which this process is.
type Joined = BTreeMap<u64, With>;

/// What a process tells its leader of its cut: the jobs joined with, and what their processes are told.
type Told = (Joined, BTreeMap<ProcId, Row>);

/// The cut of this process: its number, the jobs joined with, and what other processes are told.
type Cut = (u64, Joined, BTreeMap<ProcId, Row>);

/// An inter-communicator of a registration: the own rank in its local group, its remote group, and the name that the program has
/// given it.
struct Here {
    inter: Arc<Inter>,
    rank: u32,
    members: Vec<ProcId>,
    name: Vec<u8>,
}

/// All of a registration, in the order of their making.
fn here(node: &Node, registration: &Registration) -> Result<Vec<Here>, Failure> {
    let own = registration.me();
    let (mut all, mut others) = (Vec::new(), 0);
    // By job: its name, and whether one of the inter-communicators has all processes of both sides.
    let mut jobs: BTreeMap<u64, (String, bool)> = BTreeMap::new();
    for inter in inter::all() {
        let members = node.with(|core| core.members_of(own, inter.id)).unwrap_or_default();
        let Some(job) = members.first().map(|member| member.incarnation) else {
            others += 1;
            continue;
        };
        let (rank, size) = rank_and_size(inter.shadow)?;
        let has_all = node.with(|core| core.size_of(own, job)) == Some(members.len() as u32);
        let (_, is_whole) = jobs.entry(job).or_insert_with(|| (inter.remote.name.clone(), false));
        *is_whole |= has_all && size == registration.group.size;
        all.push(Here { rank, members, name: name(&inter), inter });
    }
    if let Some((job, _)) = jobs.into_values().find(|(_, is_whole)| !is_whole) {
        let text = format!(
            "job '{job}' is joined in parts only: an inter-communicator of all processes of both jobs has to stay open as long \
             as there are checkpoints"
        );
        return Err(Failure::new(Class::Comm, text));
    }
    if others > 0 {
        base::log_seldom!(
            Info,
            "{others} inter-communicators are in no checkpoint of '{}': only those are that were made with its handle, or at a port after MPI_Conn_restart, and made from these",
            registration.name
        );
    }
    all.sort_by_key(|here| here.inter.id.order());
    Ok(all)
}

fn cut(node: &Node, registration: &Registration, inters: Vec<Here>, store: Store, label: String) -> Cut {
    let own = registration.me();
    node.with(|core| {
        let mut jobs: Vec<(u64, String, u32)> = Vec::new();
        let mut images = Vec::new();
        for Here { inter, rank, members, name } in inters {
            let Some(job) = members.first().map(|member| member.incarnation) else { continue };
            let at = jobs.iter().position(|(known, ..)| *known == job).unwrap_or_else(|| {
                jobs.push((job, inter.remote.name.clone(), core.size_of(own, job).unwrap_or(0)));
                jobs.len() - 1
            });
            let (context, children) = inter.lineage();
            images.push(node::images::Inter {
                remote: at as u32,
                context,
                children,
                rank,
                members: members.iter().map(|member| member.rank).collect(),
                name,
            });
        }
        let mut with: Joined = BTreeMap::new();
        for inter in &images {
            let (job, _, size) = jobs[inter.remote as usize];
            with.entry(job).or_default().add(With { size, contexts: [inter.context].into() });
        }
        let (serial, joined, rows) =
            core.make_cut(own, store, Besides { label, jobs, contexts: registration.contexts(), inters: images });
        let joined = joined.into_iter().map(|job| (job, with.remove(&job).unwrap_or_default())).collect();
        (serial, joined, rows)
    })
}

/// The name that the program has given; empty if it has given none.
fn name(inter: &Inter) -> Vec<u8> {
    let (mut name, mut length) = ([0; MAX_NAME], 0);
    if !inter.is_named() {
        return Vec::new();
    }
    // SAFETY: a live communicator; there is room for the longest name of every MPI.
    let code = unsafe { pmpi::comm_get_name(inter.shadow, name.as_mut_ptr().cast(), &mut length) };
    let length = usize::try_from(length).ok().filter(|_| progress::outcome(code) == 0);
    length.and_then(|length| name.get(..length)).unwrap_or_default().to_vec()
}

/// The checkpoint of a job that is joined with no other: a line of its own, complete when all have written.
fn alone(
    abi: &Abi,
    node: &Node,
    team: &Team,
    registration: &Registration,
    store: &Store,
    serial: u64,
    label: String,
) -> Result<(), Failure> {
    let own = registration.me();
    node.with(|core| core.drop_cut(own, serial));
    let line = LineId { by: own.incarnation, count: serial };
    let head = Head {
        job: registration.name.clone(),
        rank: team.rank,
        size: team.size,
        serial,
        label,
        line,
        jobs: BTreeSet::from([registration.name.clone()]),
    };
    let image = Image { head, remotes: Vec::new(), inters: Vec::new(), outcomes: Outcomes::default() };
    let written = store.write(&image).map_err(unusable).map(|_| Vec::new());
    let decided = |all: Result<Vec<u8>, Failure>| {
        all.and_then(|_| store.commit_alone(serial, line).map_err(unusable)).map(|()| Vec::new())
    };
    decide(abi, node, team, written, decided).map(drop)
}
