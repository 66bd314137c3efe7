//! TCP: the addresses that a process listens on, its entry in the contact record, the handshake, and lanes of one or several
//! connections.
//!
//! The registry calls [`open`], and then the traits of a transport. Nothing here blocks: the node watches the descriptors.

mod accept;
mod address;
mod attempt;
mod dial;
mod ifaces;
mod lane;
mod listen;
mod open;
mod order;
mod reach;
mod socket;

pub(crate) use address::{ABOUT, addresses, entry};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use address::{address, place as place_of};
pub use ifaces::{IfaceError, choose};
pub(crate) use lane::TcpLane;
pub use listen::PortRange;
pub(crate) use open::Settings;
pub(crate) use open::open;

use accept::Accept;
use address::{MAX_ADDRESSES, place};
use ifaces::{Iface, own};
use listen::{ListenError, Listeners};
use order::ways;
use socket::{Socket, is_connected, start_connect};

#[cfg(test)]
mod tests;
