//! One connection of an operator: its request is read, done and passed on, and answered.
//!
//! Runs in threads of their own. Invariants: a thread holds the node's lock for moments only; it ends when the node does.

use super::budget::{Room, SMALL};
use super::carry::carry;
use super::desk::{Desk, Given, Passed, SLICE};
use super::tree::{self, Reach};
use super::visit::{Place, Visit};
use super::visitors::Ticket;
use crate::shared::Shared;
use crate::thread::begin;
use base::ident::random;
use files::Folders;
use session::Group;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transports::control::{ControlStream, HEAD, Part, sleep};
use transports::registry::{self, Commanding, Heard, Unheard};
use wire::Contact;
use wire::control::{Addressee, Answer, Command, JobSecret, MAX_ANSWER, MAX_REQUEST, Member, Outcome, Request, What};

/// How long a request may take to come, and an answer to leave.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest time that an operator waits for an answer.
const LONGEST: Duration = Duration::from_secs(3600);
/// For so many further bytes of a request, room is taken at a time.
const STEP: usize = 1 << 20;
/// Of what is no visit, and yields to nobody: tickets begin at 1.
const NO_TICKET: Ticket = 0;
/// How long to rest before a leader that has sent us away is dialled again.
const REST: Duration = Duration::from_millis(20);

/// Has the connections of operators served from now on.
pub(crate) fn open(shared: &Arc<Shared>, folders: Folders) -> Arc<Desk> {
    let desk = Arc::new(Desk::new(folders));
    let (of_core, weak) = (desk.clone(), Arc::downgrade(shared));
    let take = move |stream| {
        let Some(first) = of_core.arrive(stream) else { return };
        let ticket = first.0;
        let (desk, weak) = (of_core.clone(), weak.clone());
        let serve_all = move || {
            let mut next = Some(first);
            while let Some((ticket, stream)) = next {
                if let Some(shared) = weak.upgrade() {
                    serve(&shared, &desk, ticket, stream);
                }
                next = desk.next(ticket);
            }
        };
        match begin("mpi_connect op", serve_all) {
            Ok(thread) => of_core.keep(thread),
            Err(e) => {
                base::log_seldom!(Error, "no thread for an operator: {e}");
                // Whoever waits for this one's turn is served by the next thread.
                drop(of_core.next(ticket));
            }
        }
    };
    shared.lock().operators.0 = Some(Box::new(take));
    desk
}

fn serve(shared: &Arc<Shared>, desk: &Arc<Desk>, ticket: Ticket, mut stream: ControlStream) {
    let patience = Instant::now() + PATIENCE;
    let Ok(heard) = hear_request(desk, &mut stream, ticket, patience) else { return };
    desk.has_asked(ticket);
    // The room is given back when all is over.
    let (request, _room) = heard.map(|(body, room)| (Request::decode(&body), room)).unzip();
    let answer = match request {
        None => Answer::Busy,
        Some(Ok(request)) if request.command == Command::Files => {
            let is_here = is_here(shared, desk, &request.to);
            let none = Answer::Outcomes { repeated: false, outcomes: Vec::new() };
            stream.say(&if is_here { none } else { Answer::NoSuchJob }.encode());
            if flush(desk, &mut stream, ticket, Instant::now() + PATIENCE).is_ok() && is_here {
                carry(shared, desk, stream);
            }
            return;
        }
        Some(Ok(request)) => {
            let until = Instant::now() + Duration::from_millis(request.limit.into()).min(LONGEST);
            answer(shared, desk, request, &Visit::new(&**desk, &stream, ticket, until))
        }
        Some(Err(_)) => Answer::Malformed,
    };
    stream.say(&answer.encode());
    // An error means that nobody waits for it any more.
    let _ = flush(desk, &mut stream, ticket, Instant::now() + PATIENCE);
}

/// A request, for which room is taken as its bytes come. `None`: others have what there is.
fn hear_request(
    desk: &Desk,
    stream: &mut ControlStream,
    ticket: Ticket,
    until: Instant,
) -> io::Result<Option<(Vec<u8>, Room)>> {
    let Some(mut room) = desk.room(stream.asker(), 0) else { return Ok(None) };
    let (mut message, mut limit) = (Vec::new(), SMALL);
    loop {
        let part = stream.hear_up_to(MAX_REQUEST, limit, &mut message)?;
        match part {
            Part::Whole => return Ok(Some((message.split_off(HEAD), room))),
            Part::Limit if room.grow(limit + STEP) => {
                limit += STEP;
                continue;
            }
            Part::Limit if Instant::now() + SLICE >= until => return Ok(None),
            Part::Limit | Part::NotYet => go_on(desk, ticket, until)?,
        }
        match part {
            Part::Limit => std::thread::park_timeout(REST),
            _ => sleep(&mut [stream.awaited()], SLICE),
        }
    }
}

