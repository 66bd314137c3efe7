//! Which receive a message meets, and which message a receive, however many wait. Used by the receiving side of the
//! engine, per inter-communicator; knows nothing of peers, credit or data.
//!
//! While few wait, they are looked through in order. Beyond that they are found by [`Key`]: what a receive asks for, of
//! which a message fits four. A receive stands under its own key, a message under all that it fits, as far as somebody has
//! asked by such a one; each key has its list, oldest first. Lists are only made once something is wanted that is not among the
//! oldest.
//! Invariant: among those that fit, the oldest is found. Nothing is allocated once the tables are as large as they get.

mod list;
mod posted;
#[cfg(test)]
mod tests;
mod unexpected;

pub(crate) use posted::{Posted, Receive};
pub(crate) use unexpected::Unexpected;

use crate::types::{Source, Tag};
use list::List;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// More than so many are found by key,
const MANY: usize = 8;
/// until there are only so many.
const FEW: usize = 2;

/// Of many, so many of the oldest are looked at before the lists of keys are made or asked: mostly what comes first is wanted
/// first.
const OLDEST: usize = 4;

/// The kinds of keys: each wildcard is a bit.
const CLASSES: usize = 4;
const ANY_SOURCE: usize = 1;
const ANY_TAG: usize = 2;

/// What a receive asks for: a source and a tag, each of which may be any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Key {
    /// The class, then the source.
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

    /// The key of a class that a message fits. Any tag is any of the user's.
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

/// Whether a receive for these takes a message with those.
pub(crate) fn fits(source: Source, tag: Tag, from: u32, with: i64) -> bool {
    let tag_fits = match tag {
        Tag::Any => with >= 0,
        Tag::Is(tag) => tag == with,
    };
    tag_fits && (source == Source::Any || source == Source::Rank(from))
}

/// The lists that are not empty.
type Lists = HashMap<Key, List, BuildHasherDefault<KeyHasher>>;

/// How lists are written and read.
mod pairs {
    use super::{Key, List, Lists};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(lists: &Lists, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(lists)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Lists, D::Error> {
        Ok(Vec::<(Key, List)>::deserialize(from)?.into_iter().collect())
    }
}

/// Tags and ranks count up, or in steps: both halves of a product spread them.
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
