//! A transport for tests, and an example of what one takes: two pipes between nodes of one process.
//!
//! Who dials leaves the other side's ends at its door, in a table of this process; all else is what every byte stream has.
//! It is built with the feature `toy` alone, and used where `MPI_CONNECT_LANES` names it.

mod dial;
mod door;
mod pipes;

pub use dial::{ABOUT, Settings, open};
pub use pipes::ToyLane;

use door::{Door, knock};
use pipes::Pipes;

#[cfg(test)]
crate::conformance::suite!(toy, |place| knock(&place.address));
