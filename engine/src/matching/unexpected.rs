//! The unexpected queue: messages that no receive has matched, in the order of arrival.

use super::list::{Link, List, Nodes};
use super::{CLASSES, Entries, FEW, Key, Lists, MANY, OLDEST, fits, used, used_mut};
use crate::arrived::Arrived;
use crate::types::{Source, Tag};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::VecDeque;

/// The links of a message: one for its list in each class, and one for the list of all messages.
const LINKS: usize = CLASSES + 1;
/// The link of the list of all messages.
const ALL: usize = CLASSES;

/// Many messages get places, and then lists of a class, when searches have gone through this many times as many messages as there are.
/// Each costs a little at each message that comes or goes, and a program may search in vain once, and then receive in order.
const SCANS: usize = 2;

/// The unexpected messages of one inter-communicator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Arrived>")]
pub(crate) struct Unexpected {
    /// All messages, while they are few, or received in the order in which they came.
    few: VecDeque<Arrived>,
    /// How many of more than [`MANY`] among them searches have gone through.
    scanned: usize,
    /// Made when there are many for the first time, and they are searched.
    many: Option<Box<Many>>,
}

/// All messages, while they are many.
#[derive(Clone, Debug, Default)]
struct Many {
    nodes: Nodes<Arrived, [Link; LINKS]>,
    all: List,
    /// How many of many messages searches have gone through since the last lists were made.
    scanned: usize,
    /// The classes that have lists: those that were asked for often while there were many messages.
    asked: [bool; CLASSES],
    lists: Lists,
}

/// Where a message is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// It is the first of few.
    First,
    At(u32),
}

impl Serialize for Unexpected {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.iter().collect::<Vec<_>>().serialize(to)
    }
}

impl From<Vec<Arrived>> for Unexpected {
    fn from(few: Vec<Arrived>) -> Unexpected {
        Unexpected { few: few.into(), ..Unexpected::default() }
    }
}

impl Unexpected {
    pub fn push(&mut self, message: Arrived) {
        match used_mut(&mut self.many) {
            Some(many) => many.push(message),
            None => self.few.push_back(message),
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.few.is_empty() && used(&self.many).is_none()
    }

    /// The place of the oldest message that a receive for these matches. It is valid until the queue changes.
    #[inline(never)]
    pub fn find(&mut self, source: Source, tag: Tag) -> Option<u32> {
        match used_mut(&mut self.many) {
            Some(many) => many.find(source, tag),
            None => self.find_of_few(source, tag),
        }
    }

    fn find_of_few(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let found = self.few.iter().position(|m| fits(source, tag, m.source, m.tag));
        if self.few.len() > MANY {
            self.scanned += found.unwrap_or(self.few.len());
            if self.scanned > SCANS * self.few.len() {
                self.scanned = 0;
                let many = self.many.get_or_insert_default();
                std::mem::take(&mut self.few).into_iter().for_each(|message| many.push(message));
                return many.find(source, tag);
            }
        }
        found.map(|at| at as u32)
    }

    /// The place of the oldest message for which this holds. It is valid until the queue changes.
    pub fn position(&self, is_right: impl FnMut(&Arrived) -> bool) -> Option<u32> {
        match used(&self.many) {
            Some(many) => many.position(is_right),
            None => self.few.iter().position(is_right).map(|at| at as u32),
        }
    }

    /// The wrong message, if several match.
    #[cfg(feature = "plant")]
    pub fn newest(&self, source: Source, tag: Tag) -> Option<u32> {
        let right = |m: &Arrived| fits(source, tag, m.source, m.tag);
        match used(&self.many) {
            Some(many) => many.iter().filter(|(_, m)| right(m)).map(|(at, _)| at).last(),
            None => self.few.iter().rposition(right).map(|at| at as u32),
        }
    }

    #[inline]
    pub fn get(&self, at: u32) -> &Arrived {
        match used(&self.many) {
            Some(many) => many.nodes.get(at),
            None => &self.few[at as usize],
        }
    }

    #[inline]
    pub fn remove(&mut self, at: u32) -> Arrived {
        let Some(many) = used_mut(&mut self.many) else {
            // A program mostly receives what came first.
            let taken = if at == 0 { self.few.pop_front() } else { self.few.remove(at as usize) };
            return taken.expect("a message that was found");
        };
        let message = many.remove(at);
        self.few_again();
        message
    }

    /// As [`Unexpected::find`], quick where it is the first: a program mostly receives what came first.
    #[inline(always)]
    pub fn find_place(&mut self, source: Source, tag: Tag) -> Option<Place> {
        match self.few.front() {
            Some(first) if fits(source, tag, first.source, first.tag) => Some(Place::First),
            None if self.many.is_none() => None,
            _ => self.find_later(source, tag),
        }
    }

    #[inline(never)]
    fn find_later(&mut self, source: Source, tag: Tag) -> Option<Place> {
        let first = used(&self.many).and_then(|many| Some((many.all.first()?, many)));
        let is_right = |(at, many): &(u32, &Many)| {
            let first = many.nodes.get(*at);
            fits(source, tag, first.source, first.tag)
        };
        let first = first.filter(is_right).map(|(at, _)| at);
        first.or_else(|| self.find(source, tag)).map(Place::At)
    }

    #[inline(always)]
    pub fn at(&mut self, place: Place) -> Option<&mut Arrived> {
        match place {
            Place::First => self.few.front_mut(),
            Place::At(at) => self.at_later(at),
        }
    }

    #[inline(never)]
    fn at_later(&mut self, at: u32) -> Option<&mut Arrived> {
        match used_mut(&mut self.many) {
            Some(many) => Some(many.nodes.get_mut(at)),
            None => self.few.get_mut(at as usize),
        }
    }

    /// Removes a message in which there is nothing to be dropped.
    #[inline(always)]
    pub fn discard(&mut self, place: Place) {
        match place {
            Place::First => std::mem::forget(self.few.pop_front()),
            Place::At(at) => self.discard_later(at),
        }
    }

    #[inline(never)]
    fn discard_later(&mut self, at: u32) {
        if let Some(many) = used_mut(&mut self.many) {
            many.unlink(at);
            self.few_again();
        } else {
            std::mem::forget(self.few.remove(at as usize));
        }
    }

    /// Makes few of many, when only few are left.
    fn few_again(&mut self) {
        let Some(many) = self.many.as_deref_mut() else { return };
        if many.nodes.len() <= FEW {
            while let Some(message) = many.remove_first() {
                self.few.push_back(message);
            }
            many.nodes.reset();
            (many.asked, many.scanned) = ([false; CLASSES], 0);
        }
    }

    /// Calls `f` with each message, in order. It must not change source and tag.
    pub fn for_each(&mut self, f: &mut impl FnMut(&mut Arrived)) {
        self.few.iter_mut().for_each(&mut *f);
        let Some(many) = used_mut(&mut self.many) else { return };
        let mut next = many.all.first();
        while let Some(at) = next {
            f(many.nodes.get_mut(at));
            next = many.nodes.next(ALL, at);
        }
    }

    /// All messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arrived> {
        let many = used(&self.many).map(|many| many.iter().map(|(_, m)| m));
        self.few.iter().chain(many.into_iter().flatten())
    }

