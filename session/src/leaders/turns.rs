//! Turns: the order in which a port dials back those that have posted a dial request in the naming service, where
//! anybody can post one. Few are dialled at a time.
//!
//! Pure. Invariant: with any number of requests, no more are dialled at a time than the limits here, and none a second time
//! before all were dialled once.

use crate::state::talk::Called;
use base::Time;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// How many requests of one port are dialled at a time.
pub const MOST_CALLED: usize = 8;
/// How many addresses they may have together: each takes up to two descriptors.
const MOST_PLACES: usize = 32;
/// While others wait, one that does not answer has had its turn after this long.
const TURN: Duration = Duration::from_secs(5);
/// While others wait, one that has answered and not made its whole offer has had its turn after this long.
const OFFER_TURN: Duration = Duration::from_secs(10);

/// The dial requests of one port, by number, and the dials `D` that they have led to.
pub struct Turns<D> {
    /// Requests that wait, the next first.
    waiting: VecDeque<u64>,
    /// Requests that are dialled now.
    called: Vec<Call<D>>,
    /// Requests that lead nowhere, or whose caller has made its offer.
    done: HashSet<u64>,
}

/// A request that is dialled now.
struct Call<D> {
    /// The number of the request.
    note: u64,
    dial: D,
    /// How many addresses are dialled.
    places: usize,
    since: Time,
}

impl<D> Default for Turns<D> {
    fn default() -> Turns<D> {
        Turns { waiting: VecDeque::new(), called: Vec::new(), done: HashSet::new() }
    }
}

impl<D: Copy> Turns<D> {
    /// Takes in the list of requests that stand now. Returns the dials to be called off. `state` says how each dial is
    /// doing.
    pub fn look(&mut self, notes: &[u64], now: Time, state: impl Fn(D) -> Called) -> Vec<D> {
        let stand: HashSet<u64> = notes.iter().copied().collect();
        self.waiting.retain(|note| stand.contains(note));
        self.done.retain(|note| stand.contains(note));
        let known: HashSet<u64> = self.waiting.iter().chain(self.called.iter().map(|c| &c.note)).copied().collect();
        let is_new = |note: &&u64| !known.contains(note) && !self.done.contains(note);
        let new: Vec<u64> = notes.iter().filter(is_new).copied().collect();
        self.waiting.extend(new);
        let mut off = Vec::new();
        for call in std::mem::take(&mut self.called) {
            let (stands, took) = (stand.contains(&call.note), now.since(call.since));
            // While no other request waits there is no hurry.
            let may_go = !self.waiting.is_empty() || !stands;
            let is_over = match state(call.dial) {
                Called::Gone => true,
                Called::Offers => {
                    self.done.extend(stands.then_some(call.note));
                    continue;
                }
                Called::InVain => may_go,
                Called::Dialled => may_go && took >= TURN || !stands,
                Called::Connected => may_go && took >= OFFER_TURN,
            };
            if !is_over {
                self.called.push(call);
                continue;
            }
            if state(call.dial) != Called::Gone {
                off.push(call.dial);
            }
            self.waiting.extend(stands.then_some(call.note));
        }
        off
    }

    /// The request whose turn it is, if one more may be dialled.
    pub fn next_note(&mut self) -> Option<u64> {
        if self.called.len() < MOST_CALLED { self.waiting.pop_front() } else { None }
    }

    /// Puts a request back, whose turn comes first again.
    pub fn put_back(&mut self, note: u64) {
        self.waiting.push_front(note);
    }

    /// A request was dialled, at `places` addresses.
    pub fn dialled(&mut self, note: u64, dial: D, places: usize, now: Time) {
        self.called.push(Call { note, dial, places, since: now });
    }

    /// A request leads nowhere: it is not dialled again while it stands.
    pub fn drop(&mut self, note: u64) {
        self.done.insert(note);
    }

    /// Whether no request is known; for tests.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.called.is_empty() && self.done.is_empty()
    }

    /// Whether `places` more addresses may be dialled. A request alone may have any number.
    pub fn has_room(&self, places: usize) -> bool {
        self.called.is_empty() || self.called.iter().map(|call| call.places).sum::<usize>() + places <= MOST_PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const SECOND: Duration = Duration::from_secs(1);

    /// A port that dials, with what has become of each dial that stands.
    struct Desk {
        turns: Turns<u64>,
        dials: HashMap<u64, Called>,
        dialled: Vec<u64>,
        start: Time,
    }

    impl Desk {
        fn new() -> Desk {
            Desk { turns: Turns::default(), dials: HashMap::new(), dialled: Vec::new(), start: Time(1) }
        }

        /// One look; who is dialled at it.
        fn look(&mut self, at: Duration, notes: &[u64], places: usize) -> Vec<u64> {
            let now = self.start + at;
            for dial in self.turns.look(notes, now, |dial| self.dials[&dial]) {
                self.dials.remove(&dial);
            }
            let mut new = Vec::new();
            while self.turns.has_room(places)
                && let Some(note) = self.turns.next_note()
            {
                self.turns.dialled(note, note, places, now);
                self.dials.insert(note, Called::Dialled);
                new.push(note);
            }
            self.dialled.extend(&new);
            new
        }
    }

    #[test]
    fn few_are_dialled_at_a_time_and_each_in_its_turn() {
        let mut desk = Desk::new();
        let notes: Vec<u64> = (0..400).collect();
        let mut at = Duration::ZERO;
        while desk.dialled.len() < notes.len() {
            desk.look(at, &notes, 2);
            assert!(desk.dials.len() <= MOST_CALLED && at < 400 * TURN);
            at += SECOND;
        }
        desk.dialled.sort_unstable();
        assert_eq!(desk.dialled, notes, "nobody twice before all were dialled once");
        // One that answers has time for its offer; one whose dial has failed makes room at once.
        let called: Vec<u64> = desk.turns.called.iter().map(|call| call.note).collect();
        desk.dials.insert(called[0], Called::Connected);
        desk.dials.insert(called[1], Called::InVain);
        let new = desk.look(at, &notes, 2);
        assert!(!new.is_empty() && desk.dials.contains_key(&called[0]) && !desk.dials.contains_key(&called[1]));
        desk.look(at + OFFER_TURN, &notes, 2);
        assert!(!desk.dials.contains_key(&called[0]));
        // One that has made its offer is not dialled again while its request stands.
        let through = desk.turns.called[0].note;
        desk.dials.insert(through, Called::Offers);
        desk.look(at + OFFER_TURN, &notes, 2);
        assert_eq!(desk.look(at + 2 * OFFER_TURN, &[through], 2), []);
        assert_eq!(desk.turns.done, HashSet::from([through]));
        desk.look(at + 3 * OFFER_TURN, &[], 2);
        let turns = &desk.turns;
        assert!(turns.waiting.is_empty() && turns.called.is_empty() && turns.done.is_empty());
    }

    #[test]
    fn a_few_have_all_the_time() {
        let mut desk = Desk::new();
        assert_eq!(desk.look(Duration::ZERO, &[1, 2], 2), [1, 2]);
        desk.dials.insert(2, Called::InVain);
        assert_eq!(desk.look(100 * TURN, &[1, 2], 2), []);
        assert_eq!(desk.dials.len(), 2);
    }

    #[test]
    fn many_addresses_take_the_place_of_many() {
        let mut desk = Desk::new();
        assert_eq!(desk.look(Duration::ZERO, &[1, 2, 3], MOST_PLACES), [1]);
        let mut desk = Desk::new();
        assert_eq!(desk.look(Duration::ZERO, &[1, 2, 3], MOST_PLACES / 2), [1, 2]);
    }
}
