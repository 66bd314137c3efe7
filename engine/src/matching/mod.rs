//! Matching: which posted receive a message matches, and which unexpected message a receive. Used by the receiving side
//! of the engine, for each inter-communicator. It knows nothing of peers, credit or data.
//!
//! Few entries are searched in order. Many are found by [`Key`]: the source and the tag that a receive asks for, each
//! of which may be a wildcard. A receive has one key. A message matches up to four keys, one of each class, and is
//! listed under those of the classes that were asked for. Each key has a list, the oldest first. Lists are made only
//! when what is looked for is not among the oldest entries, those of messages when that has happened a few times.
//!
//! Invariant: the oldest of all matching entries is found. Nothing is allocated once the tables have reached their
//! size. A snapshot has the entries alone, in order: they are few until the next one comes, however many there are.

mod list;
mod posted;
#[cfg(test)]
mod tests;
mod unexpected;

pub(crate) use posted::{Posted, Receive};
pub(crate) use unexpected::{Place, Unexpected};

use crate::types::{Source, Tag};
use list::List;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// More entries than this are found by key. Up to this number they are searched in order: a program with a window of messages
/// mostly gets them in the order in which it asks for them.
const MANY: usize = 96;
/// When no more than this are left, they are searched in order again.
const FEW: usize = 32;

/// Of many entries, this many of the oldest are compared before the lists are used: mostly what comes first is wanted
/// first.
const OLDEST: usize = 4;

/// The classes of keys, by their wildcards: a bit for each.
const CLASSES: usize = 4;
/// The bit of MPI_ANY_SOURCE.
const ANY_SOURCE: usize = 1;
/// The bit of MPI_ANY_TAG.
const ANY_TAG: usize = 2;

/// What a receive asks for: a source and a tag, each of which may be a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The class in the upper half, and the source in the lower. 0 stands for any source.
    who: u64,
    tag: i64,
}

impl Key {
    fn of(source: Source, tag: Tag) -> Key {
        let (any_source, source) = match source {
            Source::Any => (ANY_SOURCE, 0),
            Source::Rank(rank) => (0, rank),
        };
        let (any_tag, tag) = match tag {
            Tag::Any => (ANY_TAG, 0),
            Tag::Is(tag) => (0, tag),
        };
        Key { who: ((any_source | any_tag) as u64) << 32 | u64::from(source), tag }
    }

    /// The key of this class that matches a message. `None` if there is none: any tag means any tag of a user.
    fn fitting(class: usize, source: u32, tag: i64) -> Option<Key> {
        if class & ANY_TAG != 0 && tag < 0 {
            return None;
        }
        let source = if class & ANY_SOURCE != 0 { Source::Any } else { Source::Rank(source) };
        Some(Key::of(source, if class & ANY_TAG != 0 { Tag::Any } else { Tag::Is(tag) }))
    }

    fn class(self) -> usize {
        (self.who >> 32) as usize
    }
}

/// What a queue has while its entries are many. It is made when they are for the first time, and kept, empty, for the next time.
trait Entries {
    fn is_empty(&self) -> bool;
}

/// Where the entries are, if they are many.
#[inline(always)]
fn used<M: Entries>(many: &Option<Box<M>>) -> Option<&M> {
    many.as_deref().filter(|many| !many.is_empty())
}

/// As [`used`].
#[inline(always)]
fn used_mut<M: Entries>(many: &mut Option<Box<M>>) -> Option<&mut M> {
    many.as_deref_mut().filter(|many| !many.is_empty())
}

/// Whether a receive for this source and tag matches a message from rank `from` with the tag `with`.
#[inline(always)]
pub(crate) fn fits(source: Source, tag: Tag, from: u32, with: i64) -> bool {
    let tag_fits = match tag {
        Tag::Any => with >= 0,
        Tag::Is(tag) => tag == with,
    };
    tag_fits && (source == Source::Any || source == Source::Rank(from))
}

/// The lists that are not empty.
type Lists = HashMap<Key, List, BuildHasherDefault<KeyHasher>>;

/// Hashes keys. Tags and ranks often count up, or in steps; the two halves of a product spread them.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64((*b).into());
        }
    }
    fn write_u64(&mut self, v: u64) {
        let product = u128::from(self.0 ^ v ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
    fn write_i64(&mut self, v: i64) {
        self.write_u64(v as u64);
    }
}
