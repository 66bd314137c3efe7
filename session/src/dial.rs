//! Dialling: by which transports a process is dialled, when, and what follows from the result.
//!
//! Part of the session. Invariants: all transports that may reach a process are tried, the best first, before it is
//! given up, unless it says itself that it has left: a refusal by one of them is not the last word. Of two processes that dial each other, one gives way.

use crate::action::Action;
use crate::action::AttemptId;
use crate::state::Session;
use crate::state::evidence::{Refusal, Verdict};
use crate::state::pair::{Agreed, Dial};
use crate::state::race::{Next, Race};
use base::{Memory, Time};
use engine::Gone;
use std::io;
use std::time::Duration;
use wire::frame::older;
use wire::lane::Lane;
use wire::{About, Hello, HelloAck, Move, Place, Scope, TransportId};

/// How long other transports are tried where one that passes on may reach the process too: a firewall may drop what they send. It
/// is longer than a lost SYN takes.
const BESIDE_PASSED: Duration = Duration::from_millis(1500);
/// How long our side waits for the other side's dial, when ours gives way.
pub(crate) const GIVE_WAY: Duration = Duration::from_millis(50);

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Advances the dial of a pair, or begins one if it needs a lane.
    pub(crate) fn tick_pair(&mut self, i: usize, now: Time) {
        if self.held.is_some() && !self.tells(i) {
            self.agenda.timed.remove(&i);
            return;
        }
        let is_dark = self.is_dark(i);
        let is_away = self.is_away(i, now);
        let pair = &self.pairs[i];
        if pair.caller.is_some()
            && let Some(_) = pair.lost()
            && !is_away
        {
            if !matches!(pair.dial, Dial::Resting(until) if now < until) {
                self.give_up(i, Gone::Dead, "it has not come again");
            }
            return;
        }
        let has_lane = pair.lane().is_some();
        let moves = pair.moves.underway.is_some();
        let needs =
            if has_lane { (is_dark || moves) && pair.gone().is_none() } else { pair.needs_lane() || pair.is_to_hear };
        if needs && self.lacks_record(i) {
            self.ask_for(i);
        }
        self.limit_move(i, now);
        let pair = &self.pairs[i];
        if !needs || !pair.can_dial() {
            if has_lane {
                // The lane works again.
                self.end_dial(i);
            }
            self.agenda.timed.remove(&i);
            return;
        }
        match pair.dial {
            Dial::Underway(_) => self.step_dial(i, now),
            Dial::Resting(until) if now < until => (),
            Dial::Resting(_) | Dial::Idle if self.is_coming(i) => (),
            Dial::Resting(_) | Dial::Idle if has_lane && !is_dark => self.step_move(i, now),
            Dial::Resting(_) | Dial::Idle => self.start_dial(i, now),
        }
    }

    /// Begins to dial by the best transport that may reach the process.
    fn start_dial(&mut self, i: usize, now: Time) {
        let Some(hello) = self.next_hello(i, None) else { return };
        let mut usable: Vec<_> = self.usable(i).collect();
        if self.pairs[i].moves.pinned.is_none() && self.is_passed(i, now) {
            // No other has reached its host.
            usable.sort_by_key(|transport| self.scope(*transport) != Some(Scope::Passed));
        }
        let untried = |about: &About| Some((about.title, self.why_not(i, about)?));
        let better =
            self.own.transports.iter().map(|(about, _)| about).take_while(|about| usable.first() != Some(&about.id));
        let without: String = better.filter_map(untried).map(|(title, why)| format!("; no {title}: {why}")).collect();
        if usable.is_empty() {
            let why = without.trim_start_matches("; ").to_owned();
            return self.dial_came_to_nothing(i, Verdict::None, false, &why, now);
        }
        self.race_for(i, hello, usable, without);
    }

    /// The HELLO of the next dial of a pair; `None`: our side cannot dial.
    pub(crate) fn next_hello(&self, i: usize, moves: Option<Move>) -> Option<Hello> {
        let pair = &self.pairs[i];
        let (Some(_), Some(cookie)) = (&pair.who.contact, pair.who.cookie) else { return None };
        let mut generation = pair.path.offered_generation();
        let seen = pair.evidence.seen_generation;
        if !older(seen, generation) {
            generation = seen.wrapping_add(1);
        }
        Some(Hello {
            source: pair.local(),
            dest: pair.remote(),
            cookie,
            process: self.own.process,
            generation,
            stripe: 0,
            received: pair.path.received(),
            moves,
        })
    }

    /// Begins to dial by the first of these transports. `without`: why better ones are not tried, for people.
    pub(crate) fn race_for(&mut self, i: usize, hello: Hello, mut transports: Vec<TransportId>, without: String) {
        transports.reverse();
        let Some(first) = transports.pop() else { return };
        let limit = self.limit_of(i, first);
        let mut race = Race::new(hello, self.pairs[i].known_process(), first, limit);
        (race.later, race.without) = (transports, without);
        self.enter_race(i, race);
    }

    /// How long one attempt by this transport to reach the process of a pair may take.
    fn limit_of(&self, i: usize, transport: TransportId) -> Duration {
        let about = self.own.transports.iter().find(|(about, _)| about.id == transport);
        let limit = Duration::from_millis(about.map_or(0, |(about, _)| about.limit));
        let is_passed = |transport| self.scope(transport) == Some(Scope::Passed);
        if !is_passed(transport) && self.usable(i).any(is_passed) { limit.min(BESIDE_PASSED) } else { limit }
    }

    /// Why a transport cannot reach the process of a pair, as far as that is known without a dial.
    pub(crate) fn why_not(&self, i: usize, about: &About) -> Option<&'static str> {
        let state = self.own.transports.iter().find(|(a, _)| a.id == about.id)?;
        if let Err(why) = state.1 {
            return Some(why);
        }
        let contact = self.pairs[i].who.contact.as_ref();
        match about.scope {
            Scope::Anywhere => None,
            Scope::Passed => match contact.map(|c| c.entry(about.id).is_some()) {
                Some(true) => None,
                _ => Some("the other side waits at none"),
            },
            Scope::Host => match contact.map(|c| (self.is_on_host(c), c.entry(about.id))) {
                None | Some((None, _)) => Some("the other side's host is not known"),
                Some((Some(false), _)) => Some("other host"),
                Some((Some(true), None)) => Some("the other side offers none"),
                Some((Some(true), Some(_))) => None,
            },
        }
    }

    /// For people: why each transport better than the one in use is not used.
    pub(crate) fn without(&self, i: usize, used: TransportId) -> String {
        let better = self.own.transports.iter().map(|(about, _)| about).take_while(|about| about.id != used);
        by_reason(better.filter_map(|about| Some((about.title, self.why_not(i, about)?))))
    }

    /// Begins to dial by the race's transport.
    fn enter_race(&mut self, i: usize, race: Race) {
        let pair = &mut self.pairs[i];
        let (transport, contact) = (race.transport, pair.who.contact.as_ref().expect("it can be dialled"));
        let (entry, process) = (contact.entry(transport).unwrap_or_default().to_vec(), contact.process);
        let worked = pair.evidence.worked.clone().filter(|place| place.transport == transport);
        let contact = contact.clone();
        pair.dial = Dial::Underway(Box::new(race));
        let same_host = self.is_on_host(&contact);
        self.act(Action::Resolve { pair: i, transport, entry, process, same_host, worked });
    }

    /// Reports where a transport dials the process of a pair, the best place first: the answer to [`Action::Resolve`].
    pub fn places(&mut self, i: usize, transport: TransportId, mut places: Vec<Place>, now: Time) {
        let pair = &self.pairs[i];
        let Dial::Underway(race) = &pair.dial else { return };
        if race.resolved || race.transport != transport {
            return;
        }
        // Places on hosts that were reached go first.
        if let Some(contact) = pair.contact()
            && self.is_on_host(contact) != Some(true)
        {
            let worked = pair.evidence.worked.as_ref();
            places.sort_by_key(|place| (Some(place) != worked, !self.hosts.is_proven(contact.host, place)));
        }
        let remote = pair.remote();
        base::log!(Debug, "dialling {remote} at {}", base::log::list(&places, "no address"));
        if let Dial::Underway(race) = &mut self.pairs[i].dial {
            race.set_places(places);
        }
        self.step_dial(i, now);
    }

    /// Carries out what the race of a pair decides.
    pub(crate) fn step_dial(&mut self, i: usize, now: Time) {
        let mut over = Vec::new();
        loop {
            let Dial::Underway(race) = &mut self.pairs[i].dial else { return };
            let next = race.step(now, &mut over);
            for attempt in over.drain(..) {
                self.abandon_attempt(attempt);
            }
            let Dial::Underway(race) = &mut self.pairs[i].dial else { return };
            match next {
                Next::Wait => return,
                Next::Lost => return self.race_lost(i, now),
                Next::Dial(place) => {
                    self.dials.last += 1;
                    let attempt = AttemptId(self.dials.last);
                    race.started(attempt, place.clone(), now);
                    let hello = Box::new(race.hello.clone());
                    self.dials.pairs.insert(attempt, i);
                    self.act(Action::Dial { attempt, pair: i, place, hello });
                }
            }
        }
    }

    fn abandon_attempt(&mut self, attempt: AttemptId) {
        self.dials.pairs.remove(&attempt);
        self.act(Action::Abandon { attempt });
    }

    // ---- results of attempts

    /// The pair of an attempt, and its race.
    fn race_of(&mut self, attempt: AttemptId) -> Option<(usize, &mut Race)> {
        let i = *self.dials.pairs.get(&attempt)?;
        match &mut self.pairs[i].dial {
            Dial::Underway(race) => Some((i, race)),
            _ => None,
        }
    }

    /// Reports that the HELLO of an attempt was sent. `heard`: the other host has given a sign since our side last sent
    /// something.
    pub fn dial_greeted(&mut self, attempt: AttemptId, heard: bool, now: Time) {
        if let Some((_, race)) = self.race_of(attempt) {
            race.on_greeted(attempt, heard, now);
        }
    }

    /// Reports the answer to an attempt. If a lane is to be made of it, returns what [`Session::attach`] needs of it. `None`:
    /// close it.
    pub fn dial_answered(&mut self, attempt: AttemptId, ack: &HelloAck, now: Time) -> Option<Agreed> {
        let (i, race) = self.race_of(attempt)?;
        if let Some(why) = Refusal::of_answer(ack, race.process) {
            self.on_refusal(i, attempt, why, now);
            return None;
        }
        let (place, moves) = (race.take(attempt)?, race.hello.moves);
        race.answered = true;
        self.dials.pairs.remove(&attempt);
        self.pairs[i].know_process(ack.process);
        self.prove(i, &place);
        Some(Agreed { pair: i, generation: ack.generation, received: ack.received, moves })
    }

    /// Reports that an attempt has failed, and the error.
    pub fn dial_failed(&mut self, attempt: AttemptId, why: &io::Error, now: Time) {
        if let Some((i, _)) = self.race_of(attempt) {
            self.on_refusal(i, attempt, Refusal::of_error(why), now);
        }
    }

    /// Reports that no lane could be made of a good answer to a dial of pair `i`.
    pub fn lane_not_made(&mut self, i: usize, why: &io::Error, now: Time) {
        base::log!(Info, "no lane to {}: {why}", self.pairs[i].remote());
        self.race_lost(i, now);
    }

    /// An attempt was refused, or has failed.
    fn on_refusal(&mut self, i: usize, attempt: AttemptId, why: Refusal, now: Time) {
        self.dials.pairs.remove(&attempt);
        let mut over = Vec::new();
        let Dial::Underway(race) = &mut self.pairs[i].dial else { return };
        let place = race.on_failed(attempt, why.clone(), now, &mut over);
        over.into_iter().for_each(|attempt| self.abandon_attempt(attempt));
        if place.is_some_and(|place| self.is_last_word(i, &place, &why)) {
            self.race_lost(i, now);
        } else {
            self.step_dial(i, now);
        }
    }

    /// All places have failed, or one has said the last word: tries the next transport, or weighs the evidence.
    fn race_lost(&mut self, i: usize, now: Time) {
        let Dial::Underway(race) = std::mem::replace(&mut self.pairs[i].dial, Dial::Idle) else { return };
        let mut race = *race;
        let said = race.describe();
        for attempt in race.end() {
            self.abandon_attempt(attempt);
        }
        let failed = std::mem::take(&mut race.failed);
        base::log!(Debug, "{}: {said}", self.pairs[i].remote());
        let theirs = failed.iter().find_map(|(_, why)| match why {
            Refusal::Better(generation) => Some(*generation),
            _ => None,
        });
        if race.hello.moves.is_some() {
            let failed: Vec<_> = failed.into_iter().map(|(_, why)| why).collect();
            return self.move_failed(i, theirs, &failed, now);
        }
        let about = self.own.transports.iter().find(|(about, _)| about.id == race.transport).map(|(about, _)| *about);
        let on_host = about.is_some_and(|about| about.scope == Scope::Host);
        let evidence = &mut self.pairs[i].evidence;
        evidence.other_version = failed.iter().find_map(|(_, why)| match why {
            Refusal::OtherVersion(v) => Some(*v),
            _ => None,
        });
        evidence.untrusted = failed.iter().find_map(|(_, why)| match why {
            Refusal::Untrusted(why) => Some(why.clone()),
            _ => None,
        });
        if on_host {
            evidence.not_on_host = failed.iter().any(|(_, why)| *why == Refusal::Refused);
        }
        if let Some(generation) = theirs {
            return self.yield_to(i, generation, now);
        }
        let is_decided = self.is_decided(i, &failed);
        let why = failed.last().map_or("refused".into(), |(_, why)| format!("refused: {why}"));
        race.before.extend(failed);
        if !is_decided && let Some(transport) = race.later.pop() {
            let limit = self.limit_of(i, transport);
            let mut next = Race::new(race.hello, race.process, transport, limit);
            next.without = race.without + &about.map_or(String::new(), |about| format!("; no {}: {why}", about.title));
            (next.later, next.before, next.answered) = (race.later, race.before, race.answered);
            return self.enter_race(i, next);
        }
        let failed = race.before;
        let verdict = if race.answered { Verdict::None } else { self.weigh(i, &failed) };
        let said = base::log::list(failed.iter().map(|(place, why)| format!("{place} {why}")), &said);
        let left = failed.iter().any(|(_, why)| *why == Refusal::NoMember);
        self.dial_came_to_nothing(i, verdict, left, &said, now);
    }

    /// Gives way to the other side's dial, which has used generations up to this.
    fn yield_to(&mut self, i: usize, generation: u16, now: Time) {
        let pair = &mut self.pairs[i];
        pair.evidence.tries = pair.evidence.tries.saturating_add(1);
        pair.evidence.seen_generation = generation;
        pair.evidence.refused = None;
        pair.dial = Dial::Resting(now + pair.rest().max(GIVE_WAY));
    }

    /// Ends a dial that is under way, or a rest.
    pub(crate) fn end_dial(&mut self, i: usize) {
        if let Dial::Underway(mut race) = std::mem::replace(&mut self.pairs[i].dial, Dial::Idle) {
            for attempt in race.end() {
                self.abandon_attempt(attempt);
            }
        }
    }

    // ---- for people

    /// Why a pair has no lane, for people: the state of each place, or why the last dial failed. `None`: it has one.
    pub fn describe_trouble(&self, i: usize) -> Option<String> {
        let pair = &self.pairs[i];
        if pair.lane().is_some() {
            return None;
        }
        if self.held.is_some() {
            return Some("this process is held".into());
        }
        if pair.is_away() {
            return Some("it is held, and comes back by itself".into());
        }
        if self.lacks_record(i) {
            return Some("its contact record is asked for".into());
        }
        Some(match &pair.dial {
            Dial::Underway(race) => race.describe(),
            _ => pair.evidence.trouble.clone(),
        })
    }
}

/// Transports, for people, that have the same reason stand together.
fn by_reason<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (title, why) in all {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, titles)) => titles.push(title),
            None => reasons.push((why, vec![title])),
        }
    }
    reasons.iter().map(|(why, titles)| format!("; no {}: {why}", titles.join(", no "))).collect()
}

#[cfg(test)]
mod tests {
    use super::by_reason;

    #[test]
    fn a_reason_is_said_once() {
        let all = [("shared memory", "other host"), ("verbs", "not here"), ("router", "not here")];
        assert_eq!(by_reason(all.into_iter()), "; no shared memory: other host; no verbs, no router: not here");
        assert_eq!(by_reason([].into_iter()), "");
    }
}
