//! What a server knows of one name. The names alone use this.

use crate::record::Key;
use crate::server::owner::Owner;
use crate::wire::Token;
use std::time::Instant;

/// The memory of a name besides its texts, in bytes: its entries in two tables, and what the allocator adds.
pub(super) const OVERHEAD: usize = 512;

/// The number of the connection by which a claim or renewal came.
pub(in crate::server) type By = u64;

/// A name's claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The written record, and the same without secrets.
    pub bytes: Box<[u8]>,
    pub shown: Box<[u8]>,
    pub owner: Owner,
    pub token: Token,
    /// The number of the claim.
    pub number: u64,
    /// The end of the lease.
    pub until: Instant,
    pub by: By,
    /// The holder's connection has ended since the last renewal.
    pub doubtful: bool,
}

impl Entry {
    /// Its memory, in bytes.
    pub(super) fn cost(&self, key: &Key) -> usize {
        key.name.len() + key.run.len() + self.bytes.len() + self.shown.len() + OVERHEAD
    }
}
