//! What the threads of one process that serve files share: how many there are, which parts of files they have made, and which of
//! these are whole.
//!
//! Invariants: every table is bounded; a part that nobody writes into any more is removed.

use crate::part::Token;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that carry files at a time. Whoever comes beyond is told to come again.
const MOST_MOVING: usize = 8;
/// A connection on which nothing has moved for this time gives way to another one that comes. What it carries goes on where it was
/// when the other side comes again.
const SLOW: Duration = Duration::from_secs(5);
/// Parts of files that are not whole.
const MOST_PARTS: usize = 16;
/// Files of which it is remembered that they are whole: their FINISH may come twice.
const MOST_FINISHED: usize = 64;
/// How long a part is kept that nobody writes into: the other side may come again, or wait for another process's disk.
const LINGER: Duration = Duration::from_secs(600);
/// How often it is looked whether other processes write into it, or have given it its name.
const LOOK: Duration = Duration::from_secs(1);
/// The longest that a thread sleeps before it looks whether it is to end.
const SLICE: Duration = Duration::from_millis(50);

/// What the threads share.
#[derive(Debug, Default)]
pub struct Shelf {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// When something has moved on each connection, by a number that is not used again.
    moving: BTreeMap<u64, Instant>,
    /// How many connections have had a place.
    entered: u64,
    /// How many connections write into each part.
    parts: BTreeMap<Token, usize>,
    /// How many threads wait whether another connection comes for a part.
    waiting: BTreeMap<Token, usize>,
    finished: VecDeque<Token>,
}

/// A place among those that are served.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    shelf: &'a Shelf,
    number: u64,
}

