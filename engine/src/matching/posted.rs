//! Receives that wait for a message, in the order of posting.

use super::list::{Link, List, Nodes};
use super::{ANY_SOURCE, CLASSES, FEW, Key, Lists, MANY, fits};
use crate::types::{Source, Tag};
use serde::{Deserialize, Serialize};

/// The links of a receive: one list has all, one those with its key.
const ALL: usize = 0;
const SAME: usize = 1;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Receive {
    pub op: u64,
    pub source: Source,
    pub tag: Tag,
    pub capacity: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    receive: Receive,
    /// Counts up.
    order: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Posted {
    nodes: Nodes<Entry, [Link; 2]>,
    all: List,
    last: u64,
    /// What follows is kept only while there are many.
    indexed: bool,
    #[serde(with = "super::pairs")]
    lists: Lists,
    /// How many of each class, and from each source by its rank.
    of_class: [usize; CLASSES],
    from: Vec<u32>,
}

impl Posted {
    /// Its place, for [`Posted::remove`].
    pub fn push(&mut self, receive: Receive) -> u32 {
        self.last += 1;
        let at = self.nodes.insert(Entry { receive, order: self.last });
        self.nodes.append(&mut self.all, ALL, at);
        if self.indexed {
            self.enlist(at);
        } else if self.nodes.len() > MANY {
            self.indexed = true;
            let mut next = self.all.first();
            while let Some(at) = next {
                self.enlist(at);
                next = self.nodes.next(ALL, at);
            }
        }
        at
    }

    /// Takes the oldest that a message fits.
    pub fn take(&mut self, source: u32, tag: i64) -> Option<Receive> {
        let at = if self.indexed {
            let heads = (0..CLASSES).filter(|class| self.of_class[*class] > 0).filter_map(|class| {
                let at = self.lists.get(&Key::fitting(class, source, tag)?)?.first()?;
                Some((self.nodes.get(at).order, at))
            });
            heads.min()?.1
        } else {
            self.iter().find(|(_, r)| fits(r.source, r.tag, source, tag))?.0
        };
        Some(self.remove(at))
    }

    pub fn remove(&mut self, at: u32) -> Receive {
        self.nodes.unlink(&mut self.all, ALL, at);
        if self.indexed {
            self.delist(at);
        }
        let Entry { receive, .. } = self.nodes.remove(at);
        if self.indexed && self.nodes.len() <= FEW {
            let mut next = self.all.first();
            while let Some(at) = next {
                self.delist(at);
                next = self.nodes.next(ALL, at);
            }
            self.indexed = false;
        }
        receive
    }

    /// All, in order, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Receive)> {
        self.nodes.iter(self.all, ALL).map(|(at, entry)| (at, &entry.receive))
    }

    /// Whether any of them takes messages from this source.
    pub fn any_from(&self, rank: u32) -> bool {
        if self.indexed {
            let wild: usize = (0..CLASSES).filter(|class| class & ANY_SOURCE != 0).map(|c| self.of_class[c]).sum();
            return wild > 0 || self.from.get(rank as usize).is_some_and(|n| *n > 0);
        }
        self.iter().any(|(_, r)| r.source == Source::Any || r.source == Source::Rank(rank))
    }

    fn enlist(&mut self, at: u32) {
        let Receive { source, tag, .. } = self.nodes.get(at).receive;
        let key = Key::of(source, tag);
        self.nodes.append(self.lists.entry(key).or_default(), SAME, at);
        self.of_class[key.class()] += 1;
        if let Source::Rank(rank) = source {
            if self.from.len() <= rank as usize {
                self.from.resize(rank as usize + 1, 0);
            }
            self.from[rank as usize] += 1;
        }
    }

    fn delist(&mut self, at: u32) {
        let Receive { source, tag, .. } = self.nodes.get(at).receive;
        let key = Key::of(source, tag);
        let list = self.lists.get_mut(&key).expect("enlisted");
        self.nodes.unlink(list, SAME, at);
        if list.first().is_none() {
            self.lists.remove(&key);
        }
        self.of_class[key.class()] -= 1;
        if let Source::Rank(rank) = source {
            self.from[rank as usize] -= 1;
        }
    }

    /// Nothing is left of what is kept for many.
    #[cfg(test)]
    pub fn is_bare(&self) -> bool {
        let counted = self.of_class.iter().sum::<usize>() + self.from.iter().sum::<u32>() as usize;
        self.lists.is_empty() && !self.indexed && counted == 0
    }
}
