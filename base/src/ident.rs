//! Identity: never an address, never a native id.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Read;

/// One process as others know it: the incarnation of the group it was registered with, and its rank there.
///
/// An incarnation is a random 64-bit number drawn when a name is registered, so whatever a killed job left
/// behind (a name, a frame on the wire) can never be taken for the job that follows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcId {
    pub incarnation: u64,
    pub rank: u32,
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}#{}", self.incarnation, self.rank)
    }
}

/// Fills `N` bytes from the kernel's random source.
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut out))
        .expect("/dev/urandom gives random bytes");
    out
}
