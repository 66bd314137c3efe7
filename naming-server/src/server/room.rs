//! How many connections a server has at a time, and which gives way. Pure; the server alone uses this.
//!
//! Invariant: a connection that has not proved the key never takes the place of one that has.

use super::owner::Owner;
use nix::sys::resource::{Resource, getrlimit};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

/// The most connections that have proved the key.
const MAX_PROVED: usize = 1000;
/// The most that have not, which have places of their own.
const MAX_STRANGERS: usize = 250;
/// They have this part of the descriptors.
const STRANGERS_PART: usize = 5;
/// One owner gets this part of their places: the rest is for others.
const OF_ONE: usize = 2;
/// Descriptors that are kept for listeners, standard streams and all else.
const SPARE_DESCRIPTORS: u64 = 32;

/// What counts of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seat {
    pub owner: Owner,
    /// It has proved the key.
    pub proved: bool,
    /// It has not yet, but all that it has said was right.
    pub answered: bool,
    /// When it was last heard of, and its number.
    pub since: (Instant, u64),
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    proved: usize,
    strangers: usize,
}

impl Room {
    /// As many as this process may have descriptors for.
    pub(super) fn of_process() -> Room {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let all = descriptors.saturating_sub(SPARE_DESCRIPTORS).clamp(10, (MAX_PROVED + MAX_STRANGERS) as u64) as usize;
        let strangers = all / STRANGERS_PART;
        Room { proved: all - strangers, strangers }
    }

    /// So many that have proved the key, and as many that have not.
    pub(super) fn of(clients: usize) -> Room {
        Room { proved: clients, strangers: clients }
    }

    /// The most of one owner that have not proved the key.
    fn strangers_of_one(&self) -> usize {
        self.strangers / OF_ONE
    }

    /// Which of these gives way, if too many have proved the key: of the owner that has most, the one that was quiet for longest.
    pub(super) fn surplus(&self, seats: impl Iterator<Item = Seat> + Clone) -> Option<usize> {
        (seats.clone().filter(|seat| seat.proved).count() > self.proved).then(|| oldest_of_most(seats, true))?
    }

    /// Which of these gives way, if with one more of `newest` too many have not proved the key. Those that have said nothing
    /// right yet go first.
    pub(super) fn surplus_of_strangers(
        &self,
        seats: impl Iterator<Item = Seat> + Clone,
        newest: Owner,
    ) -> Option<usize> {
        let strangers = seats.clone().filter(|seat| !seat.proved);
        if strangers.clone().filter(|seat| seat.owner == newest).count() > self.strangers_of_one() {
            let all = seats.enumerate().filter(|(_, seat)| !seat.proved && seat.owner == newest);
            return all.min_by_key(|(_, seat)| (seat.answered, seat.since)).map(|(i, _)| i);
        }
        (strangers.count() > self.strangers).then(|| oldest_of_most(seats, false))?
    }
}

fn oldest_of_most(seats: impl Iterator<Item = Seat> + Clone, proved: bool) -> Option<usize> {
    let all = seats.enumerate().filter(|(_, seat)| seat.proved == proved);
    let mut of_owner: HashMap<Owner, usize> = HashMap::new();
    all.clone().for_each(|(_, seat)| *of_owner.entry(seat.owner).or_default() += 1);
    let count = |seat: &Seat| of_owner.get(&seat.owner).copied();
    all.min_by_key(|(_, seat)| (Reverse(count(seat)), seat.answered, seat.since)).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct Hall(Instant, Vec<Seat>);

    impl Hall {
        fn come(&mut self, user: u32, proved: bool, answered: bool) -> &mut Hall {
            let number = self.1.len() as u64;
            let since = (self.0 + Duration::from_millis(number), number);
            self.1.push(Seat { owner: Owner::User(user), proved, answered, since });
            self
        }

        fn surplus(&self, room: Room) -> Option<usize> {
            let seats = self.1.iter().copied();
            room.surplus(seats.clone()).or_else(|| room.surplus_of_strangers(seats, self.1[self.1.len() - 1].owner))
        }
    }

    #[test]
    fn strangers_take_no_place_of_those_who_proved_the_key() {
        let room = Room { proved: 4, strangers: 8 };
        let mut hall = Hall(Instant::now(), Vec::new());
        (0..4).for_each(|user| {
            hall.come(user, true, false);
        });
        (0..4).for_each(|_| {
            hall.come(7, false, false);
        });
        assert_eq!(hall.surplus(room), None);
        assert_eq!(hall.come(7, false, false).surplus(room), Some(4), "half of the places are for others");
        // From everywhere: the oldest.
        let mut hall = Hall(Instant::now(), Vec::new());
        (0..4).for_each(|user| {
            hall.come(user, true, false);
        });
        (0..8).for_each(|user| {
            hall.come(100 + user, false, user == 0);
        });
        assert_eq!(hall.surplus(room), None);
        assert_eq!(hall.come(200, false, false).surplus(room), Some(5), "the first has said something right");
    }

    #[test]
    fn of_those_who_proved_the_key_the_owner_of_most_gives_way() {
        let room = Room { proved: 4, strangers: 8 };
        let mut hall = Hall(Instant::now(), Vec::new());
        hall.come(1, true, false).come(2, true, false).come(2, true, false).come(3, true, false).come(9, false, false);
        assert_eq!(hall.surplus(room), None);
        assert_eq!(hall.come(3, true, false).surplus(room), Some(1));
    }
}
