//! TCP: which addresses a process listens on, how it says where it is, how two processes shake hands, and the byte
//! stream under a stream lane. Nonblocking throughout: the node owns the descriptors' events and the clock.

mod accept;
mod contact;
mod dial;
mod hello;
mod ifaces;
mod listen;
mod order;
mod socket;

pub use accept::{Arrived, HANDSHAKE_LIMIT, Halfway};
pub use contact::{Contact, MAX_ADDRESSES};
pub use dial::{Outcome, Race, Refusal};
pub use hello::{HELLO_ACK_LEN, HELLO_LEN, Hello, HelloAck, HelloError, Status, VERSION};
pub use ifaces::{IfaceError, Own, choose, own};
pub use listen::{ListenError, Listeners, PortRange, own_contact};
pub use order::{is_link_local, ways};
pub use socket::{Socket, is_connected, start_connect};
