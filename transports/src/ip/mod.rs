//! What the transports have in common whose handshake goes over an IP connection: the addresses to listen on, sockets, dials,
//! and probes.
//!
//! Used by their folders; it is no transport. Nothing here blocks.

mod address;
mod dial;
mod ifaces;
mod listen;
mod order;
mod reach;
mod socket;

pub(crate) use address::{MAX_ADDRESSES, host_part, place_through, put, put_all, take, take_all, unplace_through};
pub(crate) use dial::{Dial, Dialling, Touch};
pub use ifaces::{IfaceError, choose};
pub use listen::PortRange;
pub(crate) use listen::{Kept, ListenError, Listeners};
pub(crate) use order::Ways;
pub(crate) use socket::{Socket, is_connected, start_connect};
