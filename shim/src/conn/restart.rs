//! `MPI_Conn_restart`: the leaders agree on a line, and every process gets its inter-communicators back, with the messages that
//! were on their way.
//!
//! Invariants: no line is chosen that is not whole on every process of every job in it. A job without any line begins
//! anew, at once.

use super::bounds::{largest_tag, timeout};
use super::checkpoint::{fault, read_folder, team};
use super::collective::{all_or_none, decide};
use super::joined;
use super::meet;
use super::registration::{Lead, Registration};
use super::reopen::{self, Results};
use crate::abi::Abi;
use crate::failure::{Class, Failure};
use crate::wait::wait_until;
use base::ProcId;
use base::bytes::{Put, Take};
use naming::Kind;
use node::images::{Choice, Found, Head, Image, Known, LineId, Old, Store, pack, unpack};
use node::leaders::{Agreement, MAX_RECORDS};
use node::{Contact, Node, Waits};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a leader looks for others, and tells them again what it has.
const LOOK: Duration = Duration::from_millis(50);
const TELL: Duration = Duration::from_millis(500);

/// What a process has of a line, and the number of the cut.
type Mine = (Old, u64);

/// The lines of which a process has a good image, the newest first, and what these are of; and the number of the newest complete line of
/// which it has none.
type Images = (Vec<(Found, Head)>, Option<u64>);

/// A restart, or the begin of a first run.
///
/// # Safety
/// `folder` is null or terminated; the places are null or as large as they say.
pub unsafe fn restart(
    abi: &Abi,
    node: Result<&'static Node, Failure>,
    registration: &Registration,
    folder: *const c_char,
    results: Results,
) -> Result<(), Failure> {
    let (team, own) = (team(registration), registration.me());
    // SAFETY: the caller's promise.
    let arguments = unsafe { read_folder(folder) };
    let is_new = node.as_ref().is_ok_and(|node| node.with(|core| !core.is_tracked(own) && !core.has_joined(own)));
    let handed_in = match (&arguments, &node) {
        (Err(failure), _) => Err(failure.clone()),
        (_, Err(_)) => Err(fault("the library could not be started")),
        _ if !results.is_there() => Err(fault("the place for a result is a null pointer, or its length is negative")),
        _ if !is_new => {
            Err(fault("MPI_Conn_restart was called with this handle before, or an inter-communicator was made with it"))
        }
        _ => Ok(Vec::new()),
    };
    let decided = |all: Result<Vec<u8>, Failure>| {
        all?;
        let lead = registration.lead()?;
        let folder = arguments?;
        let folder = std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder));
        let held = lead.images.hold(&Store::new(&folder, &registration.name));
        held.map_err(|e| Failure::new(Class::Other, format!("the checkpoints cannot be used: {e}")))?;
        Ok(folder.to_string_lossy().into_owned().into_bytes())
    };
    let told = decide(abi, node.as_ref().ok().copied(), &team, handed_in, decided)?;
    let node = node?;
    node.with(|core| core.track(own, &registration.name, team.size));
    let store = Store::new(Path::new(&*String::from_utf8_lossy(&told)), &registration.name);
    let images = find(&store, registration);
    let of = |(line, head): &(Found, Head)| {
        (Old { id: head.line, jobs: head.jobs.clone(), complete: line.complete }, head.serial)
    };
    let mine = |(images, lost): &Images| -> (Vec<Mine>, Option<u64>) { (images.iter().map(of).collect(), *lost) };
    let own = images.as_ref().map(|images| pack(&mine(images))).map_err(Failure::clone);
    let decided = |all: Result<Vec<u8>, Failure>| {
        let (all, (images, _)) = (all?, images.as_ref().map_err(Failure::clone)?);
        let all: Vec<(Vec<Mine>, Option<u64>)> = unpack(&all).unwrap_or_default();
        let lead = registration.lead()?;
        let found = choose(abi, node, registration, lead, images, &all)?;
        let mut told = Vec::new();
        if let Some((id, jobs)) = found {
            told.put_u64(id.by);
            told.put_u64(id.count);
            for agreement in &jobs {
                told.put_bytes(&joined::tell(node, agreement, team.size));
            }
        }
        Ok(told)
    };
    let told = decide(abi, node, &team, own, decided)?;
    let (images, _) = images?;
    let mut told = Take(&told);
    let mut count = 0;
    let mut label = String::new();
    let mut from = None;
    if !told.0.is_empty() {
        let damaged = |_| Failure::new(Class::Intern, "the leader's verdict is damaged");
        let id = LineId { by: told.u64().map_err(damaged)?, count: told.u64().map_err(damaged)? };
        let mut jobs = Vec::new();
        while !told.0.is_empty() {
            jobs.push(joined::hear(node, told.bytes(MAX_RECORDS + (1 << 20)).map_err(damaged)?)?);
        }
        let image = read(&images, id, team.rank);
        let image =
            all_or_none(abi, team.comm, image, "another process of this job cannot use its image, and says why")?;
        label.clone_from(&image.head.label);
        from = Some((image.head.serial, id));
        count = image.inters.len();
        // SAFETY: the caller's promise.
        unsafe { reopen::go_on(abi, node, registration, &team, image, &jobs, results) }?;
    }
    if team.is_led_here()
        && let Err(e) = store.go_on_from(from)
    {
        base::log!(Error, "newer checkpoints, which were not used, stay: {e}");
    }
    let text = label.as_bytes();
    // SAFETY: `go_on` has found the room large enough; and there is room for one int.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), results.label.cast(), text.len());
        results.label.add(text.len()).write(0);
        results.count.write(count as c_int);
    }
    Ok(())
}

