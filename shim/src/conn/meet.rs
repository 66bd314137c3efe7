//! The leader's part of joining two jobs: it finds the other job by name, connects to its leader, and agrees with it.
//!
//! This runs on rank 0 of the local communicator, inside the collective call; the other processes wait for its verdict.

use super::claim::{self, Held};
use super::directory;
use super::joined;
use super::registration::{self, Lead, Registration};
use super::talk::{self, Round};
use super::waiting::{Waiting, hopeless};
use crate::datatype;
use crate::failure::{Class, Failure};
use crate::wait::sleep_until;
use base::ProcId;
use base::bytes::Take;
use base::hash::fnv128;
use naming::{Kind, LookupError, Record, StoreError};
use node::leaders::{Agreement, Looking, Party};
use node::{Contact, ContextId, Node, PathRef, Waits};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two questions to the naming service. It is short at first, since the other job may be about to
/// register.
const LOOK_SOON: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A job that waits for another one looks after its own name so often: if somebody has emptied the folder, neither finds the
/// other.
const RENEW: Duration = Duration::from_millis(500);
/// A job that gives up at once, because of what it sees of the other one, keeps its name for this time. The other job,
/// which looks every [`LOOK_AGAIN`], then sees the same, and does not wait for a name that is gone.
const TO_BE_SEEN: Duration = Duration::from_secs(2);

/// Meets the job `wanted`. `largest_tag` is this side's MPI_TAG_UB.
pub fn meet(
    node: &Node,
    registration: &Registration,
    lead: &Lead,
    wanted: &str,
    largest_tag: u32,
    timeout: Duration,
) -> Result<Agreement, Failure> {
    let deadline = Instant::now() + timeout;
    let _alone = lead.alone.lock().unwrap_or_else(|e| e.into_inner());
    let mut waiting = Waiting::new(node, registration, lead, wanted);
    let mut seen = Seen::Never;
    let mut own = Own { lead, next: Instant::now() + RENEW };
    let _told = Waits::begin(node, "MPI_Conn_intercomm_create", format!("for job '{wanted}'"));
    loop {
        let Some(record) = find(node, registration.me(), &mut own, wanted, deadline, &mut waiting)? else {
            return Err(too_late(&waiting, wanted, timeout, seen));
        };
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
        if !joined::is_led_by(record.incarnation, &record.cookie, &contact) {
            return Err(joined::not_itself(wanted));
        }
        base::ident::name_job(record.incarnation, wanted);
        let path = node.open_control(registration.me(), leader, record.cookie, &contact);
        seen = Seen::Here(path);
        let offered = directory::offer(node, &[registration.group.incarnation], &lead.contacts, 0);
        let offer = Party {
            incarnation: registration.group.incarnation,
            cookie: registration.group.cookie,
            size: registration.group.size,
            tag_ub: largest_tag,
            representation: datatype::representation().number(),
            registered: None,
            name: registration.name.clone(),
            wanted: wanted.to_owned(),
            records: offered.bytes().to_vec(),
        };
        let stands = || lead.naming.is_alive(&record).unwrap_or(true);
        let meanwhile = |looking: Option<&Looking>| {
            waiting.for_a_job(path, looking);
            own.look_after();
            let obstacle = node.with(|core| core.path_obstacle(path));
            match obstacle.and_then(|obstacle| hopeless(obstacle, wanted, &record)) {
                Some(why) => {
                    node.with(|core| core.abandon(path));
                    pause(node, deadline.min(Instant::now() + TO_BE_SEEN));
                    Err(Failure::new(Class::Other, why))
                }
                None => Ok(()),
            }
        };
        let (who, decider) = (format!("job '{wanted}'"), registration.group.incarnation < record.incarnation);
        match talk::agree(node, path, &who, decider, &offer, Some(deadline), stands, meanwhile)? {
            Round::Agreed(agreement) => {
                let refuse = |_: &Failure| node.refuse(path, ContextId::root(agreement.context));
                let members = joined::check(&agreement.remote, &lead.members).inspect_err(refuse)?;
                if !joined::is_of(&agreement.remote, &members, record.incarnation, &contact) {
                    return Err(joined::not_itself(wanted)).inspect_err(refuse);
                }
                return Ok(agreement);
            }
            Round::TimedOut => return Err(too_late(&waiting, wanted, timeout, seen)),
            Round::Gone if Instant::now() >= deadline => {
                return Err(too_late(&waiting, wanted, timeout, Seen::Gone));
            }
            Round::Gone => {
                seen = Seen::Gone;
                base::log!(Info, "job '{wanted}' went away before it joined; looking for it again");
                pause(node, deadline.min(Instant::now() + LOOK_AGAIN));
            }
        }
    }
}

