//! Contact records of large jobs: what leaders tell of their own, where each process asks for those of the others, and how long it is
//! there for those that ask it.
//!
//! Invariant: as long as a process of a large job, or of one that is joined with such, has not come to MPI_Finalize, those that it asks
//! are there.

use super::collective::encoded_contact;
use super::team::Team;
use super::tree::Talk;
use crate::abi::{self, Abi};
use crate::failure::{Class, Failure};
use crate::forward as pmpi;
use crate::wait::wait_until;
use base::bytes::Take;
use base::{ProcId, settings};
use node::{Contact, Contacts, Directory, Node, RemoteGroup};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whether a job of this size is large: the other side is told the root over its records, and asks for those that it needs.
pub fn is_large(size: u32) -> bool {
    size > settings::most_told()
}

/// What the leader of this rank tells the other side of these records, which are those of its job. If that is large, this process answers
/// questions about it from now on: the other side may ask as soon as both agree.
pub fn offer(node: &Node, groups: &[u64], contacts: &Contacts, leader: u32) -> Contacts {
    let rooted = if is_large(contacts.len()) { node::rooted(contacts, leader) } else { None };
    let Some(rooted) = rooted else { return contacts.clone() };
    node.with(|core| groups.iter().for_each(|group| core.set_directory(*group, Directory::of(contacts.clone()))));
    rooted
}

/// Which of both jobs are large.
#[derive(Clone, Copy)]
pub struct Sides {
    /// Our job is large.
    pub is_large: bool,
    /// The other one is.
    pub asks: bool,
}

/// The place of this process, where the other job is large. Collective over the team of the join.
pub fn place(
    abi: &Abi,
    node: &Node,
    team: &Team,
    Sides { is_large, asks }: Sides,
) -> Result<Option<Directory>, Failure> {
    if is_large || asks {
        note(*team);
    }
    if !asks {
        return Ok(None);
    }
    let talk = Talk { abi, node: Some(node), team, tag: 0, call: None };
    let damaged = |_| Failure::new(Class::Intern, "a contact record of this job is damaged");
    let above = talk.hear_above(encoded_contact(node))?;
    let above = above.map(|(rank, record)| Ok((rank, Contact::decode(&mut Take(&record)).map_err(damaged)?)));
    Ok(Some(Directory::below(above.transpose()?)))
}

/// Makes a remote group known, before its inter-communicator is opened.
pub fn acquaint(node: &Node, me: ProcId, group: &RemoteGroup, directory: Option<&Directory>) {
    if let Some(directory) = directory {
        node.with(|core| core.set_directory(me.incarnation, directory.clone()));
    }
    // What is asked for comes, or those that it is asked for are forgotten.
    wait_until(node, None, |core| core.acquaint(me, group).then_some(()));
}

/// The teams of large joins, and those of them whose communicator the program has freed.
#[derive(Default)]
struct Teams {
    all: Vec<Team>,
    orphans: Vec<Team>,
}

static TEAMS: Mutex<Teams> = Mutex::new(Teams { all: Vec::new(), orphans: Vec::new() });

fn teams() -> MutexGuard<'static, Teams> {
    TEAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(team: Team) {
    let mut teams = teams();
    if teams.all.iter().all(|known| known.comm != team.comm) {
        teams.all.push(team);
    }
}

/// Whether the communicator of a team, which nobody else needs any more, is kept until MPI_Finalize.
pub fn keeps(team: &Team) -> bool {
    let mut teams = teams();
    let is_noted = teams.all.iter().any(|known| known.comm == team.comm);
    if is_noted {
        teams.orphans.push(*team);
    }
    is_noted
}

/// For MPI_Finalize: waits until all processes of the teams are there, and have delivered what they have sent. Then nobody asks for
/// records any more.
pub fn end(limit: Duration) {
    let Teams { all, orphans } = std::mem::take(&mut *teams());
    let Some(node) = Node::running().filter(|_| !all.is_empty()) else { return };
    node.deliver(limit);
    let abi = abi::get();
    for team in &all {
        let talk = Talk { abi, node: Some(node), team, tag: 0, call: None };
        let met = talk.up(Vec::new()).and_then(|_| talk.down(team.is_led_here().then(Vec::new)));
        if let Err(e) = met {
            base::log!(Error, "{}", e.text);
        }
    }
    for mut team in orphans {
        // SAFETY: our own communicator, freed once, by all of its members.
        unsafe { pmpi::comm_free(&mut team.comm) };
    }
}
