//! Memory of all commands together, of which each host and each process has a share.
//!
//! Invariant: nothing beyond [`SMALL`] is read before there is room for it; a length that was announced takes none.

use base::shares::Shares;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use transports::control::Asker;

/// Bytes of all commands that are under way.
const MOST_BYTES: usize = 512 << 20;
/// What needs no room of its own: there are few connections.
pub(super) const SMALL: usize = 64 << 10;
/// A message takes memory as bytes, as what it says, and for whom it is passed on to.
const COPIES: usize = 3;

/// How much each asker has.
#[derive(Default)]
pub(super) struct Budget(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    hosts: Shares<Option<IpAddr>>,
    processes: Shares<[u8; 16]>,
}

/// Room that is given back when this is dropped.
pub(super) struct Room {
    budget: Arc<Budget>,
    of: Asker,
    bytes: usize,
}

impl Budget {
    /// Room for a message of this length, which is to be passed on for this asker. `None`: see [`Room::grow`].
    pub(super) fn take(self: &Arc<Budget>, asker: Asker, length: usize) -> Option<Room> {
        let mut room = Room { budget: self.clone(), of: asker, bytes: 0 };
        room.grow(length).then_some(room)
    }
}

impl Room {
    /// Makes room for this length. False: its host, or its process, has half of what others leave.
    pub(super) fn grow(&mut self, length: usize) -> bool {
        let bytes = if length <= SMALL { 0 } else { COPIES * length };
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let mut taken = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (host, process) = (self.of.host(), self.of.process);
        let fits = taken.hosts.has_room(MOST_BYTES, host, more) && taken.processes.has_room(MOST_BYTES, process, more);
        if fits {
            taken.hosts.add(host, more);
            taken.processes.add(process, more);
            self.bytes += more;
        }
        fits
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.hosts.give_back(self.of.host(), self.bytes);
        taken.processes.give_back(self.of.process, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::control::MAX_REQUEST;

    fn is_empty(budget: &Budget) -> bool {
        let taken = budget.0.lock().unwrap();
        taken.hosts.is_empty() && taken.processes.is_empty()
    }

    fn asker(process: u8, host: u8) -> Asker {
        Asker { process: [process; 16], from: Some([10, 0, 0, host].into()) }
    }

    #[test]
    fn one_asker_leaves_room_for_others() {
        let budget = Arc::new(Budget::default());
        let first = budget.take(asker(1, 1), MAX_REQUEST).expect("the largest request has room");
        assert!(budget.take(asker(1, 1), MAX_REQUEST).is_none());
        assert!(budget.take(asker(1, 2), MAX_REQUEST).is_none(), "nor from another host");
        assert!(budget.take(asker(1, 1), SMALL).is_some());
        let other = budget.take(asker(2, 2), MAX_REQUEST / 2);
        assert!(other.is_some());
        drop((first, other));
        assert!(is_empty(&budget));
    }

    #[test]
    fn the_processes_of_one_host_leave_room_for_others() {
        let budget = Arc::new(Budget::default());
        let length = MAX_REQUEST / 8;
        let taken: Vec<_> = (0..200).filter_map(|n| budget.take(asker(n, 1), length)).collect();
        assert!(!taken.is_empty() && COPIES * length * taken.len() <= MOST_BYTES / 2, "{}", taken.len());
        assert!(budget.take(asker(201, 2), MAX_REQUEST / 2).is_some());
    }

    #[test]
    fn room_grows_with_what_has_come() {
        let budget = Arc::new(Budget::default());
        let mut room = budget.take(asker(1, 1), 0).unwrap();
        assert!(room.grow(SMALL) && is_empty(&budget), "a small one takes none");
        assert!(room.grow(2 * SMALL) && room.grow(3 * SMALL) && room.grow(SMALL));
        assert_eq!(room.bytes, 3 * SMALL * COPIES);
        assert!(!room.grow(MOST_BYTES));
        drop(room);
        assert!(is_empty(&budget));
    }
}