/// Notes in the naming service that the jobs of an agreement are joined, until the record is dropped.
pub fn note_coupling(
    node: &Node,
    registration: &Registration,
    lead: &Lead,
    agreement: &Agreement,
) -> Option<Arc<Held>> {
    let (name, other) = (&registration.name, &agreement.remote.name);
    let sides = [registration.group.incarnation, agreement.remote.incarnation];
    let [first, second] = if sides[0] < sides[1] { sides } else { [sides[1], sides[0]] };
    let id = fnv128([first, second, agreement.context].map(u64::to_le_bytes).as_flattened()) as u64;
    claim::note_coupling(node, &*lead.naming, name, other, id, registration.group.size).map(Arc::new)
}

/// Waits for the name to appear. Whoever registers it may look for `me` at once, and is at our door then: so the naming service is
/// asked again when another leader has come.
fn find(
    node: &Node,
    me: ProcId,
    own: &mut Own<'_>,
    wanted: &str,
    deadline: Instant,
    waiting: &mut Waiting<'_>,
) -> Result<Option<Record>, Failure> {
    let lead = own.lead;
    let mut told = false;
    let mut rest = LOOK_SOON;
    loop {
        let come = node.with(|core| core.unheard(me).count());
        let found = match lead.naming.lookup(Kind::Job, wanted) {
            // Our own name is registered, so the servers have answered before, and may answer again.
            Err(LookupError::Store(e @ (StoreError::Unreachable(_) | StoreError::StoreAway(_)))) => {
                waiting.asked(Some(e.to_string()));
                None
            }
            found => {
                waiting.asked(None);
                found.map_err(|e| Failure::new(Class::Name, e.to_string()))?
            }
        };
        if found.is_some() || Instant::now() >= deadline {
            return Ok(found);
        }
        if !told {
            base::log!(Info, "waiting for a job named '{wanted}' in {}", lead.naming.describe());
            told = true;
        }
        waiting.for_a_name();
        own.look_after();
        let until = deadline.min(Instant::now() + rest);
        sleep_until(node, &mut || (), Some(until), |core| (core.unheard(me).count() != come).then_some(()));
        rest = LOOK_AGAIN.min(rest * 2);
    }
}

/// The name of the job that waits.
struct Own<'a> {
    lead: &'a Lead,
    /// When it is renewed next.
    next: Instant,
}

impl Own<'_> {
    fn look_after(&mut self) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + RENEW;
            self.lead.renew();
        }
    }
}

/// Makes progress until this time.
fn pause(node: &Node, until: Instant) {
    sleep_until(node, &mut || (), Some(until), |_| None::<()>);
}

/// What the naming service says of the other job.
enum Seen {
    Never,
    /// The path to its leader.
    Here(PathRef),
    Gone,
}

fn too_late(waiting: &Waiting<'_>, wanted: &str, timeout: Duration, seen: Seen) -> Failure {
    let what = match seen {
        Seen::Never => waiting.why_no_name(),
        Seen::Here(path) => waiting.why_no_job(path),
        Seen::Gone => format!("it was there, and went before it joined{}", waiting.whom_it_waits_for()),
    };
    // A restart has used a part of the time before.
    let seconds = timeout.as_secs_f32().ceil();
    Failure::new(
        Class::Timeout,
        format!("job '{wanted}' did not come within {seconds} s (MPI_CONNECT_TIMEOUT): {what}"),
    )
}
