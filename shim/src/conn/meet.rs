//! The leader's part of joining two jobs: find the other job by name, reach its leader, agree with it.
//!
//! Runs on rank 0 of the local communicator, inside the collective call; the others wait for its verdict. Only here
//! do time limits hold.

use super::registration::Registration;
use crate::error::{Class, Failure};
use crate::wait::wait_until;
use base::ProcId;
use base::bytes::Take;
use engine::setup::{Agreement, Negotiation, Party, Standing};
use naming::Record;
use node::{Contact, Node, PathRef};
use std::time::{Duration, Instant};

/// How often the naming service is asked.
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
    talks: &mut Talks,
    wanted: &str,
    largest_tag: u32,
    timeout: Duration,
) -> Result<Met, Failure> {
    let deadline = Instant::now() + timeout;
    let mut seen = false;
    loop {
        let Some(record) = find(node, registration, wanted, deadline)? else {
            return Err(too_late(registration, wanted, timeout, seen));
        };
        seen = true;
        refuse_self(registration, &record)?;
        let contact = Contact::decode(&mut Take(&record.leader)).map_err(|_| {
            Failure::new(
                Class::Name,
                format!("the record of job '{wanted}' in {} is damaged", registration.naming.describe()),
            )
        })?;
        let leader = ProcId { incarnation: record.incarnation, rank: 0 };
        let path = node.open_control(registration.me(), leader, record.cookie, &contact);
        let talk = talks.entry(record.incarnation).or_insert_with(|| Talk {
            path,
            negotiation: Negotiation::new(registration.group.incarnation < record.incarnation),
        });
        talk.path = path;
        talk.negotiation.offer(&Party {
            size: registration.group.size,
            tag_ub: largest_tag,
            name: registration.name.clone(),
            wanted: wanted.to_owned(),
            records: registration.records.clone(),
        });
        let round =
            talk_until(node, registration, &record, talk, deadline).inspect_err(|_| talk.negotiation.abandon())?;
        let orphans = talk.negotiation.take_orphans();
        disown(node, registration, &record, orphans);
        match round {
            Round::Agreed(agreement) => {
                return Ok(Met { agreement, incarnation: record.incarnation, cookie: record.cookie });
            }
            Round::TimedOut => return Err(too_late(registration, wanted, timeout, seen)),
            Round::Gone => {
                base::log!(Info, "job '{wanted}' went away before it joined; looking for it again");
                talks.remove(&record.incarnation);
            }
        }
    }
}

/// Waits for the name to appear.
fn find(node: &Node, registration: &Registration, wanted: &str, deadline: Instant) -> Result<Option<Record>, Failure> {
    let mut told = false;
    loop {
        let found = registration.naming.lookup(wanted).map_err(|e| Failure::new(Class::Name, e.to_string()))?;
        if found.is_some() || Instant::now() >= deadline {
            return Ok(found);
        }
        if !told {
            base::log!(Info, "waiting for a job named '{wanted}' in {}", registration.naming.describe());
            told = true;
        }
        pause(node, registration, deadline.min(Instant::now() + LOOK_AGAIN));
    }
}

/// Lets everything move on until `until`.
fn pause(node: &Node, registration: &Registration, until: Instant) {
    wait_until(node, registration.private, Some(until), |_| None::<()>);
}

fn refuse_self(registration: &Registration, record: &Record) -> Result<(), Failure> {
    let itself = record.incarnation == registration.group.incarnation
        || Contact::decode(&mut Take(&record.leader)).is_ok_and(|c| registration.has_member(&c));
    if itself {
        return Err(Failure::new(
            Class::Comm,
            format!("'{}' is a name of this job itself: a job cannot be joined to itself", record.name),
        ));
    }
    Ok(())
}

/// Talks to the other leader until something is decided.
fn talk_until(
    node: &Node,
    registration: &Registration,
    record: &Record,
    talk: &mut Talk,
    deadline: Instant,
) -> Result<Round, Failure> {
    let mut limit = deadline;
    let mut withdrawn = false;
    let mut missing_since = None;
    loop {
        for bytes in std::iter::from_fn(|| talk.negotiation.next_output()) {
            node.send_control(talk.path, &bytes);
        }
        match talk.negotiation.standing() {
            Standing::Agreed(agreement) => return Ok(Round::Agreed(agreement)),
            Standing::Withdrawn => return Ok(Round::TimedOut),
            Standing::Waiting => {}
        }
        if node.path_gone(talk.path).is_some() {
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
        let path = talk.path;
        match wait_until(node, registration.private, Some(slice), |core| core.recv_control(path)) {
            Some(bytes) => talk.negotiation.on_message(&bytes).map_err(|_| {
                Failure::new(Class::Intern, format!("job '{}' sent nonsense during set-up", record.name))
            })?,
            None => {
                // A job that has agreed may give its name up at once, so the name's absence counts only after a while.
                let stands = registration.naming.is_alive(record).unwrap_or(true);
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

/// Answers for contexts that the other side opened after we had given up: there is nobody.
fn disown(node: &Node, registration: &Registration, record: &Record, contexts: Vec<u64>) {
    for context in contexts {
        let Ok(leader) = Contact::decode(&mut Take(&record.leader)) else { return };
        let group =
            node::RemoteGroup { incarnation: record.incarnation, cookie: record.cookie, contacts: vec![leader] };
        node.close(node.open(registration.me(), &group, context));
    }
}

fn too_late(registration: &Registration, wanted: &str, timeout: Duration, seen: bool) -> Failure {
    let place = registration.naming.describe();
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
