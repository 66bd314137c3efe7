//! A race: all places of one process, dialled by one transport with staggered starts. The first good answer wins (compare
//! RFC 8305).
//!
//! Pure; `dial` carries out what it decides. Invariant: a wrong answer at a place rules out this place only, since a
//! private address may lead to another host here than there.

use crate::action::AttemptId;
use crate::state::evidence::Refusal;
use base::Time;
use std::time::Duration;
use wire::{Hello, Place, TransportId};

/// After this long without an answer the next place is dialled too; after the shorter time if [`MANY`] are silent already.
const STAGGER: Duration = Duration::from_millis(50);
const STAGGER_MANY: Duration = Duration::from_millis(10);
const MANY: usize = 4;
/// A place that has refused is tried again after this long, while others are still silent: a link may have come back.
const AGAIN: Duration = Duration::from_secs(1);
/// TCP repeats its SYN to a silent address at ever longer intervals. After this long, a second attempt goes beside the
/// first, and is made anew as often, so that a link that comes back is soon noticed.
const SCOUT: Duration = Duration::from_secs(2);

/// The state of one race. Its fields are one thing: the places of one process, sorted by how far each has come.
pub(crate) struct Race {
    /// The HELLO of all attempts.
    pub hello: Hello,
    /// The process that must answer, if it is known.
    pub process: Option<[u8; 16]>,
    pub transport: TransportId,
    /// The transports to try after this one, the next one last.
    pub later: Vec<TransportId>,
    /// The places of transports that have failed before this one, with the reasons.
    pub before: Vec<(Place, Refusal)>,
    /// The process has answered well, by this transport or one before it, though no lane came of it.
    pub answered: bool,
    /// Why better transports are not used, for people.
    pub without: String,
    /// How long one attempt may take.
    limit: Duration,
    /// The places are known.
    pub resolved: bool,
    /// Places that are not tried yet, the next one last.
    waiting: Vec<Place>,
    /// Attempts under way.
    running: Vec<Try>,
    /// When the last place was dialled; `None`: the next may be dialled at once.
    last_start: Option<Time>,
    /// When the last second attempt was made.
    last_scout: Option<Time>,
    /// Places that have failed, with the reason.
    pub failed: Vec<(Place, Refusal)>,
    /// The failed places that are worth another try, and when they failed.
    again: Vec<(Place, Time)>,
}

/// One attempt that is under way.
struct Try {
    id: AttemptId,
    place: Place,
    since: Time,
    /// When its HELLO left.
    greeted: Option<Time>,
    /// The other host has given a sign since our side last sent something.
    heard: bool,
}

/// What a race decides to do next.
pub(crate) enum Next {
    Wait,
    /// Dial this place, and report it to [`Race::started`].
    Dial(Place),
    /// Every place has failed.
    Lost,
}

impl Race {
    pub fn new(hello: Hello, process: Option<[u8; 16]>, transport: TransportId, limit: Duration) -> Race {
        Race {
            hello,
            process,
            transport,
            later: Vec::new(),
            before: Vec::new(),
            answered: false,
            without: String::new(),
            limit,
            resolved: false,
            waiting: Vec::new(),
            running: Vec::new(),
            last_start: None,
            last_scout: None,
            failed: Vec::new(),
            again: Vec::new(),
        }
    }

    /// Sets the places to dial, the best first.
    pub fn set_places(&mut self, mut places: Vec<Place>) {
        places.reverse();
        self.waiting = places;
        self.resolved = true;
    }

    /// Whether a HELLO of ours is out, sent less than `limit` ago.
    pub fn has_greeted(&self, limit: Duration, now: Time) -> bool {
        self.running.iter().any(|t| t.greeted.is_some_and(|at| now.since(at) < limit))
    }

    /// Ends the race; returns the attempts that were under way.
    pub fn end(&mut self) -> impl Iterator<Item = AttemptId> {
        std::mem::take(&mut self.running).into_iter().map(|t| t.id)
    }

