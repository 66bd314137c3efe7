//! A map that most processes have one entry of, or none: a sorted vector, no larger than what is in it.
//!
//! A `BTreeMap` takes memory for eleven entries with its first one, and keeps it after its last one. An entry is put in its place
//! here by moving all that follow it, so this is nothing for very many entries that come in no order.

use crate::tight;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, RangeInclusive};

/// A map. It is serialised as a `BTreeMap` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Sorted<K, V> {
        Sorted { entries: Vec::new() }
    }
}

impl<K: Ord, V> Sorted<K, V> {
    /// The place of a key, or the place where it would be.
    #[inline]
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(its, _)| its.cmp(key))
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|at| &self.entries[at].1)
    }

    /// As [`Sorted::get`].
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|at| &mut self.entries[at].1)
    }

    /// Whether a key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    /// Gives a key a value, and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                tight::insert(&mut self.entries, at, (key, value));
                None
            }
        }
    }

    /// The value of a key, which is made if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.place(&key).unwrap_or_else(|at| {
            tight::insert(&mut self.entries, at, (key, make()));
            at
        });
        &mut self.entries[at].1
    }

    /// Takes out the value of a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.place(key).ok().map(|at| self.entries.remove(at).1);
        self.free_if_empty();
        value
    }

    /// Keeps the entries for which this holds.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| stays(key, value));
        self.free_if_empty();
    }

    fn free_if_empty(&mut self) {
        if self.entries.is_empty() {
            self.entries = Vec::new();
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// As [`Sorted::iter`].
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// The entries with these keys, in order.
    pub fn range(&self, keys: RangeInclusive<K>) -> impl Iterator<Item = (&K, &V)> {
        let first = self.entries.partition_point(|(key, _)| key < keys.start());
        self.entries[first..].iter().take_while(move |(key, _)| key <= keys.end()).map(|(key, value)| (key, value))
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// As [`Sorted::values`].
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

impl<K: Ord, V> Index<&K> for Sorted<K, V> {
    type Output = V;

    #[inline]
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key has a value")
    }
}

impl<K: Serialize, V: Serialize> Serialize for Sorted<K, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.entries.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, K: Ord + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Sorted<K, V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sorted<K, V>, D::Error> {
        from.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K: Ord + Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
    type Value = Sorted<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Sorted<K, V>, A::Error> {
        let mut entries: Vec<(K, V)> = Vec::new();
        while let Some(entry) = from.next_entry()? {
            tight::push(&mut entries, entry);
        }
        // Bytes that were not written here may have any order. Of equal keys the last one counts, as in any map.
        entries.reverse();
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        entries.dedup_by(|one, before| one.0 == before.0);
        Ok(Sorted { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_agrees_with_a_tree() {
        let (mut map, mut tree, mut x) = (Sorted::default(), BTreeMap::new(), 1u64);
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (key, value) = ((x >> 33) % 50, x >> 40);
            match (x >> 60) % 5 {
                0 => assert_eq!(map.insert(key, value), tree.insert(key, value)),
                1 => assert_eq!(map.get_or_insert_with(key, || value), tree.entry(key).or_insert(value)),
                2 | 3 => assert_eq!(map.remove(&key), tree.remove(&key)),
                _ => {
                    map.retain(|k, _| k % 7 != key % 7);
                    tree.retain(|k, _| k % 7 != key % 7);
                }
            }
            assert_eq!(map.get(&key), tree.get(&key));
            assert_eq!((map.contains_key(&key), map.len()), (tree.contains_key(&key), tree.len()));
            assert!(map.iter().eq(tree.iter()) && map.keys().eq(tree.keys()) && map.values().eq(tree.values()));
            assert!(map.range(key..=key + 9).eq(tree.range(key..=key + 9)));
            assert!(map.entries.capacity() <= (map.len() + map.len() / 8 + 1).max(50));
            assert!(!map.is_empty() || map.entries.capacity() == 0);
        }
    }

    #[test]
    fn one_entry_takes_the_room_of_one() {
        let mut map = Sorted::default();
        map.insert(7u64, 9u64);
        assert_eq!(map.entries.capacity(), 1);
    }
}
