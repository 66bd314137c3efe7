//! Commands for processes that did not answer: they are brought when these go on, in the order in which they were given.
//!
//! One thread does that, as long as there are any. Invariant: a process gets one command at a time, the oldest first.

use super::desk::{Desk, Late, NotKept, SLICE};
use crate::thread::begin;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transports::control::{ControlStream, sleep};
use transports::registry::{Commanding, Heard, command};
use trust::Trust;
use wire::Contact;
use wire::control::{Id, MAX_ANSWER, Request};

/// A process that has not answered for this long is given up.
const LATEST: Duration = Duration::from_secs(3600);
/// How long it may take for one command once it has it.
const LIMIT: Duration = Duration::from_secs(60);
/// How long to rest after a dial that came to nothing.
const REST: Duration = Duration::from_millis(200);

/// Has a request brought to a process when it answers again.
pub(crate) fn bring(
    desk: &Arc<Desk>,
    trust: &Arc<Trust>,
    host: [u8; 16],
    to: (u64, u32),
    contact: &Contact,
    request: Request,
) -> Result<(), NotKept> {
    let request = Request { limit: LIMIT.as_millis() as u32, members: Vec::new(), ..request };
    if desk.bring_later(to, contact, request)? {
        let (for_thread, trust) = (desk.clone(), trust.clone());
        match begin("mpi_connect late", move || bring_all(&for_thread, &trust, host)) {
            Ok(thread) => desk.keep(thread),
            Err(e) => {
                base::log_seldom!(Error, "no thread for commands that come late: {e}");
                desk.give_up(to);
                // Without processes to bring something to, this says that no thread does.
                desk.late();
                return Err(NotKept::NoThread);
            }
        }
    }
    Ok(())
}

enum State {
    Resting(Instant),
    Dialling(Commanding),
    /// It has this request, until then.
    Asked(ControlStream, Id, Instant),
}

fn bring_all(desk: &Desk, trust: &Arc<Trust>, host: [u8; 16]) {
    let mut states: BTreeMap<(u64, u32), State> = BTreeMap::new();
    while let Some(late) = desk.late() {
        states.retain(|to, _| late.iter().any(|(one, _)| one == to));
        for (to, late) in &late {
            let state = states.remove(to).unwrap_or(State::Resting(Instant::now()));
            if let Some(next) = step(desk, *to, late, state, trust, host) {
                states.insert(*to, next);
            }
        }
        rest(&states);
    }
}

/// Goes on with one process. `None`: it has what it was to get, or is given up.
fn step(desk: &Desk, to: (u64, u32), late: &Late, state: State, trust: &Arc<Trust>, host: [u8; 16]) -> Option<State> {
    if late.since.elapsed() >= LATEST {
        desk.give_up(to);
        return None;
    }
    match state {
        State::Resting(at) if Instant::now() < at => Some(State::Resting(at)),
        State::Resting(_) => Some(State::Dialling(command(&late.contact, host, trust))),
        State::Dialling(mut dial) => match dial.step() {
            Heard::NotYet => Some(State::Dialling(dial)),
            Heard::Proved(mut stream) => {
                let request = late.requests.front()?;
                stream.say(&request.encode());
                Some(State::Asked(stream, request.id, Instant::now() + LIMIT))
            }
            Heard::Unheard(why) if why.is_dead() => {
                desk.give_up(to);
                None
            }
            Heard::Unheard(_) => Some(State::Resting(Instant::now() + REST)),
        },
        State::Asked(mut stream, id, until) => match stream.flush().and_then(|_| stream.hear(MAX_ANSWER)) {
            Ok(None) if Instant::now() < until => Some(State::Asked(stream, id, until)),
            Ok(_) => {
                desk.brought(to, id);
                None
            }
            Err(_) => Some(State::Resting(Instant::now() + REST)),
        },
    }
}

fn rest(states: &BTreeMap<(u64, u32), State>) {
    let awaited = states.values().filter_map(|state| match state {
        State::Dialling(dial) => dial.awaited(),
        State::Asked(stream, ..) => Some(stream.awaited()),
        State::Resting(_) => None,
    });
    sleep(&mut awaited.collect::<Vec<_>>(), SLICE);
}