/// Whether this process leads the job that is addressed, or is the process.
fn is_here(shared: &Shared, desk: &Desk, to: &Addressee) -> bool {
    let rank_in = |incarnation: u64| shared.lock().session.own_group(incarnation).map(|group| group.rank);
    match to {
        Addressee::Named(name) => desk.led_as(name).iter().any(|(incarnation, ..)| rank_in(*incarnation).is_some()),
        Addressee::Member(incarnation, rank) | Addressee::Passed(incarnation, rank, _) => {
            rank_in(*incarnation) == Some(*rank)
        }
    }
}

/// An error once this visit is over: its time is, the node ends, or another one is to have its place.
fn go_on(desk: &Desk, ticket: Ticket, until: Instant) -> io::Result<()> {
    let is_over = Instant::now() >= until || desk.is_closing() || desk.has_to_yield(ticket);
    if is_over { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

fn hear(desk: &Desk, stream: &mut ControlStream, ticket: Ticket, most: usize, until: Instant) -> io::Result<Vec<u8>> {
    loop {
        if let Some(body) = stream.hear(most)? {
            return Ok(body);
        }
        go_on(desk, ticket, until)?;
        sleep(&mut [stream.awaited()], SLICE);
    }
}

fn flush(desk: &Desk, stream: &mut ControlStream, ticket: Ticket, until: Instant) -> io::Result<()> {
    while !stream.flush()? {
        go_on(desk, ticket, until)?;
        sleep(&mut [stream.awaited()], SLICE);
    }
    Ok(())
}

fn answer(shared: &Arc<Shared>, desk: &Arc<Desk>, request: Request, visit: &Visit<'_>) -> Answer {
    match request.to.clone() {
        Addressee::Named(name) => {
            let known = |(incarnation, ..): &(u64, _, _)| shared.lock().session.own_group(*incarnation).is_some();
            match desk.led_as(&name).into_iter().rfind(known) {
                Some((incarnation, members, secret)) => {
                    lead(shared, desk, request, (incarnation, secret), &members, visit)
                }
                None => Answer::NoSuchJob,
            }
        }
        Addressee::Member(incarnation, rank) => {
            let process = visit.asker().process;
            let is_member = match &request.command {
                Command::Sum(of, report) => desk.hear((incarnation, *of), Some(report), false, process),
                Command::Left(of, report) => desk.hear((incarnation, *of), report.as_deref(), true, process),
                _ => false,
            };
            if !is_member {
                return Answer::NoSuchJob;
            }
            let outcome = Outcome { rank, what: What::Done(String::new()) };
            Answer::Outcomes { repeated: false, outcomes: vec![outcome] }
        }
        Addressee::Passed(incarnation, rank, secret) => {
            let group = shared.lock().session.own_group(incarnation);
            match group.filter(|group| group.rank == rank && desk.is_of_job(incarnation, &secret)) {
                None => Answer::NoSuchJob,
                Some(group) if !are_ranks(&group, &request.members) => Answer::Malformed,
                Some(_) => {
                    let (repeated, outcomes) = pass_on(shared, desk, request, (incarnation, secret), rank, visit);
                    Answer::Outcomes { repeated, outcomes }
                }
            }
        }
    }
}

/// Whether these may be other ranks of a group, each once.
fn are_ranks(group: &Group, members: &[Member]) -> bool {
    let ranks: BTreeSet<u32> = members.iter().map(|member| member.rank).collect();
    ranks.len() == members.len() && !ranks.contains(&group.rank) && ranks.last().is_none_or(|last| *last < group.size)
}

/// The leader of a job has got a command for all of it.
fn lead(
    shared: &Arc<Shared>,
    desk: &Arc<Desk>,
    request: Request,
    (incarnation, secret): (u64, JobSecret),
    contacts: &[Contact],
    visit: &Visit<'_>,
) -> Answer {
    if !visit.has_room(contacts.iter().map(Contact::size).sum()) {
        return Answer::Busy;
    }
    let own = shared.lock().session.own_group(incarnation).map_or(0, |group| group.rank);
    let left = desk.left(incarnation);
    let all = (0u32..).zip(contacts).filter(|(rank, _)| *rank != own && !left.contains(rank));
    let members = all.map(|(rank, contact)| Member { rank, contact: contact.clone() }).collect();
    let (id, changes) = (request.id, request.command.changes());
    if changes && visit.has_ended() {
        // This process was stopped, and whoever asked has been told that nothing is done any more.
        return Answer::Busy;
    }
    let serial = match changes.then(|| desk.give(incarnation, id, visit)) {
        None => 0,
        Some(Given::Next(serial)) => serial,
        Some(Given::Busy) => return Answer::Busy,
        Some(Given::Before(Answer::Outcomes { outcomes, .. })) => return Answer::Outcomes { repeated: true, outcomes },
        Some(Given::Before(answer)) => return answer,
    };
    let request = Request { serial, members, ..request };
    let (_, mut outcomes) = pass_on(shared, desk, request, (incarnation, secret), own, visit);
    // Some may have left meanwhile.
    let left = desk.left(incarnation);
    outcomes.retain(|outcome| matches!(outcome.what, What::Done(_)) || !left.contains(&outcome.rank));
    let known: BTreeSet<u32> = outcomes.iter().map(|outcome| outcome.rank).collect();
    let has_left = |rank| Outcome { rank, what: What::Left("it has called MPI_Finalize".into()) };
    outcomes.extend(left.into_iter().filter(|rank| !known.contains(rank)).map(has_left));
    outcomes.sort_by_key(|outcome| outcome.rank);
    let answer = Answer::Outcomes { repeated: false, outcomes };
    if changes {
        desk.given(incarnation, id, &answer);
    }
    answer
}

/// Does a command here, and passes it on to the members in it. Returns whether it had been done here before, and all outcomes.
fn pass_on(
    shared: &Arc<Shared>,
    desk: &Arc<Desk>,
    mut request: Request,
    (incarnation, secret): (u64, JobSecret),
    rank: u32,
    visit: &Visit<'_>,
) -> (bool, Vec<Outcome>) {
    let members = std::mem::take(&mut request.members);
    let changes = request.command.changes();
    let mut own = match changes.then(|| desk.pass(incarnation, request.id, request.serial, visit)) {
        Some(Passed::Before(what)) => Some(what),
        Some(Passed::Next) | None => None,
    };
    let (repeated, mut begun) = (own.is_some(), None);
    let mut obey = || {
        if own.is_none() {
            own = shared.with(|core| match &begun {
                Some(begun) => core.go_on(begun),
                None => match core.obey(incarnation, &request.command) {
                    Ok(what) => Some(what),
                    Err(what) => core.go_on(begun.insert(what)),
                },
            });
        }
        own.is_some()
    };
    let reach = Reach::new(shared, desk, (incarnation, secret), visit);
    let mut outcomes = tree::reach(&reach, &request, members, &mut obey);
    let what = own.unwrap_or(What::UnderWay(String::new()));
    if changes && !repeated {
        desk.passed(incarnation, request.id, &what);
    }
    outcomes.push(Outcome { rank, what });
    (repeated, outcomes)
}

/// Tells the leader of a job something about this member of it, before `until`. Whether the leader has got it.
pub(crate) fn tell_leader(
    shared: &Arc<Shared>,
    incarnation: u64,
    leader: &Contact,
    command: Command,
    until: Instant,
) -> bool {
    let (trust, host) = shared.with(|core| (core.trust.clone(), core.session.own().host));
    let request = Request {
        id: random(),
        serial: 0,
        limit: 1000,
        to: Addressee::Member(incarnation, 0),
        command,
        members: Vec::new(),
    };
    let body = request.encode();
    let desk = Desk::default();
    while go_on(&desk, NO_TICKET, until).is_ok() {
        let mut dial = registry::command(leader, host, &trust);
        match told(&desk, &mut dial, &body, until) {
            Ok(answer) => return matches!(answer, Answer::Outcomes { .. }),
            Err(Untold::ForGood) => return false,
            // A leader that serves many others at this moment sends some of them away.
            Err(Untold::ForNow) => std::thread::park_timeout(REST),
        }
    }
    false
}

/// Why a leader was not told.
enum Untold {
    ForNow,
    ForGood,
}

fn told(desk: &Desk, dial: &mut Commanding, body: &[u8], until: Instant) -> Result<Answer, Untold> {
    let mut stream = loop {
        match dial.step() {
            Heard::Proved(stream) => break stream,
            Heard::Unheard(Unheard::Unreachable(_)) => return Err(Untold::ForNow),
            Heard::Unheard(_) => return Err(Untold::ForGood),
            Heard::NotYet => {
                go_on(desk, NO_TICKET, until).map_err(|_| Untold::ForGood)?;
                dial.awaited().into_iter().for_each(|dialled| sleep(&mut [dialled], SLICE));
            }
        }
    };
    stream.say(body);
    let answer =
        flush(desk, &mut stream, NO_TICKET, until).and_then(|()| hear(desk, &mut stream, NO_TICKET, MAX_ANSWER, until));
    Answer::decode(&answer.map_err(|_| Untold::ForNow)?).map_err(|_| Untold::ForGood)
}
