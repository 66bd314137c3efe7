//! The leader's part of joining two jobs: find the other job by name, reach its leader, agree with it.
//!
//! Runs on rank 0 of the local communicator, inside the collective call; the others wait for its verdict. Only here
//! do time limits hold.

use super::registration::{self, Lead, Registration};
use crate::datatype;
use crate::error::{Class, Failure};
use crate::wait::wait_until;
use base::ProcId;
use base::bytes::Take;
use engine::setup::{Agreement, Negotiation, Party, Standing};
use naming::{Kind, LookupError, Record, StoreError};
use node::{Contact, ContextId, Node, PathRef, Representation};
use std::time::{Duration, Instant};

/// How often the naming service is asked: soon at first, since the other job may be about to register, then less often.
const LOOK_SOON: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often, while waiting for the other leader, we make sure that its name still stands.
const STILL_THERE: Duration = Duration::from_millis(500);
/// How long the answer to a withdrawal is waited for.
const WITHDRAWAL: Duration = Duration::from_secs(2);

/// What the leader brings home.
pub struct Met {
    pub agreement: Agreement,
    pub incarnation: u64,
    pub cookie: [u8; 16],
}

/// The negotiations of one registration, by remote incarnation.
pub type Talks = std::collections::HashMap<u64, Talk>;

pub struct Talk {
    path: PathRef,
    negotiation: Negotiation,
}

/// What a round of talking came to.
enum Round {
    Agreed(Agreement),
    /// That incarnation is gone: look the name up again.
    Gone,
    TimedOut,
}

/// Meets the job `wanted`; `largest_tag` is ours.
pub fn meet(
    node: &Node,
    registration: &Registration,
    lead: &Lead,
    wanted: &str,
    largest_tag: u32,
    timeout: Duration,
) -> Result<Met, Failure> {
    let deadline = Instant::now() + timeout;
    let mut talks = lead.talks.lock().unwrap_or_else(|e| e.into_inner());
    // With those that have gone nothing will be agreed any more.
    talks.retain(|_, talk| node.path_gone(talk.path).is_none());
    let mut seen = false;
    loop {
        let Some(record) = find(node, lead, wanted, deadline)? else {
            return Err(too_late(registration, lead, wanted, timeout, seen));
        };
        seen = true;
        let contact = Contact::decode(&mut Take(&record.leader)).map_err(|_| {
            Failure::new(Class::Name, format!("the record of job '{wanted}' in {} is damaged", lead.naming.describe()))
        })?;
        if registration::is_member(record.incarnation) || lead.has_member(&contact) {
            return Err(Failure::new(
                Class::Comm,
                format!("'{wanted}' is a name of this job itself: a job cannot be joined to itself"),
            ));
        }
        let leader = ProcId { incarnation: record.incarnation, rank: 0 };
        let path = node.open_control(registration.me(), leader, record.cookie, &contact);
        let talk = talks.entry(record.incarnation).or_insert_with(|| Talk {
            path,
            negotiation: Negotiation::new(registration.group.incarnation < record.incarnation),
        });
        talk.path = path;
        let offer = Party {
            size: registration.group.size,
            tag_ub: largest_tag,
            representation: datatype::representation().number(),
            name: registration.name.clone(),
            wanted: wanted.to_owned(),
            records: lead.records.clone(),
        };
        let round = talk_until(node, lead, &record, talk, &offer, deadline);
        for context in talk.negotiation.take_orphans() {
            node.refuse(path, ContextId::root(context));
        }
        match round.inspect_err(|_| talk.negotiation.abandon())? {
            Round::Agreed(agreement) => {
                let number = agreement.remote.representation;
                if Representation::from_number(number).is_none() {
                    node.refuse(path, ContextId::root(agreement.context));
                    let text = format!("job '{wanted}' lays out data in a way that is not known here ({number:#010x})");
                    return Err(Failure::new(Class::Unsupported, text));
                }
                return Ok(Met { agreement, incarnation: record.incarnation, cookie: record.cookie });
            }
            Round::TimedOut => return Err(too_late(registration, lead, wanted, timeout, seen)),
            Round::Gone if Instant::now() >= deadline => {
                return Err(too_late(registration, lead, wanted, timeout, seen));
            }
            Round::Gone => {
                base::log!(Info, "job '{wanted}' went away before it joined; looking for it again");
                talks.remove(&record.incarnation);
                pause(node, deadline.min(Instant::now() + LOOK_AGAIN));
            }
        }
    }
}

