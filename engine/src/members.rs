//! The remote group of an inter-communicator: which peer is which rank.
//!
//! Invariant: a rank without a peer is one with which nothing was exchanged, and costs nothing: the table by rank is made when one of
//! [`SHARE`] ranks has a peer. No peer is two ranks.

use crate::types::PeerId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of groups of at most this many ranks all are watched.
const NEAR: u32 = 4096;
/// When one of so many ranks has a peer, the group gets a table in which a rank is found at once.
const SHARE: usize = 8;
/// In that table: the rank has no peer.
const NOBODY: PeerId = PeerId(u32::MAX);

/// The peers of a remote group, by rank, as far as there are any.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Members {
    size: u32,
    /// All ranks of a group of which many have a peer.
    near: Vec<PeerId>,
    /// The ranks that have a peer, where they are few.
    far: BTreeMap<u32, PeerId>,
}

impl Members {
    /// A group of `size` ranks, none of which has a peer yet.
    pub fn of_size(size: u32) -> Members {
        Members { size, near: Vec::new(), far: BTreeMap::new() }
    }

    /// How many ranks are watched for a receive from any source: all, or the first of a very large group.
    pub fn watched(&self) -> u32 {
        Members::watched_of(self.size)
    }

    /// The same for a group of this size.
    pub fn watched_of(size: u32) -> u32 {
        size.min(NEAR)
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The peer of a rank.
    #[inline(always)]
    pub fn get(&self, rank: u32) -> Option<PeerId> {
        match self.near.get(rank as usize) {
            Some(peer) => (*peer != NOBODY).then_some(*peer),
            None => self.far.get(&rank).copied(),
        }
    }

    /// Whether this peer is that rank.
    #[inline(always)]
    pub fn is(&self, rank: u32, peer: PeerId) -> bool {
        match self.near.get(rank as usize) {
            Some(there) => *there == peer,
            None => self.far.get(&rank) == Some(&peer),
        }
    }

    /// From now on this peer is that rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn set(&mut self, rank: u32, peer: PeerId) {
        assert!(rank < self.size, "a rank of the group");
        if let Some(place) = self.near.get_mut(rank as usize) {
            *place = peer;
            return;
        }
        self.far.insert(rank, peer);
        if self.far.len() * SHARE >= self.size as usize {
            self.near = vec![NOBODY; self.size as usize];
            for (rank, peer) in std::mem::take(&mut self.far) {
                self.near[rank as usize] = peer;
            }
        }
    }

    /// The ranks that have a peer, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, PeerId)> {
        let near = (0..).zip(&self.near).filter(|(_, peer)| **peer != NOBODY);
        near.chain(self.far.iter().map(|(rank, peer)| (*rank, peer))).map(|(rank, peer)| (rank, *peer))
    }

    /// The rank of a peer.
    pub fn rank_of(&self, peer: PeerId) -> Option<u32> {
        self.iter().find(|(_, its)| *its == peer).map(|(rank, _)| rank)
    }

    /// Whether a group that was read from a snapshot can have been written.
    pub(crate) fn is_sound(&self) -> bool {
        let (has_table, few) = (!self.near.is_empty(), self.far.len() * SHARE < self.size as usize);
        let fits = if has_table { self.near.len() == self.size as usize && self.far.is_empty() } else { few };
        self.size > 0 && fits && self.far.keys().all(|rank| *rank < self.size)
    }
}

impl From<Vec<PeerId>> for Members {
    /// A group all of whose ranks have their peers.
    fn from(peers: Vec<PeerId>) -> Members {
        let mut members = Members::of_size(peers.len() as u32);
        (0..).zip(peers).for_each(|(rank, peer)| members.set(rank, peer));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_its_peer_in_small_and_in_large_groups() {
        for size in [3, NEAR, NEAR + 1, 1 << 20] {
            let mut members = Members::of_size(size);
            assert!(members.is_sound() && members.iter().next().is_none());
            assert_eq!(members.get(size), None);
            members.set(size - 1, PeerId(7));
            members.set(1, PeerId(9));
            assert_eq!(members.iter().collect::<Vec<_>>(), [(1, PeerId(9)), (size - 1, PeerId(7))]);
            assert_eq!((members.get(1), members.get(0)), (Some(PeerId(9)), None));
            assert_eq!((members.rank_of(PeerId(7)), members.rank_of(PeerId(8))), (Some(size - 1), None));
            assert!(members.is_sound());
            assert_eq!(members.near.is_empty(), size as usize > 2 * SHARE, "few ranks need no table");
            // One after the other, until all are in a table.
            for rank in 0..size.min(NEAR) {
                members.set(rank, PeerId(rank + 10));
                assert!(members.is_sound() && members.get(rank) == Some(PeerId(rank + 10)));
            }
            assert_eq!(members.iter().filter(|(rank, peer)| peer.0 == rank + 10).count() as u32, size.min(NEAR));
        }
    }
}
