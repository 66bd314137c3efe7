//! Open inter-communicators.

use base::ProcId;
use engine::Ctx;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// In a remote group of at most this many ranks each has its pair from the beginning. In a larger one a rank gets it when the
/// first thing is sent to it, comes from it, or is expected of it: a pair costs some 1.6 KiB.
pub(crate) const MOST_AT_ONCE: u32 = 64;

/// The number of an inter-communicator. It is never used again, so after [`crate::Session::close`] it names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterId {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl InterId {
    /// The same as one number, which fits an atomic word.
    pub fn to_bits(self) -> u64 {
        u64::from(self.slot) | u64::from(self.serial) << 32
    }

    /// Grows in the order in which inter-communicators are opened.
    pub fn order(self) -> u32 {
        self.serial
    }

    /// The inverse of [`InterId::to_bits`].
    pub fn from_bits(bits: u64) -> InterId {
        InterId { slot: bits as u32, serial: (bits >> 32) as u32 }
    }
}

/// One open inter-communicator.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Inter {
    pub(crate) serial: u32,
    /// The engine's context for it.
    pub(crate) ctx: Ctx,
    /// Our process in the group that was joined, and the remote group's incarnation.
    pub(crate) local: ProcId,
    pub(crate) theirs: u64,
    /// The number of remote ranks.
    pub(crate) size: u32,
    /// Which ranks of the remote group these are. `None`: all, in order.
    pub(crate) ranks: Option<Arc<[u32]>>,
    /// All members have their pairs.
    pub(crate) is_whole: bool,
    /// How many of the first ranks got their pairs since a receive from any source waits.
    pub(crate) watched: u32,
}

impl Inter {
    /// The process of a rank.
    pub fn member(&self, rank: u32) -> Option<ProcId> {
        let all = (rank < self.size).then_some(rank);
        let rank = self.ranks.as_ref().map_or(all, |ranks| ranks.get(rank as usize).copied());
        rank.map(|rank| ProcId { incarnation: self.theirs, rank })
    }

    /// The rank of a process.
    pub fn rank_of(&self, process: ProcId) -> Option<u32> {
        if process.incarnation != self.theirs {
            return None;
        }
        match &self.ranks {
            None => (process.rank < self.size).then_some(process.rank),
            Some(ranks) => ranks.iter().position(|rank| *rank == process.rank).map(|at| at as u32),
        }
    }
}

/// The table of open inter-communicators.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Inters {
    pub(crate) slots: Vec<Option<Inter>>,
    pub(crate) last_serial: u32,
}

impl Inters {
    #[inline]
    pub fn get(&self, id: InterId) -> Option<&Inter> {
        self.slots.get(id.slot as usize)?.as_ref().filter(|inter| inter.serial == id.serial)
    }
}
