//! Who waits, who calls, and who has gone. Pure; the server alone uses this.
//!
//! Invariants: a call is taken once, and by the process that it is for; where there are too many, the oldest of the host that has
//! most gives way, so that one host takes no place of another.

use crate::places::{Host, Id, Places};
use std::collections::{HashMap, HashSet, VecDeque};

/// The most processes that are remembered after they have gone.
const MAX_GONE: usize = 65_536;

/// A process number.
pub(crate) type Name = [u8; 16];

/// Why a call comes to nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum No {
    NotThere,
    Gone,
}

pub(crate) struct Table {
    waiting: HashMap<Name, Id>,
    /// The connections of those that wait.
    seats: Places,
    /// By its number: the connection of who calls, and the process that is called.
    calls: HashMap<[u8; 16], (Id, Name)>,
    /// The connections of those that call.
    callers: Places,
    /// Those whose hosts have closed their connections, in that order.
    gone: HashSet<Name>,
    order: VecDeque<Name>,
}

/// Who comes to wait.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Seated {
    /// The connection on which the process waited before.
    pub(crate) before: Option<Id>,
    /// The connection of another one that gives way.
    pub(crate) surplus: Option<Id>,
}

impl Table {
    /// With room for so many that wait, and so many that call.
    pub(crate) fn with_room(waiting: usize, calls: usize) -> Table {
        Table {
            waiting: HashMap::new(),
            seats: Places::new(waiting),
            calls: HashMap::new(),
            callers: Places::new(calls),
            gone: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// A process of this host waits on this connection from now on.
    pub(crate) fn wait(&mut self, name: Name, on: Id, host: Host) -> Seated {
        if self.gone.remove(&name) {
            self.order.retain(|gone| *gone != name);
        }
        let before = self.waiting.insert(name, on);
        before.into_iter().for_each(|before| self.seats.give_back(before));
        Seated { before, surplus: self.seats.take(on, host) }
    }

    /// The connection of this process that waits.
    pub(crate) fn who_waits(&self, name: &Name) -> Result<Id, No> {
        let no = if self.gone.contains(name) { No::Gone } else { No::NotThere };
        self.waiting.get(name).copied().ok_or(no)
    }

    /// Somebody on this host calls, here or elsewhere. Returns the connection of a caller that gives way.
    pub(crate) fn begin_call(&mut self, caller: Id, host: Host) -> Option<Id> {
        self.callers.take(caller, host)
    }

    /// A call of a process that waits here, which has this number until it is taken.
    pub(crate) fn call(&mut self, number: [u8; 16], caller: Id, name: Name) {
        self.calls.insert(number, (caller, name));
    }

    /// The connection of the call that this process takes.
    pub(crate) fn take(&mut self, number: &[u8; 16], by: Name) -> Option<Id> {
        let (caller, _) = self.calls.get(number).filter(|(_, name)| *name == by)?;
        let caller = *caller;
        self.calls.remove(number);
        Some(caller)
    }

    /// A call is over; `number` if it was of a process that waits here.
    pub(crate) fn end_call(&mut self, caller: Id, number: Option<&[u8; 16]>) {
        self.callers.give_back(caller);
        if let Some(number) = number {
            self.calls.remove(number);
        }
    }

    /// A process waits no longer on this connection. `gone`: its host has closed it.
    pub(crate) fn left(&mut self, name: Name, on: Id, gone: bool) {
        self.seats.give_back(on);
        if self.waiting.get(&name) != Some(&on) {
            // It waits on another one by now.
            return;
        }
        self.waiting.remove(&name);
        if gone && self.gone.insert(name) {
            self.order.push_back(name);
            if self.order.len() > MAX_GONE
                && let Some(oldest) = self.order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::{MAX_CALLS, MAX_WAITING};

    fn name(n: usize) -> Name {
        (n as u128).to_le_bytes()
    }

    fn host(n: u8) -> Host {
        Host::from([10, 0, 0, n])
    }

    fn table() -> Table {
        Table::with_room(MAX_WAITING, MAX_CALLS)
    }

    #[test]
    fn a_call_is_taken_once_and_by_whom_it_is_for() {
        let mut table = table();
        assert_eq!(table.wait(name(1), 10, host(1)), Seated::default());
        assert_eq!((table.who_waits(&name(1)), table.who_waits(&name(2))), (Ok(10), Err(No::NotThere)));
        table.call([7; 16], 20, name(1));
        assert_eq!(table.take(&[7; 16], name(2)), None);
        assert_eq!(table.take(&[8; 16], name(1)), None);
        assert_eq!(table.take(&[7; 16], name(1)), Some(20));
        assert_eq!(table.take(&[7; 16], name(1)), None);
    }

    #[test]
    fn who_comes_again_waits_on_the_newer_connection() {
        let mut table = table();
        table.wait(name(1), 10, host(1));
        assert_eq!(table.wait(name(1), 11, host(1)).before, Some(10));
        table.left(name(1), 10, true);
        assert_eq!(table.who_waits(&name(1)), Ok(11));
        table.left(name(1), 11, true);
        assert_eq!(table.who_waits(&name(1)), Err(No::Gone));
        table.wait(name(1), 12, host(1));
        table.left(name(1), 12, false);
        assert_eq!(table.who_waits(&name(1)), Err(No::NotThere), "the relay has closed it");
    }

    #[test]
    fn the_limits_hold_and_one_host_keeps_no_other_out() {
        let mut table = table();
        (0..MAX_WAITING).for_each(|n| assert_eq!(table.wait(name(n), n as Id, host(1)), Seated::default()));
        let next = MAX_WAITING as Id;
        assert_eq!(table.wait(name(5), next, host(1)), Seated { before: Some(5), surplus: None });
        let friend = name(1 << 20);
        assert_eq!(table.wait(friend, next + 1, host(2)), Seated { before: None, surplus: Some(0) });
        table.left(name(0), 0, false);
        // Whoever has most pushes out its own.
        (1..MAX_WAITING).filter(|n| *n != 5).for_each(|n| {
            let seated = table.wait(name(n + MAX_WAITING), next + 1 + n as Id, host(1));
            assert_eq!(seated.surplus, Some(n as Id));
            table.left(name(n), n as Id, false);
        });
        assert_eq!(table.who_waits(&friend), Ok(next + 1));
        assert_eq!(table.waiting.len(), MAX_WAITING);
        (0..MAX_CALLS).for_each(|n| assert_eq!(table.begin_call(n as Id, host(1)), None));
        assert_eq!(table.begin_call(next, host(2)), Some(0));
        table.end_call(0, None);
        assert_eq!(table.begin_call(next + 1, host(1)), Some(1));
        let mut table = Table::with_room(MAX_WAITING, MAX_CALLS);
        for n in 0..=MAX_GONE {
            table.wait(name(n), 1, host(1));
            table.left(name(n), 1, true);
        }
        assert_eq!((table.who_waits(&name(0)), table.who_waits(&name(1))), (Err(No::NotThere), Err(No::Gone)));
        assert_eq!(table.order.len(), table.gone.len());
    }
}
