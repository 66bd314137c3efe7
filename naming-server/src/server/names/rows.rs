//! Names as the rows of a ledger. The names alone use this.
//!
//! Invariant: every row is read as it was written, or refused; the first byte of a row's key tells what it is.

use super::entry::Entry;
use crate::record::{Key, MAX_RECORD, Record};
use crate::server::owner::Owner;
use crate::wire::Token;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the rows.
pub(super) const VERSION: u16 = 1;

/// A row of a ledger. The order of the variants is the first byte of their keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum RowId {
    /// The one that is written each time.
    State,
    /// A name and its claim.
    Name(Key),
    /// The end of its lease, which changes more often.
    Lease(Key),
    /// A released token.
    Ended(Token),
    /// The last number of a name that is gone, by its hash.
    Gone(u128),
}

/// The row that is written each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub version: u16,
    /// How long servers of this ledger have run.
    pub ran: Duration,
    /// The largest number of a claim, and of a forgotten one.
    pub last: u64,
    pub floor: u64,
}

/// A name's claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    pub token: Token,
    pub number: u64,
    pub owner: Owner,
    pub record: Vec<u8>,
}

impl Named {
    pub(super) fn of(entry: &Entry) -> Named {
        Named { token: entry.token, number: entry.number, owner: entry.owner, record: entry.bytes.to_vec() }
    }
}

pub(super) fn key_bytes(key: &Key) -> Vec<u8> {
    bytes(key)
}

/// The bytes of a key or a value.
pub(super) fn bytes(value: &impl Serialize) -> Vec<u8> {
    // Writing to a vector cannot fail, and none of these types refuses.
    postcard::to_extend(value, Vec::new()).unwrap_or_default()
}

/// A key or value, if these are its whole bytes.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// The record of a row, if it is that of the key.
pub(super) fn record(key: &Key, bytes: &[u8]) -> Option<Record> {
    (bytes.len() <= MAX_RECORD).then_some(())?;
    Record::decode(bytes).ok().filter(|record| record.key() == *key)
}

/// The version of a state row: its first number in all versions.
pub(super) fn read_version(bytes: &[u8]) -> Option<u16> {
    postcard::take_from_bytes(bytes).ok().map(|(version, _)| version)
}
