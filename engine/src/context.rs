//! The ids of inter-communicators on the wire, and the record of those that are closed.

use crate::intervals::Intervals;
use base::protocol::context::{MIX_ADD, MIX_FIRST, MIX_SECOND};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The context id of an inter-communicator: the same on both sides, and unique between two groups.
///
/// Leaders agree on the id of an inter-communicator that joins two jobs. One that is made from another
/// inter-communicator derives its id from that one's. The calls that make it are collective, so every process counts
/// the same, and needs no message for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContextId {
    /// 0 if it joins two jobs. Otherwise a hash of the id that it was made from.
    lineage: u64,
    /// Counts the ids of one lineage, from 1.
    number: u64,
}

impl ContextId {
    /// Bytes of an id on the wire.
    pub const BYTES: usize = 16;

    /// The id of the inter-communicator that joins two jobs, by the number on which their leaders agreed.
    pub fn root(number: u64) -> ContextId {
        ContextId { lineage: 0, number }
    }

    /// The id of the `number`-th inter-communicator, from 1, that is made from this one.
    pub fn child(self, number: u64) -> ContextId {
        // In two rounds of the mixer, every bit depends on every other: lineages collide as seldom as random numbers.
        let lineage = mixed(mixed(self.lineage).wrapping_add(self.number));
        ContextId { lineage: lineage.max(1), number }
    }

    /// The id of the inter-communicator that two registered groups get at a port, by the two incarnations that were drawn for
    /// it.
    pub fn of_port(drawn: [u64; 2]) -> ContextId {
        let (first, second) = (drawn[0].min(drawn[1]), drawn[0].max(drawn[1]));
        ContextId { lineage: mixed(mixed(first).wrapping_add(second)).max(1), number: 1 }
    }

    /// The number on which leaders have agreed; 0 if it was made from another one.
    pub fn root_number(self) -> u64 {
        if self.lineage == 0 { self.number } else { 0 }
    }

    #[inline(always)]
    pub(crate) fn to_bytes(self) -> [u8; ContextId::BYTES] {
        let mut out = [0; ContextId::BYTES];
        out[..8].copy_from_slice(&self.lineage.to_le_bytes());
        out[8..].copy_from_slice(&self.number.to_le_bytes());
        out
    }

    #[inline(always)]
    pub(crate) fn from_bytes(bytes: [u8; ContextId::BYTES]) -> ContextId {
        let both = u128::from_le_bytes(bytes);
        ContextId { lineage: both as u64, number: (both >> 64) as u64 }
    }
}

/// A bijection of 64 bits: multiplications by odd numbers, and folds of the upper half into the lower.
fn mixed(mut x: u64) -> u64 {
    x = x.wrapping_add(MIX_ADD);
    for odd in [MIX_FIRST, MIX_SECOND] {
        x = (x ^ (x >> 32)).wrapping_mul(odd);
    }
    x ^ (x >> 32)
}

/// Contexts that were open once. All others are still to come.
///
/// The contexts of one lineage are a few ranges. No process is told when a lineage is used no more, so the oldest
/// lineages are forgotten. A message that still came for a forgotten one would be kept until the pair ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Closed {
    lineages: BTreeMap<u64, Intervals>,
    /// The lineages in the order in which they came, without 0.
    order: VecDeque<u64>,
}

/// Lineages that are remembered, besides 0.
const MOST_LINEAGES: usize = 64;

impl Closed {
    pub(crate) fn insert(&mut self, context: ContextId) {
        let lineage = context.lineage;
        if lineage != 0 && !self.lineages.contains_key(&lineage) {
            if self.order.len() == MOST_LINEAGES
                && let Some(oldest) = self.order.pop_front()
            {
                self.lineages.remove(&oldest);
            }
            self.order.push_back(lineage);
        }
        self.lineages.entry(lineage).or_default().insert(context.number, context.number.saturating_add(1));
    }

    /// Forgets the lowest numbers of a context's lineage, until `most` ranges are left.
    pub(crate) fn keep_last(&mut self, context: ContextId, most: usize) {
        if let Some(numbers) = self.lineages.get_mut(&context.lineage) {
            numbers.keep_last(most);
        }
    }

    /// Whether a record that was read from bytes keeps to its limits.
    pub(crate) fn is_sound(&self) -> bool {
        self.order.len() <= MOST_LINEAGES && self.lineages.values().all(|numbers| numbers.is_sound(u64::MAX))
    }

    pub(crate) fn contains(&self, context: ContextId) -> bool {
        self.lineages.get(&context.lineage).is_some_and(|numbers| numbers.contains(context.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn both_sides_of_a_port_derive_the_same() {
        let made = ContextId::of_port([7, 9]);
        assert_eq!(made, ContextId::of_port([9, 7]));
        assert!(made.root_number() == 0 && made != ContextId::of_port([7, 8]));
    }

    #[test]
    fn families_do_not_meet() {
        let mut seen = HashSet::new();
        let mut parents: Vec<_> = (1..50).map(ContextId::root).collect();
        for _ in 0..3 {
            parents = parents.iter().flat_map(|p| (1..15).map(|n| p.child(n))).collect();
            for context in &parents {
                assert!(seen.insert(*context), "{context:?}");
            }
        }
        let lineages: HashSet<_> = seen.iter().map(|c| c.lineage).collect();
        assert_eq!(lineages.len(), 49 + 49 * 14 + 49 * 14 * 14);
        assert!(!lineages.contains(&0));
    }

    #[test]
    fn what_is_closed_is_remembered_in_little_room() {
        let mut closed = Closed::default();
        let (parent, late) = (ContextId::root(1), ContextId::root(1).child(10_001));
        for number in 1..=10_000 {
            closed.insert(parent.child(number));
            closed.insert(ContextId::root(number));
        }
        assert!(closed.contains(parent.child(1)) && closed.contains(parent.child(10_000)) && !closed.contains(late));
        assert_eq!((closed.lineages.len(), closed.lineages.values().all(|n| n.missing(10_001) == [(0, 1)])), (2, true));
        // A long chain, each made from the one before.
        let mut last = ContextId::root(7);
        for _ in 0..10_000 {
            last = last.child(1);
            closed.insert(last);
        }
        assert!(closed.contains(last) && closed.contains(ContextId::root(1)));
        assert_eq!(closed.lineages.len(), MOST_LINEAGES + 1);
    }
}
