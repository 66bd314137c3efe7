//! The leaders' protocols: how two leaders agree on an inter-communicator (`talk`, over `negotiation`), how a port agrees with
//! whoever comes (`accept`), and in which turn a port dials those that ask for it (`turns`).
//!
//! Part of the session: the MPI face asks how it stands, and waits. Invariant: time limits hold here alone, for set-up.

mod accept;
pub(crate) mod negotiation;
mod records;
mod talk;
mod turns;

pub use crate::state::talk::Turn;
pub use negotiation::*;
pub use records::contacts;
pub use turns::{MOST_CALLED, Turns};
