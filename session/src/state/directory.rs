//! How a process comes to contact records of large groups: its place in the tree along which its own group asks for them, the ranges
//! that it waits for, and those that it keeps for others.

use crate::state::pair::PathRef;
use base::{Sorted, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use wire::ranges::{Digest, Range, Tree, ranges};
use wire::{Contact, Contacts};

/// The most ranges that are kept for others.
const MOST_KEPT: usize = 64;
/// The most ranges that are waited for on behalf of others.
pub(crate) const MOST_ASKED: usize = 4096;

/// The place of a process in the tree of its own group.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Directory {
    /// The rank above this one, with its contact record. `None`: nobody is asked but the other side's leader.
    pub parent: Option<(u32, Contact)>,
    /// On the leader of a large group: the records of all its members, for the other side.
    pub own: Option<Contacts>,
    /// Made when the first range is asked for.
    #[serde(skip)]
    tree: Option<Tree>,
}

impl Directory {
    /// Below this rank.
    pub fn below(parent: Option<(u32, Contact)>) -> Directory {
        Directory { parent, ..Directory::default() }
    }

    /// Of the leader of a group with these records.
    pub fn of(own: Contacts) -> Directory {
        Directory { own: Some(own), ..Directory::default() }
    }

    /// This place, and what was known before and is not said again.
    pub(crate) fn or(self, before: Directory) -> Directory {
        let tree = if self.own.is_some() { None } else { before.tree };
        Directory { parent: self.parent.or(before.parent), own: self.own.or(before.own), tree }
    }

    /// A range of our own group, as it travels. `None`: there is none, or it is not known here.
    pub(crate) fn range(&mut self, number: u32, digest: Digest) -> Option<Vec<u8>> {
        let own = self.own.as_ref()?;
        let tree = self.tree.get_or_insert_with(|| Tree::over(own, digest));
        let mut bytes = Vec::new();
        Range::of(own, tree, number)?.encode(&mut bytes);
        Some(bytes)
    }
}

/// A range of the records of a remote group, for a group of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    pub ours: u64,
    pub theirs: u64,
    pub number: u32,
}

/// Who is asked for a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asked {
    /// Nobody yet: the remote group is not known here.
    Nobody,
    /// The rank above us.
    Parent(PathRef),
    /// The other side's leader.
    Leader(PathRef),
}

impl Asked {
    pub fn path(self) -> Option<PathRef> {
        match self {
            Asked::Nobody => None,
            Asked::Parent(path) | Asked::Leader(path) => Some(path),
        }
    }
}

/// A range that is waited for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Awaited {
    pub asked: Asked,
    /// The processes of our group that have asked us for it.
    pub by: Vec<PathRef>,
    /// Since when nobody could be asked, or whoever is asked has no lane.
    #[serde(skip)]
    pub since: Option<Time>,
}

impl Awaited {
    pub fn new() -> Awaited {
        Awaited { asked: Asked::Nobody, by: Vec::new(), since: None }
    }
}

/// The ranges of all remote groups that this process has to do with.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Ranges {
    pub awaited: Sorted<Key, Awaited>,
    /// As they travel, the oldest first.
    kept: VecDeque<(Key, Vec<u8>)>,
    /// Groups of which a call needs all records. It asks again in another process.
    #[serde(skip)]
    pub gathered: BTreeMap<(u64, u64), Gathered>,
}

/// The ranges of a group that have come so far.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    ranges: Vec<Option<Box<[u8]>>>,
    /// One cannot be had.
    pub failed: bool,
}

impl Gathered {
    pub fn of(size: u32) -> Gathered {
        Gathered { ranges: vec![None; ranges(size) as usize], failed: false }
    }

    pub fn put(&mut self, number: u32, range: &[u8]) {
        if let Some(place) = self.ranges.get_mut(number as usize) {
            *place = Some(range.into());
        }
    }

    /// The first of those that have not come.
    pub fn missing(&self, most: usize) -> Vec<u32> {
        let missing = (0u32..).zip(&self.ranges).filter(|(_, range)| range.is_none());
        missing.map(|(number, _)| number).take(most).collect()
    }

    /// All that have come, one behind the other.
    pub fn concat(&self) -> Vec<u8> {
        self.ranges.iter().flatten().flat_map(|range| range.iter().copied()).collect()
    }
}

impl Ranges {
    pub fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    pub fn kept(&self, key: Key) -> Option<&[u8]> {
        self.kept.iter().find(|(of, _)| *of == key).map(|(_, bytes)| &bytes[..])
    }

    pub fn keep(&mut self, key: Key, bytes: &[u8]) {
        if self.kept(key).is_some() {
            return;
        }
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((key, bytes.into()));
    }

    /// Whether what was read from a snapshot is within the limits. `slots`: all paths are below.
    pub fn is_sound(&self, slots: usize) -> bool {
        let is_path = |path: PathRef| path.slot < slots;
        let of = |awaited: &Awaited| awaited.by.iter().copied().chain(awaited.asked.path()).all(is_path);
        self.kept.len() <= MOST_KEPT && self.awaited.values().all(of)
    }

    /// Forgets all of a group of ours.
    pub fn forget(&mut self, ours: u64) {
        self.kept.retain(|(key, _)| key.ours != ours);
        self.awaited.retain(|key, _| key.ours != ours);
        self.gathered.retain(|(of, _), _| *of != ours);
    }
}
