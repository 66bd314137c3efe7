//! What is said to a relay and by it, and the entry of a process that waits at relays.

use crate::Target;
use transports::fuzzing::relay::{holds, seeds};

/// All of them: each input is read as each.
pub const RELAY: Target = Target { run, seeds, longest: 256, memory: 4 << 10 };

fn run(input: &[u8]) {
    assert!(holds(input));
}