    /// Decides what to do now. Attempts that are not needed any more are added to `over`.
    pub fn step(&mut self, now: Time, over: &mut Vec<AttemptId>) -> Next {
        if !self.resolved {
            return Next::Wait;
        }
        while let Some(at) = self.running.iter().position(|t| now.since(t.since) >= self.limit) {
            let id = self.running[at].id;
            over.push(id);
            self.on_failed(id, Refusal::TimedOut, now, over);
        }
        if let Some(place) = self.scout(now, over) {
            return Next::Dial(place);
        }
        let stagger = if self.running.len() < MANY { STAGGER } else { STAGGER_MANY };
        if self.last_start.is_some_and(|t| now.since(t) < stagger) {
            return Next::Wait;
        }
        self.try_again(now);
        match self.waiting.pop() {
            Some(place) => {
                self.last_start = Some(now);
                Next::Dial(place)
            }
            None if self.running.is_empty() => Next::Lost,
            None => Next::Wait,
        }
    }

    /// An attempt at this place has begun.
    pub fn started(&mut self, id: AttemptId, place: Place, now: Time) {
        self.running.push(Try { id, place, since: now, greeted: None, heard: false });
    }

    /// An attempt's HELLO has left. `heard`: the other host has given a sign since.
    pub fn on_greeted(&mut self, id: AttemptId, heard: bool, now: Time) {
        if let Some(t) = self.running.iter_mut().find(|t| t.id == id) {
            t.greeted.get_or_insert(now);
            t.heard = heard;
        }
    }

    /// Removes an attempt that is over; returns its place.
    pub fn take(&mut self, id: AttemptId) -> Option<Place> {
        let at = self.running.iter().position(|t| t.id == id)?;
        Some(self.running.remove(at).place)
    }

    /// An attempt has failed. Returns its place if the failure counts for the place, not for this attempt alone.
    pub fn on_failed(&mut self, id: AttemptId, why: Refusal, now: Time, over: &mut Vec<AttemptId>) -> Option<Place> {
        let place = self.take(id)?;
        if why == Refusal::TimedOut && self.running.iter().any(|t| t.place == place && t.heard) {
            return None;
        }
        // A failure at a place counts for all attempts there.
        over.extend(self.running.extract_if(.., |t| t.place == place).map(|t| t.id));
        if why.may_pass() {
            self.again.push((place.clone(), now));
        }
        self.failed.push((place.clone(), why));
        // The next place need not wait.
        self.last_start = None;
        Some(place)
    }

    /// Makes a second attempt at a place that has been silent for [`SCOUT`], in place of an earlier second one.
    fn scout(&mut self, now: Time, over: &mut Vec<AttemptId>) -> Option<Place> {
        if self.last_scout.is_some_and(|t| now.since(t) < STAGGER) {
            return None;
        }
        let is_old = |t: &Try| now.since(t.since) >= SCOUT && !t.heard;
        for at in 0..self.running.len() {
            let place = &self.running[at].place;
            let is_first = self.running[..at].iter().all(|t| t.place != *place);
            if !is_first || !is_old(&self.running[at]) {
                continue;
            }
            let last = (at + 1..self.running.len()).find(|&k| self.running[k].place == *place);
            if last.is_none_or(|k| is_old(&self.running[k])) {
                // The first attempt stays, since its failure counts for the place.
                let place = place.clone();
                over.extend(last.map(|k| self.running.remove(k).id));
                self.last_scout = Some(now);
                return Some(place);
            }
        }
        None
    }

    /// Puts failed places back in the queue, as long as another place may still answer.
    fn try_again(&mut self, now: Time) {
        if self.running.is_empty() {
            return;
        }
        let (failed, waiting) = (&mut self.failed, &mut self.waiting);
        self.again.retain(|(place, since)| {
            let rests = now.since(*since) < AGAIN;
            if !rests {
                failed.retain(|(p, _)| p != place);
                waiting.insert(0, place.clone());
            }
            rests
        });
    }

    /// The state of each place, for people.
    pub fn describe(&self) -> String {
        let failed = self.failed.iter().map(|(place, why)| format!("{place} {why}"));
        let first = |k: usize| self.running[..k].iter().all(|t| t.place != self.running[k].place);
        let running = (0..self.running.len()).filter(|&k| first(k)).map(|k| &self.running[k]);
        let running = running.map(|t| format!("{} no answer yet", t.place));
        let waiting = self.waiting.iter().map(|place| format!("{place} not tried yet"));
        base::log::list(failed.chain(running).chain(waiting), "it has told no address at which it listens")
    }
}
