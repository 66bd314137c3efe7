//! The remote group of an inter-communicator: which peer is which rank.
//!
//! Invariant: a rank without a peer is one with which nothing was exchanged. It costs four bytes in a group of at most [`NEAR`]
//! ranks, and nothing in a larger one. No peer is two ranks.

use crate::types::PeerId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Groups of at most this many ranks have a table, in which a rank is found at once, and all ranks of them are watched.
const NEAR: u32 = 4096;
/// In that table: the rank has no peer.
const NOBODY: PeerId = PeerId(u32::MAX);

/// The peers of a remote group, by rank, as far as there are any.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Members {
    size: u32,
    /// All ranks of a small group.
    near: Vec<PeerId>,
    /// The ranks of a larger group that have a peer.
    far: BTreeMap<u32, PeerId>,
}

impl Members {
    /// A group of `size` ranks, none of which has a peer yet.
    pub fn of_size(size: u32) -> Members {
        let near = if size <= NEAR { vec![NOBODY; size as usize] } else { Vec::new() };
        Members { size, near, far: BTreeMap::new() }
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
    #[inline]
    pub fn get(&self, rank: u32) -> Option<PeerId> {
        match self.near.get(rank as usize) {
            Some(peer) => (*peer != NOBODY).then_some(*peer),
            None => self.far.get(&rank).copied(),
        }
    }

    /// From now on this peer is that rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn set(&mut self, rank: u32, peer: PeerId) {
        assert!(rank < self.size, "a rank of the group");
        match self.near.get_mut(rank as usize) {
            Some(place) => *place = peer,
            None => drop(self.far.insert(rank, peer)),
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
        let table = if self.size <= NEAR { self.size as usize } else { 0 };
        self.size > 0 && self.near.len() == table && self.far.keys().all(|rank| self.size > NEAR && *rank < self.size)
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
        }
    }
}
