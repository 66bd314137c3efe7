//! Places of which each host gets its part: the connections that have one, and which of them gives way to a newer one. Pure.
//!
//! Invariant: a host takes a place of another one only if that one has more.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// The number of a connection of the server.
pub(crate) type Id = u64;

/// Where a connection is from: the part of its address that a host cannot choose.
pub(crate) type Host = IpAddr;

/// The places. Of two connections the one with the smaller number is older.
pub(crate) struct Places {
    most: usize,
    taken: BTreeMap<Id, Host>,
    of_host: HashMap<Host, usize>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Places {
        Places { most, taken: BTreeMap::new(), of_host: HashMap::new() }
    }

    /// A connection takes a place. If there are too many, the oldest of the host that has most loses its own, and is returned.
    pub(crate) fn take(&mut self, id: Id, host: Host) -> Option<Id> {
        let surplus = if self.taken.len() >= self.most { self.oldest_of_most() } else { None };
        surplus.into_iter().for_each(|surplus| self.give_back(surplus));
        if self.taken.insert(id, host).is_none() {
            *self.of_host.entry(host).or_default() += 1;
        }
        surplus
    }

    fn oldest_of_most(&self) -> Option<Id> {
        let most = self.of_host.values().max()?;
        self.taken.iter().find(|(_, host)| self.of_host.get(host) == Some(most)).map(|(id, _)| *id)
    }

    /// A connection has no place any more. Nothing happens if it had none.
    pub(crate) fn give_back(&mut self, id: Id) {
        let Some(host) = self.taken.remove(&id) else { return };
        if let Some(count) = self.of_host.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.of_host.remove(&host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_host_with_most_gives_way() {
        let host = |n: u8| Host::from([10, 0, 0, n]);
        let mut places = Places::new(4);
        for (id, n) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
            assert_eq!(places.take(id, host(n)), None);
        }
        assert_eq!(places.take(5, host(1)), Some(2));
        assert_eq!(places.take(6, host(2)), Some(1), "both have as many: the oldest of all");
        places.give_back(2);
        places.give_back(3);
        assert_eq!(places.take(7, host(3)), None);
        assert_eq!(places.of_host.len(), 3);
        assert_eq!(places.taken.len(), 4);
    }
}
