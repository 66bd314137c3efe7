//! What is said of a transport to those that do not know it: its number, its names, its reach, and the places that it dials.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A transport's number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransportId(pub u8);

/// Which processes a transport reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of this host.
    Host,
    Anywhere,
}

/// What everybody else has to know of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    pub id: TransportId,
    /// In `MPI_CONNECT_LANES`.
    pub word: &'static str,
    /// For people.
    pub title: &'static str,
    pub scope: Scope,
    /// Milliseconds that a dial may take before another transport is tried.
    pub limit: u64,
}

/// One place at which a transport can dial a process: an address, in the transport's own bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub transport: TransportId,
    pub address: Box<[u8]>,
    /// How much of the address, from its beginning, is the same for all processes of a host.
    pub host_part: u8,
    /// For people.
    pub text: Box<str>,
}

impl Place {
    /// Whether both lead to one host.
    pub fn is_same_host(&self, other: &Place) -> bool {
        self.transport == other.transport && self.host() == other.host()
    }

    /// What all places of one host have in common.
    pub fn host(&self) -> &[u8] {
        &self.address[..usize::from(self.host_part)]
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
