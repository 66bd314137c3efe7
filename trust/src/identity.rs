//! The identity of a process: a key pair that is drawn when it starts, and its process number.
//!
//! Invariant: the process number is a hash of the public key, so a process that proves its key proves its number. The secret
//! half never leaves the process.

use crate::crypto;
use crate::key::{hash, public_number};
use std::fmt;
use zeroize::Zeroizing;

/// A process's own key pair.
pub struct Identity {
    secret: Zeroizing<[u8; 32]>,
    process: [u8; 16],
}

impl Identity {
    /// A new key pair, from the kernel's random source.
    pub fn new() -> Identity {
        Identity::from_secret(base::ident::random())
    }

    /// The key pair with this secret half. For tests alone, in which another process has to know the number.
    pub fn from_secret(secret: [u8; 32]) -> Identity {
        let secret = Zeroizing::new(secret);
        let process = process_number(&crypto::public(&secret));
        Identity { secret, process }
    }

    /// The process number.
    pub fn process(&self) -> [u8; 16] {
        self.process
    }

    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

impl Default for Identity {
    fn default() -> Identity {
        Identity::new()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:02x?})", self.process)
    }
}

/// The incarnation of the group that this process leads and that has this cookie. So nobody else's group has it.
pub fn incarnation(leader: &[u8; 16], cookie: &[u8; 16]) -> u64 {
    public_number("mpi-connect registration", [*leader, *cookie].as_flattened())
}

/// The number of the process with this public key: the first 16 bytes of a hash of it.
pub(crate) fn process_number(public: &[u8; 32]) -> [u8; 16] {
    *hash("mpi-connect process", public).first_chunk().expect("it is longer")
}
