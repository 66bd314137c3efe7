//! The leaders' protocols: how two leaders agree on an inter-communicator (`talk`, over `negotiation`), how a port
//! agrees with its callers (`accept`), and in which order a port dials those that have posted a dial request (`turns`).
//!
//! Part of the session: the shim asks for the next step, and waits in between. Invariant: only these protocols have time
//! limits; messages have none.

mod accept;
pub(crate) mod negotiation;
mod records;
mod talk;
mod turns;

pub use crate::state::talk::Turn;
pub(crate) use negotiation::still_missing;
pub use negotiation::{Agreement, Looking, MAX_NAME, MAX_RANKS, MAX_RECORDS, Party, Registered, looking, who_offers};
pub use records::contacts;
pub use turns::{MOST_CALLED, Turns};
