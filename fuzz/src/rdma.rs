//! What the transport over RDMA devices reads of others: its entry in a contact record, queue pairs, and what is to be read.

use crate::Target;
use transports::fuzzing::rdma::{holds, seeds};

/// All of them: each input is read as each.
pub const RDMA: Target = Target { run, seeds, longest: 1200, memory: 64 << 10 };

fn run(input: &[u8]) {
    assert!(holds(input));
}
