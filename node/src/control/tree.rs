//! The processes to which a command is passed on: some are reached from here, and each of these passes it on to its part.
//!
//! Runs in a thread that serves an operator. A process that is dead, or does not answer, does not keep the command from those behind
//! it: they are reached from here. Invariant: each process has one outcome, whatever others answer.

use super::desk::{Desk, SLICE};
use super::late;
use super::visit::Visit;
use crate::shared::Shared;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transports::control::{ControlStream, sleep};
use transports::registry::{Commanding, Heard, Unheard, command};
use trust::Trust;
use wire::control::{Addressee, Answer, JobSecret, MAX_ANSWER, Member, Outcome, Request, What};

/// The processes that are reached from one.
const FAN_OUT: usize = 8;
/// The most connections at a time, with those to processes behind one that does not answer.
const MOST_AT_ONCE: usize = 32;
/// How long a process may take to prove itself: one that runs needs milliseconds. Less if the operator waits for less.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The part of the time that is left for the answer to come back up.
const MARGIN: Duration = Duration::from_millis(300);
/// How long to rest before a process that sent us away is dialled again.
const REST: Duration = Duration::from_millis(20);

/// What is needed to reach the members of a group.
pub(crate) struct Reach<'a> {
    desk: &'a Arc<Desk>,
    trust: Arc<Trust>,
    host: [u8; 16],
    incarnation: u64,
    secret: JobSecret,
    /// For whom.
    visit: &'a Visit<'a>,
}

impl<'a> Reach<'a> {
    pub(crate) fn new(shared: &Shared, desk: &'a Arc<Desk>, job: (u64, JobSecret), visit: &'a Visit<'a>) -> Reach<'a> {
        let core = shared.lock();
        let (incarnation, secret) = job;
        Reach { desk, trust: core.trust.clone(), host: core.session.own().host, incarnation, secret, visit }
    }

    fn addressee(&self, rank: u32) -> Addressee {
        Addressee::Passed(self.incarnation, rank, self.secret)
    }
}

/// A process that is being reached.
struct Child {
    member: Member,
    /// The processes to which it passes the command on.
    below: Vec<Member>,
    since: Instant,
    state: State,
    /// The length of its answer is known, and there is room for it.
    is_announced: bool,
}

enum State {
    Dialling(Commanding),
    /// It is dialled again at this moment.
    Resting(Instant),
    Asked(ControlStream),
}

/// What has become of a child.
enum Step {
    NotYet,
    /// It has answered for itself and for those below.
    Answered(Vec<Outcome>),
    /// It has this outcome, and those below are to be reached without it. `again`: it may obey later.
    Lost(What, bool),
}

/// In parts of equal size: the first of each is reached from here.
fn parts(members: Vec<Member>) -> Vec<Vec<Member>> {
    let each = members.len().div_ceil(FAN_OUT).max(1);
    let mut parts: Vec<Vec<Member>> = Vec::new();
    for member in members {
        match parts.last_mut() {
            Some(part) if part.len() < each => part.push(member),
            _ => parts.push(vec![member]),
        }
    }
    parts
}

/// Passes a command on to these members, and returns the outcome of each. `also` does what is to be done here, in steps; its
/// result is whether that is over.
pub(crate) fn reach(
    reach: &Reach<'_>,
    request: &Request,
    members: Vec<Member>,
    also: &mut dyn FnMut() -> bool,
) -> Vec<Outcome> {
    let until = reach.visit.until();
    let patience = PATIENCE.min(until.saturating_duration_since(Instant::now()) / 2);
    let mut outcomes: BTreeMap<u32, What> = BTreeMap::new();
    let contacts: BTreeMap<u32, Member> = members.iter().map(|member| (member.rank, member.clone())).collect();
    let mut waiting: VecDeque<Vec<Member>> = parts(members).into();
    let mut children: Vec<Child> = Vec::new();
    let mut later: Vec<u32> = Vec::new();
    let mut own_done = false;
    loop {
        own_done = own_done || also();
        while children.len() < MOST_AT_ONCE
            && let Some(mut part) = waiting.pop_front()
        {
            let member = part.remove(0);
            if reach.desk.is_late((reach.incarnation, member.rank)) {
                // It comes behind the commands that wait for it already.
                later.push(member.rank);
                outcomes.insert(member.rank, What::NotAnswering);
                waiting.extend(parts(part));
                continue;
            }
            children.push(reach.begin(member, part));
        }
        let is_over = children.is_empty() && own_done;
        if is_over || reach.visit.is_over() {
            break;
        }
        rest(&children, if own_done { SLICE } else { Duration::from_millis(2) });
        let mut at = 0;
        while at < children.len() {
            match children[at].step(reach, request, patience, until) {
                Step::NotYet => at += 1,
                Step::Answered(said) => {
                    let child = children.swap_remove(at);
                    let mut said: BTreeMap<u32, What> = said.into_iter().map(|o| (o.rank, o.what)).collect();
                    for member in std::iter::once(&child.member).chain(&child.below) {
                        outcomes.insert(member.rank, said.remove(&member.rank).unwrap_or(What::NotAnswering));
                    }
                }
                Step::Lost(what, again) => {
                    let child = children.swap_remove(at);
                    if again {
                        later.push(child.member.rank);
                    }
                    outcomes.insert(child.member.rank, what);
                    waiting.extend(parts(child.below));
                }
            }
        }
    }
    // The time is over. Those that have got the command may still do it; the others are to get it.
    for child in children {
        let has_it = matches!(&child.state, State::Asked(stream) if !stream.has_output());
        // It has proved itself a moment ago, and is at work on it.
        let of_itself = if has_it { What::UnderWay(String::new()) } else { What::NotAnswering };
        outcomes.insert(child.member.rank, of_itself);
        outcomes.extend(child.below.iter().map(|member| (member.rank, What::NotAnswering)));
        if !has_it {
            later.extend(std::iter::once(&child.member).chain(&child.below).map(|member| member.rank));
        }
    }
    for member in waiting.iter().flatten() {
        outcomes.insert(member.rank, What::NotAnswering);
        later.push(member.rank);
    }
    if request.command.changes() {
        for member in later.iter().filter_map(|rank| contacts.get(rank)) {
            let to = (reach.incarnation, member.rank);
            let request = Request { to: reach.addressee(member.rank), ..request.clone() };
            if let Err(why) = late::bring(reach.desk, &reach.trust, reach.host, to, &member.contact, request) {
                outcomes.insert(member.rank, What::Refused(why.to_string()));
            }
        }
    }
    outcomes.into_iter().map(|(rank, what)| Outcome { rank, what }).collect()
}

/// Sleeps until one of the children has something to say, for this long at most.
fn rest(children: &[Child], longest: Duration) {
    let awaited = children.iter().filter_map(|child| match &child.state {
        State::Dialling(dial) => dial.awaited(),
        State::Asked(stream) => Some(stream.awaited()),
        State::Resting(_) => None,
    });
    let rests = children.iter().any(|child| matches!(child.state, State::Resting(_)));
    let longest = if rests { longest.min(REST) } else { longest };
    sleep(&mut awaited.collect::<Vec<_>>(), longest);
}

impl Reach<'_> {
    fn begin(&self, member: Member, below: Vec<Member>) -> Child {
        let state = State::Dialling(command(&member.contact, self.host, &self.trust));
        Child { member, below, since: Instant::now(), state, is_announced: false }
    }
}

