//! From the agreement of two leaders to the inter-communicator: the leader tells the agreement to its job, and each
//! process makes the inter-communicator from it.

use super::directory::{self, Sides};
use crate::datatype;
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::inter::{Inter, Members, Process, Remote};
use base::ProcId;
use base::bytes::{Malformed, Put, Take};
use node::leaders::{Agreement, MAX_RANKS, MAX_RECORDS, Party, contacts};
use node::{Contact, Contacts, ContextId, Directory, Node, Proofs, RemoteGroup, Representation};
use std::collections::HashSet;
use std::ffi::c_int;

/// Checks that the other side can be joined with this one, and reads its contact records. `ours` are the processes of our group. Of a
/// large job only the leader is compared.
pub fn check(remote: &Party, ours: &HashSet<Process>) -> Result<Contacts, Failure> {
    let (name, number) = (&remote.name, remote.representation);
    if Representation::from_number(number).is_none() {
        let text = format!("'{name}' lays out data in a way that is not known here ({number:#010x})");
        return Err(Failure::new(Class::Unsupported, text));
    }
    if remote.size > MAX_RANKS {
        let text = format!("'{name}' has {} ranks: at most {MAX_RANKS} are joined", remote.size);
        return Err(Failure::new(Class::Unsupported, text));
    }
    let members = contacts(&remote.records, remote.size);
    let members = members.map_err(|_| Failure::new(Class::Intern, format!("'{name}' sent damaged records")))?;
    if members.processes().any(|member| ours.contains(&member)) {
        return Err(with_itself());
    }
    Ok(members)
}

/// A process is a member of both sides.
pub fn with_itself() -> Failure {
    Failure::new(Class::Comm, "a process is in both jobs: a job cannot be joined to itself")
}

/// The contact records of our own group, which its leader has gathered.
pub fn gathered(records: &[u8], size: u32) -> Result<Contacts, Failure> {
    if size > MAX_RANKS {
        return Err(Failure::new(
            Class::Unsupported,
            format!("this job has {size} ranks: at most {MAX_RANKS} are joined"),
        ));
    }
    let damaged = |_| Failure::new(Class::Intern, "our own records are damaged");
    let contacts = Contacts::gathered(records, size).map_err(damaged)?;
    let bytes = contacts.bytes().len();
    if bytes > MAX_RECORDS {
        let text = format!("the contact records of this job take {bytes} bytes: at most {MAX_RECORDS} are exchanged");
        return Err(Failure::new(Class::Unsupported, text));
    }
    Ok(contacts)
}

/// Whether the group with this incarnation and cookie is led by the process with this contact record.
pub fn is_led_by(incarnation: u64, cookie: &[u8; 16], leader: &Contact) -> bool {
    node::incarnation(&leader.process, cookie) == incarnation
}

/// Whether a party with these members is the group with this incarnation, led by the process with this contact record: it speaks for
/// no other group.
pub fn is_of(remote: &Party, members: &Contacts, incarnation: u64, leader: &Contact) -> bool {
    remote.incarnation == incarnation && members.processes().next() == Some(leader.process)
}

/// The job of this name says that it is a group that it is not.
pub fn not_itself(name: &str) -> Failure {
    let text = format!("'{name}' says that it is a group that it is not: it is not joined");
    Failure::new(Class::Name, text)
}

/// What the leader tells its job.
pub struct Told {
    pub agreement: Agreement,
    /// The own job is large.
    pub is_large: bool,
}

impl Told {
    /// Which of both jobs are large.
    pub fn sides(&self) -> Sides {
        let remote = &self.agreement.remote;
        let asks = contacts(&remote.records, remote.size).is_ok_and(|contacts| contacts.root().is_some());
        Sides { is_large: self.is_large, asks }
    }
}

/// The bytes that the leader of a job of `size` ranks sends to it: the agreement, and the addresses at which it has reached the other
/// side.
pub fn tell(node: &Node, agreement: &Agreement, size: u32) -> Vec<u8> {
    let remote = &agreement.remote;
    let proofs = contacts(&remote.records, remote.size).map(|c| node.proofs(&c)).unwrap_or_default();
    let mut told = vec![u8::from(directory::is_large(size))];
    put(&mut told, agreement);
    proofs.encode(&mut told);
    told
}

