//! Messages that no receive has taken, in the order of arrival.

use super::list::{Link, List, Nodes};
use super::{CLASSES, FEW, Key, Lists, MANY, fits};
use crate::state::Arrived;
use crate::types::{Source, Tag};
use serde::{Deserialize, Serialize};

/// The links of a message: one list for each class, and one that has all.
const LINKS: usize = CLASSES + 1;
const ALL: usize = CLASSES;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Unexpected {
    nodes: Nodes<Arrived, [Link; LINKS]>,
    all: List,
    /// The classes that have their lists: those that were asked for while there were many.
    asked: [bool; CLASSES],
    #[serde(with = "super::pairs")]
    lists: Lists,
}

impl Unexpected {
    pub fn push(&mut self, message: Arrived) {
        let at = self.nodes.insert(message);
        self.nodes.append(&mut self.all, ALL, at);
        for class in 0..CLASSES {
            if self.asked[class] {
                self.enlist(class, at);
            }
        }
    }

    /// The place of the oldest that a receive for these takes.
    pub fn find(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let key = Key::of(source, tag);
        let class = key.class();
        if !self.asked[class] {
            if self.nodes.len() <= MANY {
                return self.iter().find(|(_, m)| fits(source, tag, m.source, m.tag)).map(|(at, _)| at);
            }
            self.asked[class] = true;
            let mut next = self.all.first();
            while let Some(at) = next {
                self.enlist(class, at);
                next = self.nodes.next(ALL, at);
            }
        }
        self.lists.get(&key)?.first()
    }

    pub fn get(&self, at: u32) -> &Arrived {
        self.nodes.get(at)
    }

    pub fn remove(&mut self, at: u32) -> Arrived {
        self.nodes.unlink(&mut self.all, ALL, at);
        self.delist(at);
        let message = self.nodes.remove(at);
        if self.nodes.len() <= FEW && self.asked != [false; CLASSES] {
            let mut next = self.all.first();
            while let Some(at) = next {
                self.delist(at);
                next = self.nodes.next(ALL, at);
            }
            self.asked = [false; CLASSES];
        }
        message
    }

    /// All, in order, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arrived)> {
        self.nodes.iter(self.all, ALL)
    }

    /// All, in order.
    pub fn into_messages(mut self) -> impl Iterator<Item = Arrived> {
        std::iter::from_fn(move || {
            let at = self.all.first()?;
            self.nodes.unlink(&mut self.all, ALL, at);
            Some(self.nodes.remove(at))
        })
    }

    fn enlist(&mut self, class: usize, at: u32) {
        let message = self.nodes.get(at);
        if let Some(key) = Key::fitting(class, message.source, message.tag) {
            self.nodes.append(self.lists.entry(key).or_default(), class, at);
        }
    }

    /// Takes a message out of the lists of all classes.
    fn delist(&mut self, at: u32) {
        for class in 0..CLASSES {
            if !self.asked[class] {
                continue;
            }
            let message = self.nodes.get(at);
            let Some(key) = Key::fitting(class, message.source, message.tag) else { continue };
            let list = self.lists.get_mut(&key).expect("enlisted");
            self.nodes.unlink(list, class, at);
            if list.first().is_none() {
                self.lists.remove(&key);
            }
        }
    }

    /// Nothing is left of what is kept for many.
    #[cfg(test)]
    pub fn is_bare(&self) -> bool {
        self.lists.is_empty() && self.asked == [false; CLASSES]
    }
}
