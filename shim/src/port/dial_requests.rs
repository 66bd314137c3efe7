//! Dial requests (reverse connections), for firewalls that let connections pass in one direction only.
//!
//! A process that cannot reach a port writes a note to the naming service, if both sides use the same one, and the
//! port's process dials it. A connection never depends on that, so no failure here is reported to the program. Any
//! process that may write to the naming service can leave notes that lead nowhere, so few are dialled at a time, in
//! turns.

use super::name::Address;
use super::open::{Port, at};
use crate::conn::claim::{self, Held, open_naming_of};
use crate::failure::{Class, Failure};
use base::ProcId;
use base::bytes::Take;
use base::protocol::port::CALL;
use naming::{Kind, Naming, Record, State, StoreError};
use node::leaders::{MOST_CALLED, Turns};
use node::{Contact, Node, PathRef, ip_addresses};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often a process that accepts looks for notes; and how often after the naming service has failed.
pub const LOOK: Duration = Duration::from_millis(700);
const LOOK_AGAIN: Duration = Duration::from_secs(10);

const RANK: &str = "rank";

fn prefix(port: &Address) -> String {
    format!("{CALL}{:016x}:", port.incarnation())
}

/// Whether processes of other hosts could connect to this process.
fn is_far(contact: &Contact) -> bool {
    ip_addresses(contact).iter().any(|a| !a.ip().is_loopback())
}

/// The naming service for notes. They belong to no run, since processes of any run may have the port's name.
fn open_notes() -> Result<Box<dyn Naming>, Failure> {
    open_naming_of("")
}

/// Writes a note that asks to be dialled. It stays until the result is dropped. `None`: that is not possible.
pub fn post(node: &Node, me: ProcId, cookie: [u8; 16], port: &Address) -> Option<Held> {
    let contact = node.contact();
    if !is_far(&contact) {
        return None;
    }
    let posted = (|| {
        let name = format!("{}{:016x}", prefix(port), me.incarnation);
        let mut record = Record { incarnation: me.incarnation, cookie, ..claim::record(&name)? };
        // The port's name is for people.
        record.port = Some(name.clone());
        record.metadata = vec![(RANK.into(), me.rank.to_string())];
        contact.encode(&mut record.leader);
        claim::hold(node, &*open_notes()?, &record).map_err(|e| Failure::new(Class::Name, e.to_string()))
    })();
    match &posted {
        Ok(_) => base::log!(Info, "the port does not answer; asked to be dialled from there"),
        Err(e) => base::log!(Info, "the port does not answer, and cannot be asked to dial: {}", e.text),
    }
    posted.ok()
}

/// The dial requests for a port.
pub struct DialRequests<'a> {
    port: &'a Port,
    naming: Option<Box<dyn Naming>>,
    next: Instant,
}

impl DialRequests<'_> {
    pub fn new<'a>(node: &Node, port: &'a Port) -> DialRequests<'a> {
        let naming = if is_far(&node.contact()) { open_notes().ok() } else { None };
        DialRequests { port, naming, next: Instant::now() }
    }

    /// Dials the processes that have asked for it, as many as may be dialled at a time.
    pub fn answer(&mut self, node: &Node) {
        let now = Instant::now();
        let Some(naming) = self.naming.as_deref().filter(|_| now >= self.next) else { return };
        // If another thread accepts at this port, it answers the requests.
        let Ok(mut turns) = self.port.calling.try_lock() else { return };
        if let Err(e) = self.look(node, naming, &mut turns, now) {
            base::log!(Debug, "nobody can ask this port to dial: {e}");
            self.next = now + LOOK_AGAIN;
        }
    }

    fn look(
        &self,
        node: &Node,
        naming: &dyn Naming,
        turns: &mut Turns<PathRef>,
        now: Instant,
    ) -> Result<(), StoreError> {
        let all = naming.list()?;
        let prefix = prefix(&self.port.address);
        let is_call = |(record, state): &&(Record, State)| {
            *state == State::Live && record.kind() == Kind::Port && record.name.starts_with(&prefix)
        };
        let names: HashMap<u64, &str> =
            all.iter().filter(is_call).map(|(record, _)| (record.incarnation, record.name.as_str())).collect();
        let notes: Vec<u64> = all.iter().filter(is_call).map(|(record, _)| record.incarnation).collect();
        node.with(|core| {
            let off = turns.look(&notes, core.time(now), |path| core.called(path));
            off.into_iter().for_each(|path| core.call_off(path));
        });
        // Each note costs a question to the naming service, even if it leads nowhere.
        for _ in 0..MOST_CALLED {
            let Some(note) = turns.next_note() else { break };
            // The list of names does not contain contact records.
            let record = names.get(&note).and_then(|name| naming.lookup(Kind::Port, name).ok().flatten());
            match record.as_ref().and_then(whose) {
                Some((_, contact)) if !turns.has_room(ip_addresses(&contact).len()) => {
                    turns.put_back(note);
                    break;
                }
                Some((caller, contact)) => {
                    base::log!(Info, "{caller} cannot reach this port, and is dialled from here");
                    let cookie = record.map(|record| record.cookie).unwrap_or_default();
                    let dial = node.open_control(at(&self.port.address), caller, cookie, &contact);
                    node.with(|core| turns.dialled(note, dial, ip_addresses(&contact).len(), core.time(now)));
                }
                None => {
                    turns.drop(note);
                }
            }
        }
        Ok(())
    }
}

/// The process that has written a note, and its contact record.
fn whose(record: &Record) -> Option<(ProcId, Contact)> {
    let (_, rank) = record.metadata.iter().find(|(key, _)| key == RANK)?;
    let contact = Contact::decode(&mut Take(&record.leader)).ok()?;
    Some((ProcId { incarnation: record.incarnation, rank: rank.parse().ok()? }, contact))
}
