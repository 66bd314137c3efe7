//! TCP: its entry in the contact record, the handshake, and lanes of one or several connections.
//!
//! The registry calls [`open`], and then the traits of a transport. Nothing here blocks: the node watches the descriptors.

mod accept;
mod address;
mod command;
mod lane;
mod open;

pub(crate) use address::{ABOUT, addresses, entry};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use address::{address, place as place_of};
pub use command::{Commanding, Heard, Unheard};
pub(crate) use lane::TcpLane;
pub(crate) use open::Settings;
pub(crate) use open::open;

use accept::Accept;
use address::place;

#[cfg(test)]
mod tests;
