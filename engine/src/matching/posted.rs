//! The posted queue: receives that wait for a message, in the order of posting.

use super::list::{Link, List, Nodes};
use super::{ANY_SOURCE, CLASSES, Entries, FEW, Key, Lists, MANY, OLDEST, fits, used, used_mut};
use crate::types::{Source, Tag};
use base::queue::Queue;
use serde::{Deserialize, Serialize, Serializer};

/// The link of the list of all receives.
const ALL: usize = 0;
/// The link of the list of receives with the same key.
const SAME: usize = 1;

/// A posted receive.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Receive {
    pub op: u64,
    pub source: Source,
    pub tag: Tag,
    pub capacity: u64,
}

impl Receive {
    /// Whether it matches a message from rank `from` with the tag `with`.
    #[inline(always)]
    pub fn fits(&self, from: u32, with: i64) -> bool {
        fits(self.source, self.tag, from, with)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    receive: Receive,
    /// The number of the entry, in the order of posting.
    order: u64,
    /// Whether it is in the list of its key.
    listed: bool,
}

/// The posted receives of one inter-communicator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Receive>")]
pub(crate) struct Posted {
    /// All receives, while they are few.
    few: Queue<Receive>,
    /// Made when they are many for the first time.
    many: Option<Box<Many>>,
}

/// All receives, while they are many.
#[derive(Clone, Debug, Default)]
struct Many {
    nodes: Nodes<Entry, [Link; 2]>,
    all: List,
    /// The first receive that is not in the list of its key. Those after it are not listed either.
    unlisted: Option<u32>,
    lists: Lists,
    /// The number of the last entry.
    last: u64,
    /// The number of receives of each class.
    of_class: [usize; CLASSES],
    /// The number of receives from each rank.
    from: Vec<u32>,
}

impl Serialize for Posted {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.iter().collect::<Vec<_>>().serialize(to)
    }
}

impl From<Vec<Receive>> for Posted {
    fn from(few: Vec<Receive>) -> Posted {
        Posted { few: few.into(), ..Posted::default() }
    }
}

impl Posted {
    /// Posts a receive. While there are many receives, each has a place, by which [`Posted::remove`] finds it. `placed`
    /// is called with operations and their new places.
    #[inline(always)]
    pub fn push(&mut self, receive: Receive, placed: impl FnMut(u64, u32)) {
        if self.many.is_none() && self.few.len() < MANY {
            let Receive { op, source, tag, capacity } = receive;
            // Part by part: see `base::queue`.
            self.few.push_with(|place| {
                place.op = op;
                place.source = source;
                place.tag = tag;
                place.capacity = capacity;
            });
        } else {
            self.push_later(receive, placed);
        }
    }

    #[inline(never)]
    fn push_later(&mut self, receive: Receive, mut placed: impl FnMut(u64, u32)) {
        if used(&self.many).is_none() && self.few.len() < MANY {
            return self.few.push(receive);
        }
        let many = self.many.get_or_insert_default();
        self.few.push(receive);
        for receive in self.few.drain() {
            placed(receive.op, many.push(receive));
        }
    }

    /// Removes the oldest receive that matches a message, and returns its operation and its capacity.
    #[inline]
    pub fn take(&mut self, source: u32, tag: i64) -> Option<(u64, u64)> {
        if used(&self.many).is_some() {
            return self.take_of_many(source, tag);
        }
        let first = self.few.front()?;
        if fits(first.source, first.tag, source, tag) {
            let Receive { op, capacity, .. } = *first;
            self.few.pop_front();
            return Some((op, capacity));
        }
        self.take_later(source, tag)
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.few.is_empty() && used(&self.many).is_none()
    }

    /// The oldest receive, while there are few.
    #[inline(always)]
    pub fn front(&self) -> Option<&Receive> {
        self.few.front()
    }

    /// The oldest receive that matches a message, while there are few.
    pub fn first_of_few(&self, source: u32, tag: i64) -> Option<&Receive> {
        self.few.iter().find(|r| r.fits(source, tag))
    }

