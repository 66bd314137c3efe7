//! Which connections of operators are served, which wait, and which give way. Pure; the desk has it under its lock.
//!
//! Invariants: one asker never has all places, neither of those that are served nor of those that wait; who comes beside others that
//! have more is served soon, since the oldest of who has most gives way.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use transports::control::Asker;

/// Connections that are served at a time, and those of one asker.
const MOST_SERVED: usize = 16;
const MOST_EACH: usize = 4;
/// Those that wait for their turn, and those of one asker. Whoever comes beyond is sent away.
const MOST_WAITING: usize = 64;
const MOST_WAITING_EACH: usize = 16;
/// How long one is served at least while others wait: all that is asked takes less, but for what waits for processes.
const GRACE: Duration = Duration::from_secs(1);
/// The same for one whose request has not come: it was written when the proof ended.
const GRACE_SILENT: Duration = Duration::from_millis(250);

/// The number of a visit.
pub(crate) type Ticket = u64;

struct Served {
    ticket: Ticket,
    asker: Asker,
    since: Instant,
    has_asked: bool,
}

impl Served {
    fn has_had_grace(&self, now: Instant) -> bool {
        let grace = if self.has_asked { GRACE } else { GRACE_SILENT };
        now.saturating_duration_since(self.since) >= grace
    }
}

/// All of them; `S` is a connection.
pub(super) struct Visitors<S> {
    serving: Vec<Served>,
    waiting: VecDeque<(Asker, S)>,
    last: Ticket,
}

impl<S> Default for Visitors<S> {
    fn default() -> Visitors<S> {
        Visitors { serving: Vec::new(), waiting: VecDeque::new(), last: 0 }
    }
}

/// How many are of the same host, and of the same process.
pub(super) fn count<'a>(all: impl Iterator<Item = &'a Asker> + Clone, of: &Asker) -> (usize, usize) {
    (all.clone().filter(|one| one.host() == of.host()).count(), all.filter(|one| one.process == of.process).count())
}

impl<S> Visitors<S> {
    /// One has come. It is returned if it is to be served at once.
    pub fn arrive(&mut self, asker: Asker, stream: S, now: Instant) -> Option<(Ticket, S)> {
        if self.serving.len() < MOST_SERVED && self.served(&asker).1 < MOST_EACH {
            return Some((self.begin(asker, now), stream));
        }
        let waiting = |of: &Asker| count(self.waiting.iter().map(|(asker, _)| asker), of);
        let own = waiting(&asker);
        if own.1 >= MOST_WAITING_EACH {
            return None;
        }
        if self.waiting.len() >= MOST_WAITING {
            let all = self.waiting.iter().enumerate().map(|(at, (asker, _))| (waiting(asker), usize::MAX - at));
            let (most, at) = all.max()?;
            if most <= own {
                return None;
            }
            self.waiting.remove(usize::MAX - at);
        }
        self.waiting.push_back((asker, stream));
        None
    }

    fn begin(&mut self, asker: Asker, since: Instant) -> Ticket {
        self.last += 1;
        self.serving.push(Served { ticket: self.last, asker, since, has_asked: false });
        self.last
    }

    /// The request of this visit has come.
    pub fn has_asked(&mut self, ticket: Ticket) {
        self.serving.iter_mut().filter(|one| one.ticket == ticket).for_each(|one| one.has_asked = true);
    }

    fn served(&self, of: &Asker) -> (usize, usize) {
        count(self.serving.iter().map(|one| &one.asker), of)
    }

    /// A visit is over. Returns the next one: of those that wait, the first of who has least. `None`: its thread ends.
    pub fn next(&mut self, over: Ticket, now: Instant) -> Option<(Ticket, S)> {
        self.serving.retain(|one| one.ticket != over);
        let served = |at: usize| self.served(&self.waiting[at].0);
        let at = (0..self.waiting.len()).filter(|at| served(*at).1 < MOST_EACH).min_by_key(|at| served(*at))?;
        let (asker, stream) = self.waiting.remove(at)?;
        Some((self.begin(asker, now), stream))
    }

    /// Whether this visit is to end, since another one waits for its place that has less.
    pub fn has_to_yield(&self, ticket: Ticket, now: Instant) -> bool {
        if self.serving.len() < MOST_SERVED || self.waiting.is_empty() {
            return false;
        }
        let long = self.serving.iter().filter(|one| one.has_had_grace(now));
        let Some(most) = long.max_by_key(|one| (self.served(&one.asker), u64::MAX - one.ticket)) else { return false };
        let has_less = |asker: &Asker| self.served(asker).1 < self.served(&most.asker).1;
        most.ticket == ticket && self.waiting.iter().any(|(asker, _)| has_less(asker))
    }

    /// Nobody waits any more.
    pub fn send_away(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(process: u8, host: u8) -> Asker {
        Asker { process: [process; 16], from: Some([10, 0, 0, host].into()) }
    }

    #[test]
    fn one_never_has_all_places() {
        let (mut all, now) = (Visitors::default(), Instant::now());
        let served = (0..100).filter(|n| all.arrive(asker(1, 1), *n, now).is_some()).count();
        assert_eq!((served, all.waiting.len()), (MOST_EACH, MOST_WAITING_EACH));
        assert!(all.arrive(asker(2, 1), 200, now).is_some());
        // The next one of whom there are many is served when one of its own is over.
        assert_eq!(all.next(MOST_EACH as u64 + 1, now), None);
        assert_eq!(all.next(1, now).map(|(_, n)| n), Some(MOST_EACH as i32));
    }

    #[test]
    fn the_oldest_of_who_has_most_gives_way() {
        let (mut all, now) = (Visitors::default(), Instant::now());
        for n in 0..MOST_SERVED {
            assert!(all.arrive(asker((n / 2) as u8 + 10, 1), n, now).is_some());
            all.has_asked(n as u64 + 1);
        }
        let later = now + GRACE;
        assert!((1..=16).all(|ticket| !all.has_to_yield(ticket, later)), "nobody waits");
        assert!(all.arrive(asker(1, 2), 99, later).is_none());
        assert!(!all.has_to_yield(1, now), "not at once");
        assert_eq!((1..=16).filter(|ticket| all.has_to_yield(*ticket, later)).collect::<Vec<_>>(), [1]);
        // Another one of the same host waits, too; the host that has less comes first.
        for n in 0..MOST_WAITING {
            assert!(all.arrive(asker(n as u8 + 100, 1), 1000 + n, later).is_none());
        }
        assert_eq!(all.waiting.len(), MOST_WAITING);
        assert!(all.arrive(asker(2, 2), 98, later).is_none());
        assert!(all.waiting.iter().any(|(_, n)| *n == 98) && !all.waiting.iter().any(|(_, n)| *n == 1000));
        assert_eq!(all.next(1, later).map(|(_, n)| n), Some(99));
        assert_eq!(all.next(2, later).map(|(_, n)| n), Some(98));
    }

    #[test]
    fn one_that_says_nothing_gives_way_sooner() {
        let (mut all, now) = (Visitors::default(), Instant::now());
        for n in 0..MOST_SERVED {
            assert!(all.arrive(asker(n as u8 + 10, 1), n, now).is_some());
        }
        (1..16).for_each(|ticket| all.has_asked(ticket));
        assert!(all.arrive(asker(1, 2), 99, now).is_none());
        let yields = |after| (1..=16).filter(|ticket| all.has_to_yield(*ticket, now + after)).collect::<Vec<_>>();
        assert_eq!((yields(Duration::ZERO), yields(GRACE_SILENT), yields(GRACE)), (vec![], vec![16], vec![1]));
    }
}
