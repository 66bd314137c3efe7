//! What code that does not know a transport has to know of it: its number, its names, its scope, and the places that it
//! dials.

use base::bytes::{Malformed, Put, Take};
use base::protocol::transport::ON_TRIAL;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a transport on the wire ([`base::protocol::transport`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransportId(u8);

impl TransportId {
    /// The transport with this number. For the constants of the registry's transports alone (`ABOUT` in each folder):
    /// nobody else tells transports by their numbers.
    pub const fn registered(number: u8) -> TransportId {
        TransportId(number)
    }

    /// Whether it is used only where the user names it.
    pub const fn is_on_trial(self) -> bool {
        self.0 >= ON_TRIAL
    }

    /// Appends its number to `out`.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u8(self.0);
    }

    /// Takes a number off the front.
    pub fn take(from: &mut Take<'_>) -> Result<TransportId, Malformed> {
        from.u8().map(TransportId)
    }
}

/// Which processes a transport reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Processes of the same host.
    Host,
    /// Processes of any host.
    Anywhere,
    /// Processes of any host, by way of another program that passes on what both say. What it says of a process is less than what
    /// the process's own host says.
    Passed,
}

/// A transport, as the session and the command know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its number on the wire.
    pub id: TransportId,
    /// Its name in `MPI_CONNECT_LANES`.
    pub word: &'static str,
    /// Its name in messages.
    pub title: &'static str,
    /// The processes that it reaches.
    pub scope: Scope,
    /// Milliseconds that a dial may take before the next transport is tried.
    pub limit: u64,
}

/// One address at which a transport can dial a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The transport that dials it.
    pub transport: TransportId,
    /// The address, in the transport's own format.
    pub address: Box<[u8]>,
    /// Bytes at the beginning of the address that are the same for all processes of a host.
    pub host_part: u8,
    /// The address as messages show it.
    pub text: Box<str>,
}

impl Place {
    /// Whether both are of one transport and lead to one host.
    pub fn is_same_host(&self, other: &Place) -> bool {
        self.transport == other.transport && self.host() == other.host()
    }

    /// Whether a place that was read from bytes has as long an address as it says.
    pub fn is_sound(&self) -> bool {
        usize::from(self.host_part) <= self.address.len()
    }

    /// The part of the address that all places of one host have in common.
    pub fn host(&self) -> &[u8] {
        &self.address[..usize::from(self.host_part)]
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
