//! Memory of all commands together, of which each asker has a share.
//!
//! Invariant: nothing larger than [`SMALL`] is read before there is room for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of all commands that are under way.
const MOST_BYTES: usize = 512 << 20;
/// What needs no room of its own: there are few connections.
const SMALL: usize = 64 << 10;
/// A message takes memory as bytes, as what it says, and for whom it is passed on to.
const COPIES: usize = 3;

/// How much each asker has.
#[derive(Default)]
pub(super) struct Budget(Mutex<BTreeMap<[u8; 16], usize>>);

/// Room that is given back when this is dropped.
pub(super) struct Room {
    budget: Arc<Budget>,
    process: [u8; 16],
    bytes: usize,
}

impl Budget {
    /// Room for a message of this length, which is to be passed on for this process. `None`: it has half of what the others leave.
    pub(super) fn take(self: &Arc<Budget>, process: [u8; 16], length: usize) -> Option<Room> {
        let bytes = if length <= SMALL { 0 } else { COPIES * length };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others: usize = all.iter().filter(|(other, _)| **other != process).map(|(_, has)| has).sum();
        let has = all.get(&process).copied().unwrap_or(0) + bytes;
        if has > MOST_BYTES.saturating_sub(others) / 2 {
            return None;
        }
        if bytes > 0 {
            all.insert(process, has);
        }
        Some(Room { budget: self.clone(), process, bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(has) = all.get_mut(&self.process) {
            *has -= self.bytes;
            if *has == 0 {
                all.remove(&self.process);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::control::MAX_REQUEST;

    #[test]
    fn one_asker_leaves_room_for_others() {
        let budget = Arc::new(Budget::default());
        let first = budget.take([1; 16], MAX_REQUEST).expect("the largest request has room");
        assert!(budget.take([1; 16], MAX_REQUEST).is_none());
        assert!(budget.take([1; 16], SMALL).is_some());
        let other = budget.take([2; 16], MAX_REQUEST / 2);
        assert!(other.is_some());
        drop((first, other));
        assert!(budget.0.lock().unwrap().is_empty());
    }
}
