//! Which commands wait for their turn at the leader of a job, and which give way. Pure; the desk has it under its lock.
//!
//! Invariants: one asker never has all turns; who comes beside others that have more gets one, since the last of who has most gives
//! way. The first ones never do, so each of them has its turn.

use super::visitors::{Ticket, count};
use std::collections::VecDeque;
use transports::control::Asker;
use wire::control::Id;

/// Commands that wait, so that threads are left to those that only look; those of one host, and those of one process.
pub(super) const MOST_TURNS: usize = 8;
const MOST_TURNS_HOST: usize = 4;
const MOST_TURNS_EACH: usize = 2;

struct Turn {
    id: Id,
    asker: Asker,
    /// The visit in which it came.
    ticket: Ticket,
}

/// All of them, in the order in which they came.
#[derive(Default)]
pub(super) struct Turns(VecDeque<Turn>);

impl Turns {
    pub fn has(&self, id: Id) -> bool {
        self.0.iter().any(|turn| turn.id == id)
    }

    pub fn is_first(&self, id: Id) -> bool {
        self.0.front().is_some_and(|turn| turn.id == id)
    }

    /// How many commands of others than this one wait.
    pub fn others_than(&self, asker: &Asker) -> u32 {
        self.0.iter().filter(|turn| turn.asker.process != asker.process).count() as u32
    }

    /// A command comes behind the others, in the place of another one where these have all. Returns whether it waits.
    pub fn join(&mut self, id: Id, asker: Asker, ticket: Ticket) -> bool {
        let (of_host, own) = self.waiting(&asker);
        if own >= MOST_TURNS_EACH {
            return false;
        }
        let host_has_all = of_host >= MOST_TURNS_HOST;
        if host_has_all || self.0.len() >= MOST_TURNS {
            let may_yield = |turn: &Turn| !host_has_all || turn.asker.host() == asker.host();
            let all = self.0.iter().enumerate().filter(|(_, turn)| may_yield(turn));
            let Some((most, at)) = all.map(|(at, turn)| (self.waiting(&turn.asker), at)).max() else { return false };
            if at == 0 || most <= (of_host, own) {
                return false;
            }
            self.0.remove(at);
        }
        self.0.push_back(Turn { id, asker, ticket });
        true
    }

    /// Those of the same host, and of the same process.
    fn waiting(&self, of: &Asker) -> (usize, usize) {
        count(self.0.iter().map(|turn| &turn.asker), of)
    }

    /// The command that came in this visit waits no longer.
    pub fn leave(&mut self, id: Id, ticket: Ticket) {
        self.0.retain(|turn| (turn.id, turn.ticket) != (id, ticket));
    }

    /// The first one has its turn.
    pub fn next(&mut self) {
        self.0.pop_front();
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(process: u8, host: u8) -> Asker {
        Asker { process: [process; 16], from: Some([10, 0, 0, host].into()) }
    }

    fn waiting(turns: &Turns) -> Vec<u8> {
        turns.0.iter().map(|turn| turn.id[0]).collect()
    }

    #[test]
    fn few_processes_of_a_host_leave_turns_to_others() {
        let mut turns = Turns::default();
        // Three processes with four connections each.
        let joined = (0..12).filter(|n| turns.join([*n; 16], asker(n / 4, 1), 0)).count();
        assert!(joined > MOST_TURNS_HOST && turns.len() == MOST_TURNS_HOST);
        assert_eq!(turns.waiting(&asker(2, 1)), (MOST_TURNS_HOST, MOST_TURNS_EACH), "who has come last has two");
        // One of the same host has a turn, in the place of the last of who has most; one of another host has a free one.
        assert!(turns.join([100; 16], asker(100, 1), 0) && turns.has([100; 16]));
        assert_eq!(turns.len(), MOST_TURNS_HOST);
        assert!(turns.join([101; 16], asker(101, 2), 0));
        assert_eq!(turns.len(), MOST_TURNS_HOST + 1);
        // Nobody displaces the first one.
        assert_eq!(waiting(&turns)[0], 0);
    }

    #[test]
    fn whose_host_has_most_gives_way() {
        let mut turns = Turns::default();
        for n in 0..MOST_TURNS as u8 {
            assert!(turns.join([n; 16], asker(n, n / 4), 0));
        }
        assert!(turns.join([100; 16], asker(100, 9), 0));
        assert_eq!(waiting(&turns), [0, 1, 2, 3, 4, 5, 6, 100]);
        assert!(turns.join([101; 16], asker(101, 9), 0));
        assert_eq!(waiting(&turns), [0, 1, 2, 4, 5, 6, 100, 101]);
    }

    #[test]
    fn a_command_leaves_with_its_own_visit_alone() {
        let mut turns = Turns::default();
        assert!(turns.join([1; 16], asker(1, 1), 5));
        turns.leave([1; 16], 6);
        assert!(
            turns.is_first([1; 16]) && turns.others_than(&asker(1, 1)) == 0 && turns.others_than(&asker(2, 1)) == 1
        );
        turns.leave([1; 16], 5);
        assert_eq!(turns.len(), 0);
    }
}
