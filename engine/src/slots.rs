//! A table by operation, as large as there were operations at a time. Used by the engine only.
//!
//! Invariant: an entry is that of the last operation in its slot. Of operations that are over, entries stay until another one
//! gets the slot.

use crate::types::OpId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BySlot<T> {
    /// The number of the operation, or 0, and its entry.
    slots: Vec<(u64, T)>,
}

impl<T> Default for BySlot<T> {
    fn default() -> Self {
        BySlot { slots: Vec::new() }
    }
}

impl<T: Copy + Default> BySlot<T> {
    #[inline]
    pub fn insert(&mut self, op: u64, entry: T) {
        let at = OpId(op).slot();
        if at >= self.slots.len() {
            self.slots.resize(at + 1, (0, T::default()));
        }
        self.slots[at] = (op, entry);
    }

    #[inline]
    pub fn get(&self, op: u64) -> Option<T> {
        self.slots.get(OpId(op).slot()).filter(|(of, _)| *of == op).map(|(_, entry)| *entry)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, T)> {
        self.slots.iter().copied().filter(|(op, _)| *op != 0)
    }

    /// Drops the entries for which this does not hold.
    pub fn retain(&mut self, stays: impl Fn(u64, T) -> bool) {
        for (op, entry) in &mut self.slots {
            if !stays(*op, *entry) {
                *op = 0;
            }
        }
    }
}
