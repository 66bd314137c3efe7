//! The groups of this process, and what the pairs between two groups share.

use crate::state::directory::Directory;
use crate::state::pair::PathRef;
use base::{ProcId, Sorted};
use engine::{Engine, Gone};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use wire::{Contact, Contacts};

/// How many groups that have left are remembered for each group of ours. A call that could still name one of them is
/// collective over our group, so it names the last or the one before.
const MOST_LEFT: usize = 4;

/// This process's identity in one group that it has registered. Other processes may connect to it until
/// [`crate::Session::remove_group`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Group {
    /// The random number of this registration.
    pub incarnation: u64,
    /// The secret that a HELLO to this group has to show.
    pub cookie: [u8; 16],
    /// This process's rank in the group.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
}

/// A group of another job, as the naming service and the other leader have described it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoteGroup {
    /// The random number of its registration.
    pub incarnation: u64,
    /// The secret that our HELLO has to show.
    pub cookie: [u8; 16],
    /// The contact records of its members.
    pub contacts: Contacts,
}

/// A registered group of ours. It is kept after its removal, as long as a pair has it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub group: Group,
    /// It takes no new connections.
    pub removed: bool,
    /// Of a port: the callers that were not answered yet, in order of arrival. `None`: the group is no port.
    pub callers: Option<VecDeque<PathRef>>,
    /// How many pairs have it as their local side.
    pub(crate) pairs: usize,
    /// Where records of large groups are asked for and told, with a number that grows.
    pub(crate) directory: Option<(u64, Box<Directory>)>,
}

/// What the pairs between one group of ours and one of theirs share.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Between {
    /// The engine's number for the peers of these pairs.
    pub number: u64,
    /// How many pairs there are now.
    pub pairs: usize,
    /// How many inter-communicators of the two are open.
    pub inters: usize,
    /// The remote group, once it is known. A member gets its pair when the first thing is exchanged with it.
    pub known: Option<RemoteGroup>,
    /// The contact records of members that are elsewhere now.
    pub moved: BTreeMap<u32, Contact>,
    /// Remote ranks whose pair has ended while our group stands, and how: a call may still name them.
    pub over: BTreeMap<u32, Gone>,
}

/// The table of groups. It is written in the order of its keys, so that equal states give equal snapshots.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Groups {
    /// Ours, by incarnation.
    pub(crate) own: Sorted<u64, Registered>,
    /// By (our incarnation, theirs).
    pub(crate) between: Sorted<(u64, u64), Between>,
    /// The last number that was given to a [`Between`].
    pub(crate) last_number: u64,
}

impl Groups {
    /// Notes a group or a port of ours.
    pub fn register(&mut self, group: Group, callers: Option<VecDeque<PathRef>>) {
        let registered = Registered { group, removed: false, callers, pairs: 0, directory: None };
        self.own.insert(group.incarnation, registered);
    }

    pub fn get(&self, incarnation: u64) -> Option<&Registered> {
        self.own.get(&incarnation)
    }

    pub fn is_removed(&self, incarnation: u64) -> bool {
        self.own.get(&incarnation).is_none_or(|known| known.removed)
    }

    /// Whether a group has a directory, which others may still ask.
    pub fn has_directory(&self, incarnation: u64) -> bool {
        self.own.get(&incarnation).is_some_and(|known| known.directory.is_some())
    }

    /// Of the removed groups without an open inter-communicator, the one with the oldest directory, if there are more than
    /// [`MOST_LEFT`].
    pub fn oldest_directory(&self) -> Option<u64> {
        let left = self.own.iter().filter(|(ours, known)| known.removed && !self.is_joined(**ours));
        let mut numbers: Vec<_> = left.filter_map(|(ours, known)| Some((known.directory.as_ref()?.0, *ours))).collect();
        numbers.sort_unstable();
        if numbers.len() > MOST_LEFT { numbers.first().map(|(_, ours)| *ours) } else { None }
    }

    /// Whether of a remote group only the root over its records is known.
    pub fn is_rooted(&self, ours: u64, theirs: u64) -> bool {
        self.between(ours, theirs).and_then(|b| b.known.as_ref()).is_some_and(|known| known.contacts.root().is_some())
    }

    /// A number that was not given before.
    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn is_port(&self, incarnation: u64) -> bool {
        self.own.get(&incarnation).is_some_and(|known| known.callers.is_some())
    }

    pub fn between(&self, ours: u64, theirs: u64) -> Option<&Between> {
        self.between.get(&(ours, theirs))
    }

    /// As [`Groups::between`]; it is made if there is none.
    pub fn meet(&mut self, ours: u64, theirs: u64) -> &mut Between {
        let last = &mut self.last_number;
        self.between.get_or_insert_with((ours, theirs), || {
            *last += 1;
            Between::new(*last)
        })
    }

