//! Where a firewall lets connections pass in one direction only, whoever cannot reach a port asks to be dialled from there:
//! by a note in the naming service, if both use the same. Connecting itself never needs it, so no failure here is told to
//! the program.

use super::{Address, Port, at};
use crate::conn::claim::{self, Held, open_naming_of};
use crate::error::Failure;
use base::ProcId;
use base::bytes::Take;
use naming::{Kind, Naming, Record, State};
use node::{Contact, Node};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How often somebody who accepts looks for notes; and after the naming service has failed.
pub const LOOK: Duration = Duration::from_millis(700);
const LOOK_AGAIN: Duration = Duration::from_secs(10);

const RANK: &str = "rank";

fn prefix(port: &Address) -> String {
    format!("call:{:016x}:", port.incarnation())
}

/// Whether others than those on this host could come to a process.
fn is_far(contact: &Contact) -> bool {
    contact.addresses.iter().any(|a| !a.ip().is_loopback())
}

/// Notes are of no run: whoever has a port's name, from wherever, may come.
fn open_notes() -> Result<Box<dyn Naming>, Failure> {
    open_naming_of("")
}

/// Asks to be dialled; the note stands until the answer is dropped.
pub fn post(node: &Node, me: ProcId, cookie: [u8; 16], port: &Address) -> Option<Held> {
    let contact = node.contact();
    if !is_far(&contact) {
        return None;
    }
    let posted = (|| {
        let name = format!("{}{:016x}", prefix(port), me.incarnation);
        let mut record = Record { incarnation: me.incarnation, cookie, ..claim::record(&name)? };
        // For people: what is called.
        record.port = Some(name.clone());
        record.metadata = vec![(RANK.into(), me.rank.to_string())];
        contact.encode(&mut record.leader);
        claim::hold(node, &*open_notes()?, &record).map_err(|e| Failure::new(crate::error::Class::Name, e.to_string()))
    })();
    match &posted {
        Ok(_) => base::log!(Info, "the port does not answer; asked to be dialled from there"),
        Err(e) => base::log!(Info, "the port does not answer, and cannot be asked to dial: {}", e.text),
    }
    posted.ok()
}

/// The notes for one port.
pub struct Calls<'a> {
    port: &'a Port,
    naming: Option<Box<dyn Naming>>,
    answered: HashSet<u64>,
    next: Instant,
}

impl Calls<'_> {
    pub fn new<'a>(node: &Node, port: &'a Port) -> Calls<'a> {
        let naming = if is_far(&node.contact()) { open_notes().ok() } else { None };
        Calls { port, naming, answered: HashSet::new(), next: Instant::now() }
    }

    /// Dials those who have asked for it since the last look.
    pub fn answer(&mut self, node: &Node) {
        let now = Instant::now();
        let Some(naming) = self.naming.as_ref().filter(|_| now >= self.next) else { return };
        match naming.list() {
            Ok(all) => {
                let prefix = prefix(&self.port.address);
                let calls = |(record, state): &(Record, State)| {
                    *state == State::Live && record.kind() == Kind::Port && record.name.starts_with(&prefix)
                };
                for (listed, _) in all.iter().filter(|one| calls(one)) {
                    if self.answered.insert(listed.incarnation)
                        // A list tells nothing that leads to a process.
                        && let Ok(Some(record)) = naming.lookup(Kind::Port, &listed.name)
                    {
                        self.dial(node, &record);
                    }
                }
            }
            Err(e) => {
                base::log!(Debug, "nobody can ask this port to dial: {e}");
                self.next = now + LOOK_AGAIN;
            }
        }
    }

    fn dial(&self, node: &Node, record: &Record) {
        let rank = record.metadata.iter().find(|(key, _)| key == RANK).and_then(|(_, rank)| rank.parse().ok());
        let contact = Contact::decode(&mut Take(&record.leader)).ok();
        if let (Some(rank), Some(contact)) = (rank, contact) {
            let caller = ProcId { incarnation: record.incarnation, rank };
            base::log!(Info, "{caller} cannot reach this port, and is dialled from here");
            node.open_control(at(&self.port.address), caller, record.cookie, &contact);
        }
    }
}
