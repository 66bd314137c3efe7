//! What is said between a process, its router and other routers, and the entry of a process that has one.

use crate::Target;
use transports::fuzzing::router::{holds, seeds};

/// All of them: each input is read as each.
pub const ROUTER: Target = Target { run, seeds, longest: 256, memory: 4 << 10 };

fn run(input: &[u8]) {
    assert!(holds(input));
}
