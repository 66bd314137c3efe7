//! What several servers share: rows, changed by transactions that all of them see in one order. `mpi-connect serve --store
//! etcd://…` brings one; the server's shared names are the only user.
//!
//! Invariant: a revision counts the changes of the whole store, so it only grows; a row's `modified` is the revision of its last
//! change, and 0 while there is no such row.

use std::error::Error;
use std::fmt::{Display, Formatter, Result as Formatted};
use std::time::Duration;

/// A row that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision of its last change.
    pub modified: u64,
}

/// What has to hold for a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The row was last changed by exactly this revision.
    Modified(Vec<u8>, u64),
    /// The row was not changed after this revision.
    Before(Vec<u8>, u64),
}

/// A step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes a row.
    Put(Vec<u8>, Vec<u8>),
    /// Removes a row.
    Delete(Vec<u8>),
    /// Reads a row.
    Get(Vec<u8>),
    /// Reads the rows from the first key on and before the second, at most so many.
    Range(Vec<u8>, Vec<u8>, u32),
}

/// Steps that are done together if all of `when` holds, and others if not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// What is compared.
    pub when: Vec<Compare>,
    /// The steps if it holds.
    pub then: Vec<Op>,
    /// The steps if it does not.
    pub otherwise: Vec<Op>,
}

/// What a transaction has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether what was compared held.
    pub held: bool,
    /// The rows that each step has read; none for the other steps.
    pub read: Vec<Vec<Cell>>,
}

/// A row was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its key.
    pub key: Vec<u8>,
    /// What it has now; `None` if it is gone.
    pub value: Option<Vec<u8>>,
    /// What it had before.
    pub before: Option<Vec<u8>>,
    /// By which revision.
    pub modified: u64,
}

/// A store that several servers share.
pub trait SharedStore: Send {
    /// Runs these transactions, which write no row twice, as one: their comparisons are made before any of their steps. Returns the
    /// revision at that moment and each outcome. After an error they may be done, or be done later.
    fn transact(&mut self, txns: &[Txn], patience: Duration) -> Result<(u64, Vec<Outcome>), SharedError>;
    /// All rows, at one revision.
    fn snapshot(&mut self) -> Result<(u64, Vec<Cell>), SharedError>;
    /// What tells of changes, for a thread of its own.
    fn watcher(&self) -> Box<dyn SharedWatch>;
}

/// Tells of changes.
pub trait SharedWatch: Send {
    /// Calls `each` with the changes from this revision on: in order, whole revisions, none left out. Returns after some seconds, when
    /// `each` says false, or after an error; the caller then goes on behind the last revision that it was told. `lags` is true when the
    /// caller knows that there is more than this source has told.
    fn changes(&mut self, from: u64, lags: bool, each: &mut dyn FnMut(Vec<Event>) -> bool) -> Result<(), SharedError>;
}

/// Why a shared store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedError {
    /// It is not reached, or has no majority: why.
    Away(String),
    /// It refuses: the user may not, or what it was asked cannot be.
    Refused(String),
    /// It has no room.
    Full(String),
    /// The changes before this revision are not known any more.
    Compacted(u64),
    /// It holds what no version writes.
    Damaged(String),
}

impl Display for SharedError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            SharedError::Away(why) => write!(f, "it is not reached: {why}"),
            SharedError::Refused(why) => write!(f, "it refuses: {why}"),
            SharedError::Full(why) => write!(f, "it has no room: {why}"),
            SharedError::Compacted(at) => write!(f, "its changes before revision {at} are not known any more"),
            SharedError::Damaged(why) => write!(f, "it is damaged: {why}"),
        }
    }
}

impl Error for SharedError {}