    /// Counts a new pair of this group. If the group is a port, its path joins the callers, and the answer is `true`.
    pub fn admit_pair(&mut self, incarnation: u64, path: PathRef) -> bool {
        let Some(known) = self.own.get_mut(&incarnation) else { return false };
        known.pairs += 1;
        let Some(callers) = &mut known.callers else { return false };
        callers.push_back(path);
        true
    }

    /// The callers of a port that were not answered yet, in order of arrival.
    pub fn callers(&self, incarnation: u64) -> Vec<PathRef> {
        let callers = self.own.get(&incarnation).and_then(|known| known.callers.as_ref());
        callers.map_or_else(Vec::new, |callers| callers.iter().copied().collect())
    }

    /// Takes a caller that was answered off the list.
    pub fn answered(&mut self, incarnation: u64, path: PathRef) {
        if let Some(callers) = self.own.get_mut(&incarnation).and_then(|known| known.callers.as_mut()) {
            callers.retain(|caller| *caller != path);
        }
    }

    /// Counts the end of a pair. `gone` says how it ended, if that is to be remembered.
    pub fn end_pair(&mut self, engine: &mut Engine, local: ProcId, remote: ProcId, serial: u64, gone: Option<Gone>) {
        let key = (local.incarnation, remote.incarnation);
        if let Some(between) = self.between.get_mut(&key) {
            between.pairs -= 1;
            if let Some(gone) = gone {
                between.over.insert(remote.rank, gone);
            }
        }
        if let Some(known) = self.own.get_mut(&local.incarnation) {
            known.pairs -= 1;
            if let Some(callers) = &mut known.callers {
                callers.retain(|caller| caller.serial != serial);
            }
        }
        self.tidy(engine, local.incarnation, remote.incarnation);
    }

    /// Counts the end of an inter-communicator.
    pub fn end_inter(&mut self, engine: &mut Engine, ours: u64, theirs: u64) {
        if let Some(between) = self.between.get_mut(&(ours, theirs)) {
            between.inters -= 1;
        }
        self.tidy(engine, ours, theirs);
    }

    /// Forgets what nobody needs any more. While our group stands, what was between it and another one is remembered for a
    /// while: a member of that one may still come.
    fn tidy(&mut self, engine: &mut Engine, ours: u64, theirs: u64) {
        let is_removed = self.is_removed(ours) && !self.has_directory(ours);
        if let Some(between) = self.between.get(&(ours, theirs))
            && !between.is_used()
            && (is_removed || between.over.is_empty() && between.known.is_none())
        {
            engine.remove_group(between.number);
            self.between.remove(&(ours, theirs));
        }
        self.forget_oldest(engine, ours);
        if is_removed {
            self.end_removed(ours);
        }
    }

    /// Ends a group of ours that was removed, unless a pair has it or may come to have it.
    pub fn end_removed(&mut self, incarnation: u64) {
        let is_over = |known: &Registered| known.removed && known.pairs == 0 && known.directory.is_none();
        if !self.is_joined(incarnation) && self.own.get(&incarnation).is_some_and(is_over) {
            self.own.remove(&incarnation);
        }
    }

    /// Whether an inter-communicator of a group of ours is open.
    fn is_joined(&self, incarnation: u64) -> bool {
        self.between.range((incarnation, 0)..=(incarnation, u64::MAX)).any(|(_, b)| b.inters > 0)
    }

    /// Forgets the remote group that left first, if more than [`MOST_LEFT`] are remembered. A group with a member that was
    /// given up for dead is not forgotten, since that process might come back.
    fn forget_oldest(&mut self, engine: &mut Engine, ours: u64) {
        let has_left = |b: &Between| !b.is_used() && b.over.values().all(|gone| *gone == Gone::Finished);
        let left = self.between.iter().filter(|((o, _), b)| *o == ours && has_left(b));
        let left: Vec<_> = left.map(|(key, b)| (b.number, *key)).collect();
        if left.len() > MOST_LEFT
            && let Some((number, key)) = left.into_iter().min()
        {
            engine.remove_group(number);
            self.between.remove(&key);
        }
    }
}

impl Between {
    pub fn new(number: u64) -> Between {
        Between { number, pairs: 0, inters: 0, known: None, moved: BTreeMap::new(), over: BTreeMap::new() }
    }

    /// Whether a pair or an open inter-communicator is between the two.
    pub fn is_used(&self) -> bool {
        self.pairs > 0 || self.inters > 0
    }

    /// How many ranks the remote group has, once that is known.
    pub fn size(&self) -> Option<u32> {
        self.known.as_ref().map(|known| known.contacts.len())
    }

    /// The contact record of a remote rank, once it is known.
    pub fn contact(&self, rank: u32) -> Option<Contact> {
        self.moved.get(&rank).cloned().or_else(|| self.known.as_ref()?.contacts.get(rank))
    }
}

impl Group {
    /// The group of one process that a port is.
    pub(crate) fn of_port(port: ProcId, cookie: [u8; 16]) -> Group {
        Group { incarnation: port.incarnation, cookie, rank: port.rank, size: 1 }
    }
}