/// The images of this process.
fn find(store: &Store, registration: &Registration) -> Result<Images, Failure> {
    let unusable = |e| Failure::new(Class::Other, format!("the checkpoints cannot be read: {e}"));
    let group = &registration.group;
    let (mut all, mut lost) = (Vec::new(), None);
    for line in store.lines().map_err(|e| unusable(e.to_string()))? {
        let folder = line.folder.display();
        let fault = match line.check(group.rank) {
            Ok(Some(head)) if head.size != group.size => {
                let (had, has) = (head.size, group.size);
                let text = format!("{folder} is of {had} ranks, and this job has {has}: restart it with as many");
                return Err(Failure::new(Class::Other, text));
            }
            Ok(Some(head)) if head.job == registration.name && head.rank == group.rank => {
                all.push((line, head));
                continue;
            }
            Ok(Some(_)) => format!("{folder} has an image of another process"),
            Ok(None) if line.complete => format!("{folder} lacks rank {}", group.rank),
            Ok(None) => continue,
            Err(e) => e.to_string(),
        };
        base::log!(Error, "not used: {fault}");
        lost = lost.max(line.complete.then_some(line.serial));
    }
    Ok((all, lost))
}

/// The image of this process in a line. Its checksums were good before.
fn read(images: &[(Found, Head)], id: LineId, rank: u32) -> Result<Image, Failure> {
    let line = images.iter().find(|(_, head)| head.line == id).map(|(line, _)| line);
    let read = line.map(|line| line.image(rank)).transpose();
    let read = read.map_err(|e| Failure::new(Class::Other, format!("the checkpoints cannot be read: {e}")))?;
    read.flatten().ok_or_else(|| Failure::new(Class::Other, "the chosen line is gone"))
}