/// Waits for the name to appear.
fn find(node: &Node, lead: &Lead, wanted: &str, deadline: Instant) -> Result<Option<Record>, Failure> {
    let mut told = false;
    let mut rest = LOOK_SOON;
    loop {
        let found = match lead.naming.lookup(Kind::Job, wanted) {
            // Our own name is there, so the servers were too, and may come back.
            Err(LookupError::Store(StoreError::Unreachable(_))) if Instant::now() < deadline => None,
            found => found.map_err(|e| Failure::new(Class::Name, e.to_string()))?,
        };
        if found.is_some() || Instant::now() >= deadline {
            return Ok(found);
        }
        if !told {
            base::log!(Info, "waiting for a job named '{wanted}' in {}", lead.naming.describe());
            told = true;
        }
        pause(node, deadline.min(Instant::now() + rest));
        rest = LOOK_AGAIN.min(rest * 2);
    }
}

/// Lets everything move on until `until`.
fn pause(node: &Node, until: Instant) {
    wait_until(node, Some(until), |_| None::<()>);
}

/// Talks to the other leader until something is decided.
fn talk_until(
    node: &Node,
    lead: &Lead,
    record: &Record,
    talk: &mut Talk,
    offer: &Party,
    deadline: Instant,
) -> Result<Round, Failure> {
    let path = talk.path;
    let mut limit = deadline;
    let mut withdrawn = false;
    let mut missing_since = None;
    let mut heard = Vec::new();
    let mut offered = false;
    loop {
        // What has come is read to its end before anything is decided: an offer may have been withdrawn since.
        heard.extend(std::iter::from_fn(|| node.recv_control(path)));
        for bytes in heard.drain(..) {
            talk.negotiation.on_message(&bytes).map_err(|_| {
                Failure::new(Class::Intern, format!("job '{}' sent nonsense during set-up", record.name))
            })?;
        }
        if !offered {
            talk.negotiation.offer(offer);
            offered = true;
        }
        talk.negotiation.decide();
        for bytes in std::iter::from_fn(|| talk.negotiation.next_output()) {
            node.send_control(path, &bytes);
        }
        match talk.negotiation.standing() {
            Standing::Agreed(agreement) => return Ok(Round::Agreed(agreement)),
            Standing::Withdrawn => return Ok(Round::TimedOut),
            Standing::Waiting => {}
        }
        if node.path_gone(path).is_some() {
            talk.negotiation.abandon();
            return Ok(if withdrawn { Round::TimedOut } else { Round::Gone });
        }
        if Instant::now() >= limit {
            if withdrawn {
                talk.negotiation.abandon();
                return Ok(Round::TimedOut);
            }
            talk.negotiation.withdraw();
            withdrawn = true;
            limit = Instant::now() + WITHDRAWAL;
            continue;
        }
        let slice = limit.min(Instant::now() + STILL_THERE);
        match wait_until(node, Some(slice), |core| core.recv_control(path)) {
            Some(bytes) => heard.push(bytes),
            None => {
                // A job that has agreed may give its name up at once, so the name's absence counts only after a while.
                let stands = lead.naming.is_alive(record).unwrap_or(true);
                let since = *missing_since.get_or_insert_with(Instant::now);
                if stands {
                    missing_since = None;
                } else if since.elapsed() > WITHDRAWAL && !withdrawn {
                    talk.negotiation.abandon();
                    return Ok(Round::Gone);
                }
            }
        }
    }
}

fn too_late(registration: &Registration, lead: &Lead, wanted: &str, timeout: Duration, seen: bool) -> Failure {
    let place = lead.naming.describe();
    let what = if seen {
        format!("job '{wanted}' is registered there, but did not join '{}' (or cannot be reached)", registration.name)
    } else {
        "no job of that name came".to_owned()
    };
    Failure::new(
        Class::Timeout,
        format!("waited {} s (MPI_CONNECT_TIMEOUT) for job '{wanted}' in {place}: {what}", timeout.as_secs_f32()),
    )
}
