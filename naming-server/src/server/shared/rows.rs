//! Names as rows of a shared store. The shared names alone use this.
//!
//! Invariant: keys are in the order of [`Key`], for which names without control characters are needed; every value is read as it
//! was written, or refused; its first byte is the version of the rows.

use crate::record::{Key, Kind, Record};
use crate::server::owner::Owner;
use crate::wire::Token;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;
const NAME: &[u8] = b"n/";
const LEASE: &[u8] = b"l/";
const ENDED: &[u8] = b"e/";
/// The largest number of a name whose row is forgotten. It is changed whenever one is.
pub(super) const FLOOR: &[u8] = b"floor";

/// What the row of a name says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Row {
    Held(Held),
    /// It is free. `number` is that of its last claim.
    Gone {
        number: u64,
        /// The lease was over; otherwise it was released.
        over: bool,
    },
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub token: Token,
    /// The number of the claim; 0 if that is the revision that wrote this row.
    pub number: u64,
    pub owner: Owner,
    /// In milliseconds.
    pub lease: u32,
    pub record: Vec<u8>,
}

/// What a key leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id<'a> {
    /// A name: the key without its beginning.
    Name(&'a [u8]),
    Lease(&'a [u8]),
    Ended(Token),
    Floor,
    /// A row of somebody else.
    Other,
}

impl<'a> Id<'a> {
    pub(super) fn of(key: &'a [u8]) -> Id<'a> {
        if key == FLOOR {
            return Id::Floor;
        }
        match key.split_at_checked(2) {
            Some((NAME, rest)) => Id::Name(rest),
            Some((LEASE, rest)) => Id::Lease(rest),
            Some((ENDED, rest)) => rest.try_into().map_or(Id::Other, Id::Ended),
            _ => Id::Other,
        }
    }
}

/// What the rows of a name have in common. It keeps the order of keys.
pub(super) fn place(key: &Key) -> Vec<u8> {
    let kind = match key.kind {
        Kind::Job => 0,
        Kind::Port => 1,
        Kind::Coupling => 2,
    };
    [key.run.as_bytes(), &[0], key.name.as_bytes(), &[0], &[kind], &key.id.to_be_bytes()].concat()
}

pub(super) fn name(place: &[u8]) -> Vec<u8> {
    [NAME, place].concat()
}

pub(super) fn lease(place: &[u8]) -> Vec<u8> {
    [LEASE, place].concat()
}

pub(super) fn ended(token: Token) -> Vec<u8> {
    [ENDED, &token[..]].concat()
}

/// The keys of all names behind this place, or of all.
pub(super) fn names(after: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let from = after.map_or_else(|| NAME.to_vec(), |place| [NAME, place, &[0]].concat());
    (from, b"n0".to_vec())
}

pub(super) fn bytes(value: &impl Serialize) -> Vec<u8> {
    // Writing to a vector cannot fail, and none of these types refuses.
    postcard::to_extend(value, vec![VERSION]).unwrap_or_default()
}

pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes.strip_prefix(&[VERSION])?) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

impl Row {
    /// The row that this place has; its record is one of that name.
    pub(super) fn read(at: &[u8], value: &[u8]) -> Option<Row> {
        let row: Row = read(value)?;
        match &row {
            Row::Held(held) => (place(&Record::decode(&held.record).ok()?.key()) == at).then_some(row),
            Row::Gone { .. } => Some(row),
        }
    }
}

impl Held {
    /// The number of the claim of a row that this revision wrote.
    pub(super) fn number(&self, modified: u64) -> u64 {
        if self.number == 0 { modified } else { self.number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_lead_back() {
        let mut keys = Vec::new();
        for (run, name) in [("", "a"), ("", "ab"), ("", "b"), ("a", "a"), ("a", "b"), ("ab", ""), ("\u{e4}", "a")] {
            for kind in [Kind::Job, Kind::Port, Kind::Coupling] {
                keys.push(Key { id: 7, ..Key::of(run, kind, name) });
            }
        }
        keys.sort();
        let places: Vec<_> = keys.iter().map(place).collect();
        assert!(places.is_sorted() && places.windows(2).all(|two| two[0] != two[1]));
        for (at, next) in places.iter().zip(&places[1..]) {
            assert_eq!(Id::of(&name(at)), Id::Name(at));
            assert_eq!(Id::of(&lease(at)), Id::Lease(at));
            let (from, to) = names(Some(at));
            assert!(name(at) < from && from <= name(next) && name(next) < to);
        }
        assert_eq!(Id::of(&ended([3; 16])), Id::Ended([3; 16]));
        assert_eq!((Id::of(FLOOR), Id::of(b"e/short"), Id::of(b"x")), (Id::Floor, Id::Other, Id::Other));
    }

    #[test]
    fn values_are_read_or_refused() {
        let record = Record::new("ocean");
        let held =
            Held { token: [1; 16], number: 0, owner: Owner::User(7), lease: 15_000, record: record.encode().unwrap() };
        let (at, row) = (place(&record.key()), Row::Held(held));
        let value = bytes(&row);
        assert_eq!(Row::read(&at, &value), Some(row));
        assert_eq!(Row::read(&place(&Record::new("air").key()), &value), None, "of another name");
        (0..value.len()).for_each(|n| assert_eq!(Row::read(&at, &value[..n]), None));
        assert_eq!(Row::read(&at, &[&[VERSION + 1], &value[1..]].concat()), None, "of another version");
        assert_eq!(Row::read(&at, &[&value[..], &[0]].concat()), None);
    }
}