/// Reads these bytes.
pub fn hear(node: &Node, told: &[u8]) -> Result<Told, Failure> {
    fn fields(mut told: Take<'_>) -> Result<(Told, Proofs), Malformed> {
        let is_large = told.u8()? != 0;
        let agreement = agreement(&mut told)?;
        let proofs = Proofs::decode(&mut told)?;
        told.end()?;
        Ok((Told { agreement, is_large }, proofs))
    }
    let (told, proofs) = fields(Take(told)).map_err(|_| damaged())?;
    node.learn(proofs);
    Ok(told)
}

fn damaged() -> Failure {
    Failure::new(Class::Intern, "what was told of the other job is damaged")
}

/// An agreement as bytes.
pub fn write(agreement: &Agreement) -> Vec<u8> {
    let mut told = Vec::new();
    put(&mut told, agreement);
    told
}

fn put(told: &mut Vec<u8>, agreement: &Agreement) {
    told.put_u64(agreement.context);
    agreement.remote.write_head(told);
    told.put_bytes(&agreement.remote.records);
}

fn agreement(told: &mut Take<'_>) -> Result<Agreement, Malformed> {
    let context = told.u64()?;
    let remote = Party::read_head(told)?;
    Ok(Agreement { context, remote: Party { records: told.bytes(MAX_RECORDS)?.to_vec(), ..remote } })
}

/// An agreement from bytes.
pub fn read(bytes: &[u8]) -> Result<Agreement, Failure> {
    let mut bytes = Take(bytes);
    agreement(&mut bytes).and_then(|agreement| bytes.end().map(|()| agreement)).map_err(|_| damaged())
}

/// The other side of an agreement.
pub struct Other {
    pub group: RemoteGroup,
    pub remote: Remote,
    /// The smaller of both sides' MPI_TAG_UB.
    pub tag_ub: c_int,
}

/// Reads the other side of an agreement. `tag_ub` is ours.
pub fn other(tag_ub: c_int, agreement: &Agreement) -> Result<Other, Failure> {
    let remote = &agreement.remote;
    let damaged = |_| Failure::new(Class::Intern, format!("'{}' sent damaged records", remote.name));
    let representation = Representation::from_number(remote.representation).ok_or(Malformed).map_err(damaged)?;
    let contacts = contacts(&remote.records, remote.size).map_err(damaged)?;
    let members = Members::all(contacts.clone());
    let group = RemoteGroup { incarnation: remote.incarnation, cookie: remote.cookie, contacts };
    base::ident::name_job(remote.incarnation, &remote.name);
    let foreign = Some(representation).filter(|r| *r != datatype::representation());
    if foreign.is_some() {
        base::log!(Info, "what comes from '{}' is converted: it lays out data otherwise", remote.name);
    }
    let tag_ub = tag_ub.min(c_int::try_from(remote.tag_ub).unwrap_or(c_int::MAX));
    Ok(Other { group, remote: Remote { name: remote.name.clone(), members, foreign, here: None }, tag_ub })
}

/// Opens the inter-communicator of an agreement, for the process `me`, over `shadow`. `directory`: its place, where one of both jobs is
/// large.
pub fn open(
    node: &Node,
    me: ProcId,
    (shadow, tag_ub): (Handle, c_int),
    agreement: &Agreement,
    directory: Option<&Directory>,
) -> Result<Inter, Failure> {
    let other = other(tag_ub, agreement)?;
    Ok(open_with(node, me, shadow, other, ContextId::root(agreement.context), directory))
}

/// Opens an inter-communicator with this other side.
pub fn open_with(
    node: &Node,
    me: ProcId,
    shadow: Handle,
    other: Other,
    context: ContextId,
    directory: Option<&Directory>,
) -> Inter {
    directory::acquaint(node, me, &other.group, directory);
    let id = node.open(me, &other.group, context);
    Inter::new(shadow, id, context, other.remote, other.tag_ub)
}
