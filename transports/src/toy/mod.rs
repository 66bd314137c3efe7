//! A transport for tests, and an example of the least that a transport has to do: two pipes between nodes of one process.
//!
//! The dialling side leaves the other side's ends of the pipes at its listener, in a table of this process. All else is that of
//! any byte stream. It is built with the feature `toy`, and used if `MPI_CONNECT_LANES` names it.

mod dial;
mod listener;
mod pipes;

pub(crate) use dial::Settings;
pub(crate) use dial::{ABOUT, open};
pub(crate) use pipes::ToyLane;

use listener::{Listener, connect};
use pipes::Pipes;

#[cfg(test)]
crate::conformance::suite!(toy, |place, _| connect(&place.address));
