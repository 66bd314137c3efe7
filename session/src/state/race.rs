//! All places of one process, dialled by one transport: the first that answers well wins.
//!
//! Pure; `dial` carries its orders out. Invariant: a place that answers wrongly rules out itself only, since a private
//! address may mean another host here than there.

use crate::action::AttemptId;
use crate::state::evidence::Refusal;
use base::Time;
use std::time::Duration;
use wire::{Hello, Place, TransportId};

/// A place that has not answered after this long gets company; after less where several are silent already.
const STAGGER: Duration = Duration::from_millis(50);
const STAGGER_MANY: Duration = Duration::from_millis(10);
const MANY: usize = 4;
/// While others are awaited, one that was refused is tried again after this long: a link may have come back.
const AGAIN: Duration = Duration::from_secs(1);
/// The kernel asks a silent address again at ever longer intervals. After so long another attempt goes beside the first, and
/// is made anew as often, so that a link that comes back is found within a second.
const SCOUT: Duration = Duration::from_secs(2);

pub(crate) struct Race {
    pub hello: Hello,
    /// Who must answer.
    pub process: Option<[u8; 16]>,
    pub transport: TransportId,
    /// Transports to be tried after this one, the next one last.
    pub later: Vec<TransportId>,
    /// Why better transports are not used, for people.
    pub without: String,
    limit: Duration,
    /// Where to dial is known.
    pub resolved: bool,
    /// Not yet tried, the next one last.
    waiting: Vec<Place>,
    running: Vec<Try>,
    last_start: Option<Time>,
    last_scout: Option<Time>,
    /// What the places that lost said.
    pub failed: Vec<(Place, Refusal)>,
    /// Those of them that are worth another try, and since when they have failed.
    again: Vec<(Place, Time)>,
}

/// One attempt that is under way.
struct Try {
    id: AttemptId,
    place: Place,
    since: Time,
    greeted: Option<Time>,
    /// The host has given a sign since it was last told something.
    heard: bool,
}

/// What a race wants.
pub(crate) enum Next {
    Wait,
    /// Dial there, and say [`Race::started`].
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

    /// Where to dial, the best first.
    pub fn set_places(&mut self, mut places: Vec<Place>) {
        places.reverse();
        self.waiting = places;
        self.resolved = true;
    }

    /// Whether a HELLO of ours is out, sent less than `limit` ago.
    pub fn has_greeted(&self, limit: Duration, now: Time) -> bool {
        self.running.iter().any(|t| t.greeted.is_some_and(|at| now.since(at) < limit))
    }

    /// All attempts end.
    pub fn end(&mut self) -> impl Iterator<Item = AttemptId> {
        std::mem::take(&mut self.running).into_iter().map(|t| t.id)
    }

    /// What to do now; `over` takes attempts that are wanted no more.
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

    pub fn started(&mut self, id: AttemptId, place: Place, now: Time) {
        self.running.push(Try { id, place, since: now, greeted: None, heard: false });
    }

    /// An attempt's HELLO has left; `heard`: the host has given a sign since.
    pub fn on_greeted(&mut self, id: AttemptId, heard: bool, now: Time) {
        if let Some(t) = self.running.iter_mut().find(|t| t.id == id) {
            t.greeted.get_or_insert(now);
            t.heard = heard;
        }
    }

    /// An attempt is over: where it was.
    pub fn take(&mut self, id: AttemptId) -> Option<Place> {
        let at = self.running.iter().position(|t| t.id == id)?;
        Some(self.running.remove(at).place)
    }

    /// An attempt has failed. Where, if that is told of its place.
    pub fn on_failed(&mut self, id: AttemptId, why: Refusal, now: Time, over: &mut Vec<AttemptId>) -> Option<Place> {
        let place = self.take(id)?;
        if why == Refusal::TimedOut && self.running.iter().any(|t| t.place == place && t.heard) {
            return None;
        }
        // What holds for one attempt at a place holds for the other.
        over.extend(self.running.extract_if(.., |t| t.place == place).map(|t| t.id));
        if why.may_pass() {
            self.again.push((place.clone(), now));
        }
        self.failed.push((place.clone(), why));
        // The next place need not wait.
        self.last_start = None;
        Some(place)
    }

    /// Sends another attempt to each place that has been silent for a while, instead of the last one.
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
                // The first stands for the place: what comes of it is told.
                let place = place.clone();
                over.extend(last.map(|k| self.running.remove(k).id));
                self.last_scout = Some(now);
                return Some(place);
            }
        }
        None
    }

    /// As long as somebody may still answer, the others are not given up.
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

    /// How it stands with each place, for people.
    pub fn describe(&self) -> String {
        let failed = self.failed.iter().map(|(place, why)| format!("{place} {why}"));
        let first = |k: usize| self.running[..k].iter().all(|t| t.place != self.running[k].place);
        let running = (0..self.running.len()).filter(|&k| first(k)).map(|k| &self.running[k]);
        let running = running.map(|t| format!("{} no answer yet", t.place));
        let waiting = self.waiting.iter().map(|place| format!("{place} not tried yet"));
        base::log::list(failed.chain(running).chain(waiting), "it has told no address at which it listens")
    }
}