impl Child {
    fn step(&mut self, reach: &Reach<'_>, request: &Request, patience: Duration, until: Instant) -> Step {
        match &mut self.state {
            State::Dialling(dial) => match dial.step() {
                Heard::Proved(mut stream) => {
                    let left = until.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
                    let request = Request {
                        limit: left.as_millis().try_into().unwrap_or(u32::MAX),
                        to: reach.addressee(self.member.rank),
                        members: self.below.clone(),
                        ..request.clone()
                    };
                    stream.say(&request.encode());
                    self.state = State::Asked(stream);
                    self.talk(reach)
                }
                Heard::Unheard(why) => self.unheard(&why, patience),
                Heard::NotYet if self.since.elapsed() >= patience => Step::Lost(What::NotAnswering, true),
                Heard::NotYet => Step::NotYet,
            },
            State::Resting(at) => {
                if Instant::now() >= *at {
                    self.state = State::Dialling(command(&self.member.contact, reach.host, &reach.trust));
                }
                Step::NotYet
            }
            State::Asked(_) => self.talk(reach),
        }
    }

    /// It cannot be reached, or has sent us away.
    fn unheard(&mut self, why: &Unheard, patience: Duration) -> Step {
        match why {
            why if why.is_dead() => Step::Lost(What::Dead(why.to_string()), false),
            Unheard::Unreachable(e) if was_sent_away(e) && self.since.elapsed() < patience => {
                self.state = State::Resting(Instant::now() + REST);
                Step::NotYet
            }
            Unheard::Unreachable(_) => Step::Lost(What::NotAnswering, true),
            why => Step::Lost(What::Refused(why.to_string()), false),
        }
    }

    fn talk(&mut self, reach: &Reach<'_>) -> Step {
        let State::Asked(stream) = &mut self.state else { return Step::NotYet };
        let mut has_room = true;
        let said = stream.flush().and_then(|_| {
            if !self.is_announced {
                let Some(length) = stream.announced(MAX_ANSWER)? else { return Ok(None) };
                has_room = reach.visit.has_room(length);
                self.is_announced = has_room;
            }
            if has_room { stream.hear(MAX_ANSWER) } else { Ok(None) }
        });
        match said {
            Ok(None) if !has_room => Step::Lost(What::Refused("there is no room for its answer".into()), false),
            Ok(None) => Step::NotYet,
            Ok(Some(body)) => match Answer::decode(&body) {
                Ok(Answer::Outcomes { outcomes, .. }) => Step::Answered(outcomes),
                Ok(Answer::NoSuchJob) => {
                    Step::Lost(What::Left("it has no connection of this job any more".into()), false)
                }
                Ok(Answer::Busy) => Step::Lost(What::NotAnswering, true),
                Ok(Answer::Malformed) | Err(_) => {
                    Step::Lost(What::Refused("it is of another release of mpi-connect".into()), false)
                }
            },
            // It serves others, or it has died with the command: it is dialled again, which tells the two apart.
            Err(_) => {
                self.is_announced = false;
                self.state = State::Dialling(command(&self.member.contact, reach.host, &reach.trust));
                Step::NotYet
            }
        }
    }
}

/// Whether the other side has closed a connection, which one that is busy does.
fn was_sent_away(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof, WriteZero};
    matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof | WriteZero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Contact;

    #[test]
    fn members_are_parted_evenly_and_each_is_in_one_part() {
        let member = |rank| Member { rank, contact: Contact::new([0; 16], [0; 16], []) };
        for n in [0, 1, 7, 8, 9, 64, 100, 1000] {
            let parts = parts((0..n).map(member).collect());
            let ranks: Vec<u32> = parts.iter().flatten().map(|member| member.rank).collect();
            assert_eq!(ranks, (0..n).collect::<Vec<_>>());
            assert!(parts.len() <= FAN_OUT && parts.iter().all(|part| !part.is_empty()), "{n}");
            let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
            assert!(longest <= (n as usize).div_ceil(FAN_OUT), "{n}: {longest}");
        }
    }
}