    /// All messages, in order.
    pub fn into_messages(self) -> impl Iterator<Item = Arrived> {
        let mut many = self.many;
        self.few.into_iter().chain(std::iter::from_fn(move || many.as_deref_mut()?.remove_first()))
    }

    /// Whether nothing is left of what is kept for many messages.
    #[cfg(test)]
    pub fn is_bare(&self) -> bool {
        self.many.as_deref().is_none_or(Many::is_bare)
    }
}

impl Entries for Many {
    fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }
}

impl Many {
    fn push(&mut self, message: Arrived) {
        let at = self.nodes.insert(message);
        self.nodes.append(&mut self.all, ALL, at);
        for class in 0..CLASSES {
            if self.asked[class] {
                self.enlist(class, at);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &Arrived)> {
        self.nodes.iter(self.all, ALL)
    }

    fn position(&self, mut is_right: impl FnMut(&Arrived) -> bool) -> Option<u32> {
        self.iter().find(|(_, m)| is_right(m)).map(|(at, _)| at)
    }

    fn find(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let key = Key::of(source, tag);
        let class = key.class();
        let (mut seen, most) = (0, if self.asked[class] { OLDEST } else { usize::MAX });
        let scanned = self.nodes.iter(self.all, ALL).take(most).inspect(|_| seen += 1);
        let found = scanned.map(|(at, m)| (at, fits(source, tag, m.source, m.tag))).find(|(_, fits)| *fits);
        if let Some((at, _)) = found
            && seen <= OLDEST
        {
            return Some(at);
        }
        if self.asked[class] {
            return self.lists.get(&key)?.first();
        }
        self.scanned += seen;
        if self.scanned > SCANS * self.nodes.len() {
            self.enlist_all(class);
        }
        found.map(|(at, _)| at)
    }

    fn enlist_all(&mut self, class: usize) {
        (self.asked[class], self.scanned) = (true, 0);
        self.lists.reserve(self.nodes.len());
        let mut next = self.all.first();
        while let Some(at) = next {
            self.enlist(class, at);
            next = self.nodes.next(ALL, at);
        }
    }

    /// Appends a message to its list in this class.
    fn enlist(&mut self, class: usize, at: u32) {
        let message = self.nodes.get(at);
        if let Some(key) = Key::fitting(class, message.source, message.tag) {
            self.nodes.append(self.lists.entry(key).or_default(), class, at);
        }
    }

    /// Removes a message, from all of its lists.
    fn remove(&mut self, at: u32) -> Arrived {
        self.unlink(at);
        std::mem::take(self.nodes.get_mut(at))
    }

    fn remove_first(&mut self) -> Option<Arrived> {
        self.all.first().map(|at| self.remove(at))
    }

    /// Takes a message out of all of its lists, and makes its place vacant.
    fn unlink(&mut self, at: u32) {
        self.nodes.unlink(&mut self.all, ALL, at);
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
        self.nodes.release(at);
    }

    #[cfg(test)]
    fn is_bare(&self) -> bool {
        self.lists.is_empty() && self.nodes.len() == 0 && self.asked == [false; CLASSES]
    }
}
