//! The contact records of a whole group, in the order of ranks: each as what differs from the one before it.
//!
//! Leaders exchange them so, and so a process keeps them: the ranks of a job differ in their process number and their ports, and
//! mostly in nothing else. Of a large group there is the root of a tree over them instead ([`crate::ranges`]), and the leader's record.
//! Invariant: a group that was read or made has at least one rank, and a sound record for each of them or for the leader.

use crate::Contact;
use base::bytes::{Malformed, Put, Take};
use base::protocol::contact::{HASH, LIKE, ROOTED, WHOLE, WHOLE_EACH, head};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Differences with fewer equal bytes between them than this are one.
const GAP: usize = 3;
/// The most bytes of one difference.
const MOST: usize = u8::MAX as usize;

/// The contact records of a group (docs/protocol.md, "Contact records"). A copy costs nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Contacts(Arc<Group>);

#[derive(Debug, PartialEq, Eq)]
struct Group {
    size: u32,
    bytes: Box<[u8]>,
    what: What,
}

/// What the bytes are.
#[derive(Debug, PartialEq, Eq)]
enum What {
    /// The records of all ranks. Where those begin that are written whole.
    All(Box<[u32]>),
    /// The root, the leader's rank, and its record.
    Rooted([u8; HASH], u32, Contact),
}

/// What a snapshot has of it.
#[derive(Serialize, Deserialize)]
struct Written(u32, Vec<u8>);

impl From<Contacts> for Written {
    fn from(contacts: Contacts) -> Written {
        Written(contacts.len(), contacts.bytes().to_vec())
    }
}

impl TryFrom<Written> for Contacts {
    type Error = &'static str;

    fn try_from(Written(size, bytes): Written) -> Result<Contacts, &'static str> {
        Contacts::decode(&bytes, size).map_err(|_| "damaged contact records")
    }
}

impl Contacts {
    /// Reads the records of a group of `size` ranks. `Err`: there are more or fewer, or none.
    pub fn decode(bytes: &[u8], size: u32) -> Result<Contacts, Malformed> {
        u32::try_from(bytes.len()).map_err(|_| Malformed)?;
        if bytes.first() == Some(&ROOTED) {
            return Contacts::decode_rooted(bytes, size);
        }
        let mut read = Reader::at(bytes, 0);
        let mut wholes = Vec::new();
        for rank in 0..size {
            if rank.is_multiple_of(WHOLE_EACH) {
                wholes.push((bytes.len() - read.rest.0.len()) as u32);
            }
            read.next(rank)?;
        }
        if size == 0 {
            return Err(Malformed);
        }
        read.rest.end()?;
        Ok(Contacts(Arc::new(Group { size, bytes: bytes.into(), what: What::All(wholes.into()) })))
    }

    fn decode_rooted(bytes: &[u8], size: u32) -> Result<Contacts, Malformed> {
        let mut rest = Take(&bytes[1..]);
        let (root, rank, leader) = (rest.array()?, rest.u32()?, Contact::decode(&mut rest)?);
        rest.end()?;
        if rank >= size {
            return Err(Malformed);
        }
        Ok(Contacts(Arc::new(Group { size, bytes: bytes.into(), what: What::Rooted(root, rank, leader) })))
    }

    /// This root over these records, and the record of the leader, in place of all. `None`: there is no such rank.
    pub(crate) fn under(&self, root: [u8; HASH], leader: u32) -> Option<Contacts> {
        let record = self.get(leader)?;
        let mut bytes = vec![ROOTED];
        bytes.extend_from_slice(&root);
        bytes.put_u32(leader);
        record.encode(&mut bytes);
        let what = What::Rooted(root, leader, record);
        Some(Contacts(Arc::new(Group { size: self.len(), bytes: bytes.into(), what })))
    }

    /// The root, if it is here in place of the records.
    pub fn root(&self) -> Option<&[u8; HASH]> {
        match &self.0.what {
            What::All(_) => None,
            What::Rooted(root, ..) => Some(root),
        }
    }

    /// The rank of the leader, if its record is here alone.
    pub fn leader(&self) -> Option<u32> {
        match &self.0.what {
            What::All(_) => None,
            What::Rooted(_, rank, _) => Some(*rank),
        }
    }

    /// The records of one range, as they are on the wire. `None`: there is no such range, or these are not all records.
    pub(crate) fn range(&self, number: u32) -> Option<&[u8]> {
        let What::All(wholes) = &self.0.what else { return None };
        let start = *wholes.get(number as usize)? as usize;
        let end = wholes.get(number as usize + 1).map_or(self.0.bytes.len(), |end| *end as usize);
        self.0.bytes.get(start..end)
    }

