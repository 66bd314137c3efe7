//! What is known of a pair's moves from one transport to another.

use base::Time;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use wire::{TransportId, Why};

/// How long a transport that has failed is left alone at first; after each failure twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
/// The longest such rest.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// The moves of one pair. Memory is taken when something of them is first noted: most pairs never have a lane that they should leave.
#[derive(Default)]
pub(crate) struct Moves(Option<Box<Noted>>);

impl Moves {
    /// No move is under way or awaited any more. Nothing is noted of a pair that never moved.
    pub(crate) fn end(&mut self) {
        if let Some(noted) = &mut self.0 {
            (noted.underway, noted.unanswered, noted.trouble) = (None, None, None);
        }
    }

    /// The pair has a lane of the transport that it should use. Of one that never had another there is nothing to note.
    pub(crate) fn arrived(&mut self, now: Time) {
        if let Some(noted) = &mut self.0 {
            noted.again.arrived(now);
        }
    }

    /// An operator wants this transport, and has said so to this side (`here`) or to the other.
    pub(crate) fn order(&mut self, transport: Option<TransportId>, here: bool) {
        (self.pinned, self.pinned_here) = (transport, here);
    }

    /// Whether an operator has ordered this transport here.
    pub(crate) fn is_ordered_here(&self, transport: TransportId) -> bool {
        self.pinned == Some(transport) && self.pinned_here
    }

    /// The other side has dialled over this transport. If its operator once ordered another one, that is over.
    pub(crate) fn other_has_chosen(&mut self, transport: TransportId) {
        if self.pinned.is_some_and(|pinned| pinned != transport) && !self.pinned_here {
            self.pinned = None;
        }
    }
}

impl Deref for Moves {
    type Target = Noted;

    fn deref(&self) -> &Noted {
        const NOTHING: &Noted = &Noted::NOTHING;
        self.0.as_deref().unwrap_or(NOTHING)
    }
}

impl DerefMut for Moves {
    fn deref_mut(&mut self) -> &mut Noted {
        self.0.get_or_insert_with(|| Box::new(Noted::NOTHING))
    }
}

/// What is noted of them.
pub(crate) struct Noted {
    /// The transport that an operator wants.
    pub pinned: Option<TransportId>,
    /// The operator has said so here, and not to the other side, whose order this one has learned by a move.
    pub pinned_here: bool,
    /// The move that is under way.
    pub underway: Option<Moving>,
    /// Why the last one has failed.
    pub trouble: Option<Box<str>>,
    /// The process has not answered the last one, which had this reason: the pair moves when it answers.
    pub unanswered: Option<Why>,
    pub again: Again,
}

impl Noted {
    const NOTHING: Noted = Noted {
        pinned: None,
        pinned_here: false,
        underway: None,
        trouble: None,
        unanswered: None,
        again: Again { rest: Duration::ZERO, next: None, since: None },
    };
}

/// A move that is under way.
#[derive(Clone, Copy)]
pub(crate) struct Moving {
    pub to: TransportId,
    pub why: Why,
    pub until: Time,
    /// What was ordered before, and whether here, if the move is by a new order: one that is refused is withdrawn.
    pub instead: Option<(Option<TransportId>, bool)>,
}

/// When the transport that a pair should use is tried again.
#[derive(Clone, Default)]
pub(crate) struct Again {
    /// How long it is left alone; zero: it has not failed yet.
    rest: Duration,
    /// When it may be tried again; `None`: the pair uses it.
    next: Option<Time>,
    /// Since when the pair uses it.
    since: Option<Time>,
}

impl Again {
    /// The pair uses the transport that it should use.
    pub fn arrived(&mut self, now: Time) {
        (self.next, self.since) = (None, self.since.or(Some(now)));
    }

    /// The pair has a lane of another transport.
    pub fn left(&mut self, now: Time) {
        let lived = self.since.take().map(|since| now.since(since));
        if lived.is_some_and(|lived| lived >= 4 * self.rest) {
            self.rest = Duration::ZERO;
        } else if lived.is_some() {
            // It did not last: the next try comes later.
            self.rest *= 2;
        }
        self.rest = self.rest.clamp(FIRST_REST, LONGEST_REST);
        self.next.get_or_insert(now + self.rest);
    }

    /// A try has failed.
    pub fn failed(&mut self, now: Time) {
        self.rest = (2 * self.rest).clamp(FIRST_REST, LONGEST_REST);
        self.next = Some(now + self.rest);
    }

    /// Something has changed: it may be tried at once.
    pub fn soon(&mut self) {
        self.next = Some(Time::default());
    }

    pub fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|next| now >= next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    /// The first second at which a try is due.
    fn due(again: &Again, from: u64) -> u64 {
        (from..from + 10_000).find(|s| again.is_due(at(*s))).expect("it comes")
    }

    #[test]
    fn a_transport_that_fails_is_tried_less_and_less() {
        let mut again = Again::default();
        again.left(at(0));
        let mut tries = vec![due(&again, 0)];
        for _ in 0..8 {
            let last = tries[tries.len() - 1];
            again.failed(at(last));
            tries.push(due(&again, last));
        }
        let rests: Vec<u64> = tries.windows(2).map(|t| t[1] - t[0]).collect();
        assert_eq!((tries[0], rests), (10, vec![20, 40, 80, 160, 320, 600, 600, 600]));
    }

    #[test]
    fn a_transport_that_does_not_last_is_tried_less_and_less_too() {
        let mut again = Again::default();
        let (mut now, mut rests) = (0, Vec::new());
        for _ in 0..4 {
            again.arrived(at(now));
            now += 1;
            again.left(at(now));
            rests.push(due(&again, now) - now);
            now = due(&again, now);
        }
        assert_eq!(rests, [10, 20, 40, 80]);
        again.arrived(at(now));
        assert!(!again.is_due(at(now + 1_000)));
        again.left(at(now + 1_000));
        assert_eq!(due(&again, now), now + 1_010, "it had lasted");
    }
}