    /// Removes the oldest receive, while there are few.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        self.few.pop_front();
    }

    #[inline(never)]
    fn take_later(&mut self, source: u32, tag: i64) -> Option<(u64, u64)> {
        let at = self.few.iter().position(|r| fits(r.source, r.tag, source, tag))?;
        let Receive { op, capacity, .. } = self.few.remove(at);
        Some((op, capacity))
    }

    #[inline(never)]
    fn take_of_many(&mut self, source: u32, tag: i64) -> Option<(u64, u64)> {
        let at = used_mut(&mut self.many)?.find(source, tag)?;
        let Receive { op, capacity, .. } = self.remove_of_many(at)?;
        Some((op, capacity))
    }

    /// Removes the receive of an operation, which is at this place while there are many.
    pub fn remove(&mut self, op: u64, place: u32) {
        if used(&self.many).is_some() {
            let removed = self.remove_of_many(place);
            debug_assert!(removed.is_some_and(|removed| removed.op == op));
        } else {
            self.few.retain(|r| r.op != op);
        }
    }

    /// Removes one of many receives, and makes few of many when only few are left.
    fn remove_of_many(&mut self, at: u32) -> Option<Receive> {
        let many = self.many.as_deref_mut()?;
        let receive = many.delist(at);
        if many.nodes.len() <= FEW {
            while let Some(at) = many.all.first() {
                self.few.push(many.delist(at));
            }
            many.nodes.reset();
        }
        Some(receive)
    }

    /// All receives, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Receive> {
        let many = used(&self.many).map(|many| many.nodes.iter(many.all, ALL).map(|(_, entry)| &entry.receive));
        self.few.iter().chain(many.into_iter().flatten())
    }

    /// Whether any receive takes messages from this rank.
    pub fn any_from(&self, rank: u32) -> bool {
        used(&self.many).is_some_and(|many| many.any_from(rank))
            || self.few.iter().any(|r| r.source == Source::Any || r.source == Source::Rank(rank))
    }

    /// Whether nothing is left of what is kept for many receives.
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
    /// Appends a receive, and returns its place.
    fn push(&mut self, receive: Receive) -> u32 {
        self.last += 1;
        let at = self.nodes.insert(Entry { receive, order: self.last, listed: false });
        self.nodes.append(&mut self.all, ALL, at);
        self.unlisted.get_or_insert(at);
        self.count(receive, 1);
        at
    }

    /// The place of the oldest receive that matches a message.
    fn find(&mut self, source: u32, tag: i64) -> Option<u32> {
        let fits = |entry: &Entry| fits(entry.receive.source, entry.receive.tag, source, tag);
        let oldest = self.nodes.iter(self.all, ALL).take(OLDEST).find(|(_, entry)| fits(entry));
        match oldest {
            Some((at, _)) => Some(at),
            None => self.search(source, tag),
        }
    }

    /// The same, by the lists.
    fn search(&mut self, source: u32, tag: i64) -> Option<u32> {
        self.enlist_all();
        let heads = (0..CLASSES).filter(|class| self.of_class[*class] > 0).filter_map(|class| {
            let at = self.lists.get(&Key::fitting(class, source, tag)?)?.first()?;
            Some((self.nodes.get(at).order, at))
        });
        heads.min().map(|(_, at)| at)
    }

    fn any_from(&self, rank: u32) -> bool {
        let wild: usize = (0..CLASSES).filter(|class| class & ANY_SOURCE != 0).map(|c| self.of_class[c]).sum();
        wild > 0 || self.from.get(rank as usize).is_some_and(|n| *n > 0)
    }

    /// Appends the receives that are not listed to the lists of their keys.
    fn enlist_all(&mut self) {
        let mut next = self.unlisted.take();
        while let Some(at) = next {
            let Entry { receive, listed, .. } = self.nodes.get_mut(at);
            *listed = true;
            let key = Key::of(receive.source, receive.tag);
            self.nodes.append(self.lists.entry(key).or_default(), SAME, at);
            next = self.nodes.next(ALL, at);
        }
    }

    /// Adds `change` to the numbers of receives like this one.
    fn count(&mut self, Receive { source, tag, .. }: Receive, change: isize) {
        let of_class = &mut self.of_class[Key::of(source, tag).class()];
        *of_class = of_class.wrapping_add_signed(change);
        if let Source::Rank(rank) = source {
            if self.from.len() <= rank as usize {
                self.from.resize(rank as usize + 1, 0);
            }
            let from = &mut self.from[rank as usize];
            *from = from.wrapping_add_signed(change as i32);
        }
    }

    /// Removes one of many receives, from both of its lists.
    fn delist(&mut self, at: u32) -> Receive {
        let Entry { receive, listed, .. } = *self.nodes.get(at);
        if self.unlisted == Some(at) {
            self.unlisted = self.nodes.next(ALL, at);
        }
        self.nodes.unlink(&mut self.all, ALL, at);
        if listed {
            let key = Key::of(receive.source, receive.tag);
            let list = self.lists.get_mut(&key).expect("listed");
            self.nodes.unlink(list, SAME, at);
            if list.first().is_none() {
                self.lists.remove(&key);
            }
        }
        self.count(receive, -1);
        self.nodes.release(at);
        receive
    }

    #[cfg(test)]
    fn is_bare(&self) -> bool {
        let counted = self.of_class.iter().sum::<usize>() + self.from.iter().sum::<u32>() as usize;
        let lists = self.lists.is_empty() && self.all.first().is_none() && self.unlisted.is_none();
        lists && self.nodes.len() == 0 && counted == 0
    }
}