    /// Reads the records of a group of `size` ranks that stand behind each other, as a leader has gathered them from its job.
    pub fn gathered(records: &[u8], size: u32) -> Result<Contacts, Malformed> {
        let mut rest = Take(records);
        let records = (0..size).map(|_| Contact::decode(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        rest.end()?;
        if records.is_empty() { Err(Malformed) } else { Ok(records.into()) }
    }

    /// The number of ranks.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.0.size
    }

    /// As they are on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The record of a rank. `None`: there is no such rank, or its record is not here.
    pub fn get(&self, rank: u32) -> Option<Contact> {
        let wholes = match &self.0.what {
            What::All(wholes) => wholes,
            What::Rooted(_, leader, record) => return (rank == *leader).then(|| record.clone()),
        };
        let first = rank - rank % WHOLE_EACH;
        let start = *wholes.get((first / WHOLE_EACH) as usize)?;
        if rank >= self.0.size {
            return None;
        }
        let mut read = Reader::at(&self.0.bytes, start as usize);
        (first..=rank).map(|rank| read.next(rank)).last()?.ok()
    }

    /// All records that are here, in the order of ranks.
    pub fn iter(&self) -> impl Iterator<Item = Contact> {
        let (all, leader) = match &self.0.what {
            What::All(_) => (self.0.size, None),
            What::Rooted(_, _, record) => (0, Some(record.clone())),
        };
        let mut read = Reader::at(&self.0.bytes, 0);
        leader.into_iter().chain((0..all).map_while(move |rank| read.next(rank).ok()))
    }

    /// The process numbers of these.
    pub fn processes(&self) -> impl Iterator<Item = [u8; 16]> {
        self.iter().map(|contact| contact.process)
    }
}

impl From<Vec<Contact>> for Contacts {
    /// # Panics
    /// If there is none.
    fn from(records: Vec<Contact>) -> Contacts {
        assert!(!records.is_empty(), "a group has members");
        let (mut bytes, mut wholes) = (Vec::new(), Vec::new());
        let (mut last, mut one) = (Vec::new(), Vec::new());
        for (rank, contact) in (0u32..).zip(&records) {
            one.clear();
            contact.encode(&mut one);
            let start = bytes.len();
            if rank.is_multiple_of(WHOLE_EACH) {
                wholes.push(start as u32);
            }
            if rank.is_multiple_of(WHOLE_EACH)
                || !put_differences(&mut bytes, &last, &one)
                || bytes.len() - start > one.len()
            {
                bytes.truncate(start);
                bytes.put_u8(WHOLE);
                bytes.extend_from_slice(&one);
            }
            std::mem::swap(&mut last, &mut one);
        }
        let what = What::All(wholes.into());
        Contacts(Arc::new(Group { size: records.len() as u32, bytes: bytes.into(), what }))
    }
}

/// Appends what differs between two records that are equally long. `false`: they are not, or differ in too much.
fn put_differences(out: &mut Vec<u8>, last: &[u8], one: &[u8]) -> bool {
    if last.len() != one.len() {
        return false;
    }
    out.put_u8(LIKE);
    out.extend_from_slice(&one[head::PROCESS..head::HOST]);
    let count = out.len();
    out.put_u8(0);
    let differs = |at: &usize| last[*at] != one[*at];
    let mut from = head::HOST;
    while let Some(start) = (from..one.len()).find(differs) {
        let mut end = start + 1;
        while let Some(next) = (end..one.len().min(end + GAP).min(start + MOST)).find(differs) {
            end = next + 1;
        }
        if out[count] == u8::MAX {
            return false;
        }
        out[count] += 1;
        out.put_u16(start as u16);
        out.put_u8((end - start) as u8);
        out.extend_from_slice(&one[start..end]);
        from = end;
    }
    true
}

/// Reads one record after the other.
struct Reader<'a> {
    rest: Take<'a>,
    /// The last record, as it is on the wire alone.
    last: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// From a record on that is whole.
    fn at(bytes: &'a [u8], start: usize) -> Reader<'a> {
        Reader { rest: Take(&bytes[start..]), last: Vec::new() }
    }

    fn next(&mut self, rank: u32) -> Result<Contact, Malformed> {
        match self.rest.u8()? {
            WHOLE => {
                let all = self.rest.0;
                let contact = Contact::decode(&mut self.rest)?;
                self.last.clear();
                self.last.extend_from_slice(&all[..all.len() - self.rest.0.len()]);
                Ok(contact)
            }
            LIKE if !rank.is_multiple_of(WHOLE_EACH) => {
                let process: [u8; 16] = self.rest.array()?;
                self.last[head::PROCESS..head::HOST].copy_from_slice(&process);
                for _ in 0..self.rest.u8()? {
                    let (at, len) = (usize::from(self.rest.u16()?), usize::from(self.rest.u8()?));
                    let (bytes, rest) = self.rest.0.split_at_checked(len).ok_or(Malformed)?;
                    let place = self.last.get_mut(at..at + len).filter(|_| at >= head::HOST).ok_or(Malformed)?;
                    place.copy_from_slice(bytes);
                    self.rest.0 = rest;
                }
                let mut all = Take(&self.last);
                let contact = Contact::decode(&mut all)?;
                all.end()?;
                Ok(contact)
            }
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportId;

    fn contact(host: u8, number: u32, length: usize) -> Contact {
        let [low, high, ..] = number.to_le_bytes();
        let tcp = [&[4, 10, 0, 0, host, low, high][..], &vec![low ^ 0xff; length]].concat();
        let mut process = [0; 16];
        process[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        process[4] = 1;
        Contact::new(process, [host; 16], [(TransportId::registered(1), &b""[..]), (TransportId::registered(2), &tcp)])
    }

    #[test]
    fn a_group_survives_the_wire_and_each_rank_is_found() {
        for shape in [|rank: u32| (rank / 64, 0), |rank| (rank, rank as usize % 3), |rank| (rank / 3, 400)] {
            let all: Vec<Contact> = (0..200).map(|rank| contact(shape(rank).0 as u8, rank, shape(rank).1)).collect();
            let made = Contacts::from(all.clone());
            let read = Contacts::decode(made.bytes(), 200).expect("what was written");
            assert_eq!(read, made);
            assert_eq!(read.iter().collect::<Vec<_>>(), all);
            assert!((0..200).all(|rank| read.get(rank).as_ref() == Some(&all[rank as usize])));
            assert_eq!(read.get(200), None);
            let mut behind_each_other = Vec::new();
            all.iter().for_each(|contact| contact.encode(&mut behind_each_other));
            assert_eq!(Contacts::gathered(&behind_each_other, 200), Ok(made.clone()));
            assert!(Contacts::gathered(&behind_each_other, 199).is_err() && Contacts::gathered(&[], 0).is_err());
            assert!(made.bytes().len() <= behind_each_other.len() + 200);
        }
    }

    #[test]
    fn ranks_of_one_host_cost_their_number_and_their_port() {
        let made = Contacts::from((0..320).map(|rank| contact(1, rank, 0)).collect::<Vec<_>>());
        // One of 32 is whole. The others have a mark, a process number, a count, and a difference of a byte or two.
        assert!(made.bytes().len() <= 320 * (1 + 16 + 1 + 3 + 2) + 10 * 60, "{}", made.bytes().len());
    }

    #[test]
    fn cut_or_bent_records_are_refused() {
        let all: Vec<Contact> = (0..40).map(|rank| contact(1, rank, 0)).collect();
        let bytes = Contacts::from(all).bytes().to_vec();
        for n in 0..bytes.len() {
            assert!(Contacts::decode(&bytes[..n], 40).is_err());
        }
        assert!(Contacts::decode(&bytes, 39).is_err() && Contacts::decode(&bytes, 41).is_err());
        let first = contact(1, 0, 0);
        let mut group = vec![WHOLE];
        first.encode(&mut group);
        let length = (group.len() - 1) as u16;
        let second = |differences: &[(u16, &[u8])]| {
            let mut bytes = group.clone();
            bytes.put_u8(LIKE);
            bytes.extend_from_slice(&[5; 16]);
            bytes.put_u8(differences.len() as u8);
            for (at, with) in differences {
                bytes.put_u16(*at);
                bytes.put_u8(with.len() as u8);
                bytes.extend_from_slice(with);
            }
            Contacts::decode(&bytes, 2)
        };
        assert!(second(&[(length - 1, &[1])]).is_ok());
        // Beyond the record; in the process number; another count of entries than there are; not all differences.
        for bad in [(length, &[1][..]), (length - 1, &[1, 1]), (1, &[1]), (0, &[2]), (33, &[1]), (33, &[3])] {
            assert!(second(&[bad]).is_err(), "{bad:?}");
        }
        assert!(Contacts::decode(&[&group[..], &[LIKE]].concat(), 2).is_err());
        assert!(Contacts::decode(&[LIKE; 30], 1).is_err(), "the first is like none");
    }
}