/// The leader's part: the line, and how its other jobs are reached. `None`: begin anew.
fn choose(
    abi: &Abi,
    node: &Node,
    registration: &Registration,
    lead: &Lead,
    images: &[(Found, Head)],
    all: &[(Vec<Mine>, Option<u64>)],
) -> Result<Option<(LineId, Vec<Agreement>)>, Failure> {
    let own = registration.me();
    let has = |(line, _): &&Mine| all.iter().all(|(of, _)| of.iter().any(|(other, _)| other.id == line.id));
    let lines: Vec<&Mine> = all.first().into_iter().flat_map(|(of, _)| of).filter(has).collect();
    let known = Known {
        version: 1,
        name: registration.name.clone(),
        size: registration.group.size,
        runs: false,
        lines: lines.iter().map(|(line, _)| line.clone()).collect(),
    };
    // If some process lacks a line that was complete, it does not begin anew.
    let lost = all.iter().filter_map(|(_, lost)| *lost).max();
    let remotes = |(line, _): &&Mine| {
        let image = read(images, line.id, registration.group.rank)?;
        Ok(image.remotes.into_iter().map(|remote| remote.name).collect())
    };
    // Of each line.
    let remotes: Vec<Vec<String>> = lines.iter().map(remotes).collect::<Result<_, Failure>>()?;
    let neighbours: BTreeSet<&String> = remotes.iter().flatten().collect();
    let limit = timeout()?;
    let deadline = Instant::now() + limit;
    let mut reached: BTreeMap<String, ProcId> = BTreeMap::new();
    let mut told_at = Instant::now();
    node.with(|core| core.tell_known(own, known.clone(), &[]));
    let awaited = neighbours.iter().map(|name| name.as_str()).collect::<Vec<_>>().join("', '");
    let _told = Waits::begin(node, "MPI_Conn_restart", format!("for job '{awaited}'"));
    loop {
        match node.with(|core| core.choice(own, &known)) {
            Choice::From(at) => {
                let (Old { id, .. }, serial) = lines[at];
                let id = *id;
                let mut jobs: Vec<&str> = remotes[at].iter().map(String::as_str).collect();
                // Every pair of jobs has its place in one order, so that none waits in a circle.
                jobs.sort_by_key(|name| [(*name).min(&registration.name), (*name).max(&registration.name)]);
                let largest = largest_tag(abi) as u32;
                let left = || deadline.saturating_duration_since(Instant::now());
                let meet = |name: &str| meet::meet(node, registration, lead, name, largest, left());
                let met: Vec<Agreement> = jobs.into_iter().map(meet).collect::<Result<_, _>>()?;
                base::log!(Info, "'{}' restarts from checkpoint {}", registration.name, serial);
                return Ok(Some((id, met)));
            }
            Choice::Anew => {
                let Some(serial) = lost else { return Ok(None) };
                let text = format!("checkpoint {serial} was complete, and images of some ranks are missing or damaged");
                return Err(Failure::new(Class::Other, text));
            }
            Choice::Lacks(job, runs) => {
                let what = if runs { "runs already" } else { "lacks it" };
                let text = format!("the last complete checkpoint was made together with job '{job}', which {what}");
                return Err(Failure::new(Class::Other, text));
            }
            Choice::Wait(missing) if Instant::now() >= deadline => {
                let missing = missing.into_iter().collect::<Vec<_>>().join("', '");
                let text = format!(
                    "job '{missing}' did not come to restart within {} s (MPI_CONNECT_TIMEOUT)",
                    limit.as_secs_f32()
                );
                return Err(Failure::new(Class::Timeout, text));
            }
            Choice::Wait(_) => (),
        }
        for name in neighbours.iter().copied() {
            let Ok(Some(record)) = lead.naming.lookup(Kind::Job, name) else { continue };
            let leader = ProcId { incarnation: record.incarnation, rank: 0 };
            if reached.get(name) == Some(&leader) || record.incarnation == own.incarnation {
                continue;
            }
            if let Ok(contact) = Contact::decode(&mut Take(&record.leader))
                && joined::is_led_by(record.incarnation, &record.cookie, &contact)
            {
                base::ident::name_job(record.incarnation, name);
                node.open_control(own, leader, record.cookie, &contact);
                node.with(|core| core.tell_known(own, known.clone(), &[leader]));
                reached.insert(name.clone(), leader);
            }
        }
        if told_at.elapsed() >= TELL {
            told_at = Instant::now();
            lead.renew();
            node.with(|core| core.tell_again(own));
        }
        let until = deadline.min(Instant::now() + LOOK);
        wait_until(node, Some(until), |core| match core.choice(own, &known) {
            Choice::Wait(_) => None,
            _ => Some(()),
        });
    }
}
