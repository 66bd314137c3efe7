//! The connections that are not joined yet, and which of them gives way when there are too many.
//!
//! Invariant: one that has not proved the key never takes the place of one that has.

use crate::places::{Host, Id};
use crate::room::MAX_STRANGERS;
use crate::table::Name;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use transports::registry::{Asking, Visitor};

/// One address has half of these places, so that the next one finds one.
const OF_ONE: usize = 2;
/// How long the proof and the request may take.
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// How long a call may wait.
const CALL_LIMIT: Duration = Duration::from_secs(8);

/// How far a connection is.
pub(crate) enum Stage {
    /// It has not asked yet.
    New,
    /// It waits under its process number.
    Waits,
    /// It calls, and is to be taken. The number of the call.
    Calls([u8; 16]),
    /// It calls a process that waits elsewhere.
    Passed(Box<Passed>),
}

/// A call that other relays are asked for.
pub(crate) struct Passed {
    pub(crate) name: Name,
    /// The relays that have it passed on, with this one.
    pub(crate) passed: Vec<[u8; 16]>,
    /// The one that is being asked, with its address, and those that are to be asked, the next one last.
    pub(crate) asking: Option<(SocketAddr, Asking)>,
    pub(crate) next: Vec<SocketAddr>,
    /// One has said that the process has gone, or that it does not answer.
    pub(crate) gone: bool,
    pub(crate) silent: bool,
}

pub(crate) struct Conn {
    pub(crate) visitor: Visitor,
    pub(crate) stage: Stage,
    pub(crate) from: IpAddr,
    pub(crate) since: Instant,
}

impl Conn {
    pub(crate) fn host(&self) -> Host {
        trust::host_of(self.from)
    }

    /// When it has had its time; `None` if it may stay.
    pub(crate) fn limit(&self) -> Option<Instant> {
        match self.stage {
            Stage::New => Some(self.since + ASK_LIMIT),
            Stage::Waits => None,
            Stage::Calls(_) | Stage::Passed(_) => Some(self.since + CALL_LIMIT),
        }
    }

    /// Whether it has not asked for anything yet. One that has proved the key, and says no more, counts too.
    fn is_stranger(&self) -> bool {
        matches!(self.stage, Stage::New)
    }
}

/// Which gives way for one more stranger from this address, if there are too many. Those that have said nothing right go first.
pub(crate) fn surplus(conns: &BTreeMap<Id, Conn>, from: IpAddr) -> Option<Id> {
    let seats = conns.iter().filter(|(_, conn)| conn.is_stranger());
    let seats = seats.map(|(id, conn)| (conn.visitor.is_answered(), *id, conn.from));
    surplus_of(seats, from, MAX_STRANGERS)
}

/// The same, of seats: whether it has said something right, its number, and where it is from.
fn surplus_of(seats: impl Iterator<Item = (bool, Id, IpAddr)> + Clone, from: IpAddr, most: usize) -> Option<Id> {
    let of_one = seats.clone().filter(|seat| seat.2 == from);
    if of_one.clone().count() >= most / OF_ONE {
        return of_one.min().map(|seat| seat.1);
    }
    (seats.clone().count() >= most).then(|| seats.min().map(|seat| seat.1)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_places() {
        let ip = |n: u8| IpAddr::from([10, 0, 0, n]);
        let mut seats: Vec<(bool, Id, IpAddr)> = Vec::new();
        let ask = |seats: &Vec<_>, from| surplus_of(seats.iter().copied(), from, 8);
        (0..4).for_each(|n| seats.push((n == 0, n, ip(1))));
        assert_eq!(ask(&seats, ip(1)), Some(1), "the first has said something right");
        assert_eq!(ask(&seats, ip(2)), None);
        (4..8).for_each(|n| seats.push((false, n, ip(n as u8))));
        assert_eq!(ask(&seats, ip(99)), Some(1));
    }
}
