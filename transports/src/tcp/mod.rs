//! TCP: which addresses a process listens on, how it says where it is, how two processes shake hands, and lanes of one or
//! several connections.
//!
//! Everything outside comes in by [`open`] and the traits of the registry. Nonblocking throughout: the node owns the events
//! of the descriptors.

mod accept;
mod address;
mod attempt;
mod dial;
mod ifaces;
mod lane;
mod listen;
mod open;
mod order;
mod socket;

pub use address::{ABOUT, addresses, entry};
pub use ifaces::{IfaceError, choose};
pub use lane::TcpLane;
pub use listen::{ListenError, Listeners, PortRange};
pub use open::{Settings, open};
pub use socket::Socket;

use accept::Halfway;
use address::{MAX_ADDRESSES, place};
use ifaces::{Own, own};
use order::ways;
use socket::{is_connected, start_connect};

#[cfg(test)]
mod tests;
