//! Who waits, who calls, and who has gone. Pure; the server alone uses this.
//!
//! Invariant: a call is taken once, and by the process that it is for.

use std::collections::{HashMap, HashSet, VecDeque};

/// The most processes that wait.
pub(crate) const MAX_WAITING: usize = 8192;
/// The most calls that wait to be taken, or to be passed on.
pub(crate) const MAX_CALLS: usize = 1024;
/// The most processes that are remembered after they have gone.
const MAX_GONE: usize = 65_536;

/// A process number.
pub(crate) type Name = [u8; 16];
/// The number of a connection of the server.
pub(crate) type Id = u64;

/// Why a call comes to nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum No {
    NotThere,
    Gone,
    Full,
}

#[derive(Default)]
pub(crate) struct Table {
    waiting: HashMap<Name, Id>,
    /// By its number: the connection of who calls, and the process that is called.
    calls: HashMap<[u8; 16], (Id, Name)>,
    /// Those whose hosts have closed their connections, in that order.
    gone: HashSet<Name>,
    order: VecDeque<Name>,
}

impl Table {
    /// A process waits on this connection from now on. Returns the connection on which it waited before. `Err`: there is no
    /// room.
    pub(crate) fn wait(&mut self, name: Name, on: Id) -> Result<Option<Id>, No> {
        if self.waiting.len() >= MAX_WAITING && !self.waiting.contains_key(&name) {
            return Err(No::Full);
        }
        if self.gone.remove(&name) {
            self.order.retain(|gone| *gone != name);
        }
        Ok(self.waiting.insert(name, on))
    }

    /// The connection of this process that waits.
    pub(crate) fn who_waits(&self, name: &Name) -> Result<Id, No> {
        let no = if self.gone.contains(name) { No::Gone } else { No::NotThere };
        self.waiting.get(name).copied().ok_or(no)
    }

    /// A call, which has this number until it is taken.
    pub(crate) fn call(&mut self, number: [u8; 16], caller: Id, name: Name) -> Result<(), No> {
        if self.calls.len() >= MAX_CALLS {
            return Err(No::Full);
        }
        self.calls.insert(number, (caller, name));
        Ok(())
    }

    /// The connection of the call that this process takes.
    pub(crate) fn take(&mut self, number: &[u8; 16], by: Name) -> Option<Id> {
        let (caller, _) = self.calls.get(number).filter(|(_, name)| *name == by)?;
        let caller = *caller;
        self.calls.remove(number);
        Some(caller)
    }

    /// A call is over.
    pub(crate) fn end_call(&mut self, number: &[u8; 16]) {
        self.calls.remove(number);
    }

    /// A process waits no longer on this connection. `gone`: its host has closed it.
    pub(crate) fn left(&mut self, name: Name, on: Id, gone: bool) {
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

    fn name(n: usize) -> Name {
        (n as u128).to_le_bytes()
    }

    #[test]
    fn a_call_is_taken_once_and_by_whom_it_is_for() {
        let mut table = Table::default();
        assert_eq!(table.wait(name(1), 10), Ok(None));
        assert_eq!((table.who_waits(&name(1)), table.who_waits(&name(2))), (Ok(10), Err(No::NotThere)));
        table.call([7; 16], 20, name(1)).unwrap();
        assert_eq!(table.take(&[7; 16], name(2)), None);
        assert_eq!(table.take(&[8; 16], name(1)), None);
        assert_eq!(table.take(&[7; 16], name(1)), Some(20));
        assert_eq!(table.take(&[7; 16], name(1)), None);
    }

    #[test]
    fn who_comes_again_waits_on_the_newer_connection() {
        let mut table = Table::default();
        table.wait(name(1), 10).unwrap();
        assert_eq!(table.wait(name(1), 11), Ok(Some(10)));
        table.left(name(1), 10, true);
        assert_eq!(table.who_waits(&name(1)), Ok(11));
        table.left(name(1), 11, true);
        assert_eq!(table.who_waits(&name(1)), Err(No::Gone));
        table.wait(name(1), 12).unwrap();
        table.left(name(1), 12, false);
        assert_eq!(table.who_waits(&name(1)), Err(No::NotThere), "the relay has closed it");
    }

    #[test]
    fn the_limits_hold() {
        let mut table = Table::default();
        (0..MAX_WAITING).for_each(|n| assert_eq!(table.wait(name(n), n as Id), Ok(None)));
        assert_eq!(table.wait(name(MAX_WAITING), 1), Err(No::Full));
        assert_eq!(table.wait(name(5), 1), Ok(Some(5)), "who waits already may come again");
        (0..MAX_CALLS).for_each(|n| table.call(name(n), 1, name(5)).unwrap());
        assert_eq!(table.call(name(MAX_CALLS), 1, name(5)), Err(No::Full));
        let mut table = Table::default();
        for n in 0..=MAX_GONE {
            table.wait(name(n), 1).unwrap();
            table.left(name(n), 1, true);
        }
        assert_eq!((table.who_waits(&name(0)), table.who_waits(&name(1))), (Err(No::NotThere), Err(No::Gone)));
        assert_eq!(table.order.len(), table.gone.len());
    }
}