impl Place<'_> {
    /// A whole message has come or gone.
    pub(crate) fn moved(&self) {
        if let Some(last) = self.shelf.lock().moving.get_mut(&self.number) {
            *last = Instant::now();
        }
    }

    /// Whether another connection has it now.
    pub(crate) fn is_lost(&self) -> bool {
        !self.shelf.lock().moving.contains_key(&self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shelf.lock().moving.remove(&self.number);
    }
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections carry files now.
    pub fn moving(&self) -> usize {
        self.lock().moving.len()
    }

    /// A place for one more connection, if there is one, or if a slow one has to give way.
    pub(crate) fn enter(&self) -> Option<Place<'_>> {
        self.enter_at(Instant::now())
    }

    fn enter_at(&self, now: Instant) -> Option<Place<'_>> {
        let mut state = self.lock();
        if state.moving.len() >= MOST_MOVING {
            let (slowest, last) = state.moving.iter().min_by_key(|(_, last)| **last).map(|(n, last)| (*n, *last))?;
            if now.saturating_duration_since(last) < SLOW {
                return None;
            }
            state.moving.remove(&slowest);
        }
        state.entered += 1;
        let number = state.entered;
        state.moving.insert(number, now);
        Some(Place { shelf: self, number })
    }

    /// One more connection writes into this part. False: there are too many parts.
    pub(crate) fn begin(&self, token: &Token) -> bool {
        let mut state = self.lock();
        if !state.parts.contains_key(token) && state.parts.len() >= MOST_PARTS {
            return false;
        }
        *state.parts.entry(*token).or_default() += 1;
        self.changed.notify_all();
        true
    }

    /// A connection that was to write into this part could not open it. Whoever waits there for another one goes on waiting.
    pub(crate) fn cancel(&self, token: &Token) {
        let mut state = self.lock();
        if let Some(users) = state.parts.get_mut(token) {
            *users = users.saturating_sub(1);
            if *users == 0 && !state.waiting.contains_key(token) {
                state.parts.remove(token);
            }
        }
        self.changed.notify_all();
    }

    /// The file is whole.
    pub(crate) fn finish(&self, token: &Token) {
        let mut state = self.lock();
        state.parts.remove(token);
        if state.finished.len() == MOST_FINISHED {
            state.finished.pop_front();
        }
        state.finished.push_back(*token);
        self.changed.notify_all();
    }

    pub(crate) fn is_finished(&self, token: &Token) -> bool {
        self.lock().finished.contains(token)
    }

    /// Nobody wants this part any more.
    pub(crate) fn forget(&self, token: &Token) {
        self.lock().parts.remove(token);
        self.changed.notify_all();
    }

    /// A connection that wrote into this part has ended. Waits whether another one comes, and returns true if the part is to be
    /// removed. `changed` says when it was written to last, by whichever process, and nothing once it has another name.
    pub(crate) fn leave(&self, token: &Token, changed: &dyn Fn() -> Option<i64>, is_over: &dyn Fn() -> bool) -> bool {
        *self.lock().waiting.entry(*token).or_default() += 1;
        let is_to_be_removed = self.await_another(token, changed, is_over);
        let mut state = self.lock();
        match state.waiting.get_mut(token) {
            Some(threads) if *threads > 1 => *threads -= 1,
            _ => drop(state.waiting.remove(token)),
        }
        is_to_be_removed
    }

    fn await_another(&self, token: &Token, changed: &dyn Fn() -> Option<i64>, is_over: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        match state.parts.get_mut(token) {
            Some(users) => *users = users.saturating_sub(1),
            None => return false,
        }
        let (mut until, mut last) = (Instant::now() + LINGER, None);
        let mut look = Instant::now();
        while state.parts.get(token) == Some(&0) {
            if Instant::now() >= look {
                drop(state);
                let now = changed();
                state = self.lock();
                if state.parts.get(token) != Some(&0) {
                    break;
                }
                match now {
                    None => {
                        state.parts.remove(token);
                        return false;
                    }
                    now if now != last => (until, last) = (Instant::now() + LINGER, now),
                    _ => (),
                }
                look = Instant::now() + LOOK;
            }
            drop(state);
            let ends = is_over();
            state = self.lock();
            if (ends || Instant::now() >= until) && state.parts.get(token) == Some(&0) {
                state.parts.remove(token);
                return true;
            }
            state = self.changed.wait_timeout(state, SLICE).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_bounded() {
        let shelf = Shelf::default();
        let places: Vec<_> = (0..MOST_MOVING).map(|_| shelf.enter().unwrap()).collect();
        assert!(shelf.enter().is_none());
        drop(places);
        assert!(shelf.enter().is_some() && shelf.moving() == 0);
        let token = |n: usize| [n as u8; 16];
        assert!((0..MOST_PARTS).all(|n| shelf.begin(&token(n))));
        assert!(!shelf.begin(&token(99)) && shelf.begin(&token(0)), "one that is there takes no room");
        shelf.finish(&token(0));
        assert!(shelf.is_finished(&token(0)) && shelf.begin(&token(99)));
        (100..100 + MOST_FINISHED).for_each(|n| shelf.finish(&token(n)));
        assert!(!shelf.is_finished(&token(0)));
    }

    #[test]
    fn a_slow_connection_gives_way() {
        let (shelf, start) = (Shelf::default(), Instant::now());
        let places: Vec<_> = (0..MOST_MOVING).map(|_| shelf.enter_at(start).unwrap()).collect();
        assert!(shelf.enter_at(start + SLOW / 2).is_none());
        places[0].moved();
        let later = start + SLOW;
        let next = shelf.enter_at(later).unwrap();
        assert!(!places[0].is_lost() && places[1].is_lost() && !next.is_lost());
        assert_eq!(shelf.moving(), MOST_MOVING);
        drop(places);
        assert_eq!(shelf.moving(), 1, "a lost place takes nobody else's");
    }

    #[test]
    fn a_part_is_removed_when_nobody_comes_again() {
        let (shelf, token) = (Shelf::default(), [1; 16]);
        assert!(!shelf.leave(&token, &|| Some(1), &|| true), "there is none");
        assert!(shelf.begin(&token) && shelf.begin(&token));
        assert!(!shelf.leave(&token, &|| Some(1), &|| true), "another one writes");
        assert!(shelf.leave(&token, &|| Some(1), &|| true));
        assert!(shelf.begin(&token));
        std::thread::scope(|scope| {
            let left = scope.spawn(|| shelf.leave(&token, &|| Some(1), &|| false));
            while shelf.lock().parts.get(&token) != Some(&0) {
                std::thread::yield_now();
            }
            assert!(shelf.begin(&token));
            assert!(!left.join().unwrap(), "another one has come");
        });
        assert!(!shelf.leave(&token, &|| None, &|| false), "another process has given it its name");
        assert!(shelf.begin(&token));
        shelf.cancel(&token);
        assert!(shelf.lock().parts.is_empty() && shelf.lock().waiting.is_empty());
    }
}
