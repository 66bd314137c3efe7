//! The numbers of claims. The names alone use this.
//!
//! Invariant: numbers only grow; a claim that another one has followed is known by its number, also after that one is over. Where
//! too many names have come and gone, an old claim may be taken for such a one, never the reverse.

use super::rows::RowId;
use crate::record::{Key, Kind};
use base::hash::fnv128;
use std::collections::{HashMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most names that are gone and whose last number is remembered.
pub(super) const MAX_GONE: usize = 1 << 16;

pub(super) struct Numbers {
    /// The last number that was given out.
    pub last: u64,
    /// The largest number of a name that is gone and forgotten.
    pub floor: u64,
    /// By the hash of a name that is gone: the number of its last claim.
    gone: HashMap<u128, u64>,
    order: VecDeque<(u128, u64)>,
}

impl Numbers {
    /// Numbers begin at the time in microseconds, so that they also grow from one server to the next that keeps nothing.
    pub(super) fn new() -> Numbers {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64);
        Numbers { last: now, floor: 0, gone: HashMap::new(), order: VecDeque::new() }
    }

    /// The number of the next claim.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Whether a claim with this number (0 for none) was followed by another of the name, which is free now.
    pub(super) fn is_superseded(&self, key: &Key, number: u64) -> bool {
        number != 0 && number < self.gone.get(&hash(key)).copied().unwrap_or(self.floor)
    }

    /// The name is free, and had this number. Returns the rows that have changed.
    pub(super) fn gone(&mut self, key: &Key, number: u64) -> Vec<RowId> {
        // A coupling's key is claimed once.
        if key.kind == Kind::Coupling {
            return Vec::new();
        }
        self.remember(hash(key), number)
    }

    pub(super) fn remember(&mut self, hash: u128, number: u64) -> Vec<RowId> {
        self.gone.insert(hash, number);
        self.order.push_back((hash, number));
        let mut rows = vec![RowId::Gone(hash)];
        while self.gone.len() > MAX_GONE || self.order.len() > 2 * MAX_GONE {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.gone.get(&oldest) == Some(&number) {
                self.gone.remove(&oldest);
                self.floor = self.floor.max(number);
                rows.push(RowId::Gone(oldest));
            }
        }
        rows
    }

    pub(super) fn of_gone(&self, hash: u128) -> Option<u64> {
        self.gone.get(&hash).copied()
    }
}

fn hash(key: &Key) -> u128 {
    fnv128(&super::rows::key_bytes(key))
}
