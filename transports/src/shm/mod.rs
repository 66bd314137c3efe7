//! Shared memory: lanes between processes of one host.
//!
//! A process listens at an abstract socket named after its process number ([`Listener`]). The dialling side says HELLO as over
//! TCP, and sends what the other side needs to wake it: the descriptors of its doorbell bitmap and of its eventfd. The answer
//! brings the same of the other side, and the descriptor of the memory of both directions. When the dialling side has mapped
//! that memory, it says READY, and both sides have a [`ShmLane`]. The connection stays open: its end shows that the other
//! process has died.
//!
//! `ring`, `payload`, `distance` and `doorbells` are the algorithms; `rights` are
//! local connections that carry descriptors; `hello`, `dial` and `accept` are the handshake; `peek` reads the other side's
//! memory, and `liveness` says whether that was its memory. A killed process leaves nothing behind, since neither the memory nor the socket has a name in a file system.

mod accept;
mod dial;
mod distance;
mod doorbells;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hello;
#[cfg(test)]
mod killed;
mod lane;
mod liveness;
#[cfg(test)]
mod model;
mod open;
mod payload;
mod peek;
mod rights;
mod ring;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tests;

pub(crate) use doorbells::BITS;
pub use hello::Doorbells;
pub(crate) use lane::ShmLane;
pub use liveness::Held;
pub use open::Polling;
pub(crate) use open::{ABOUT, Settings, open};
pub use peek::RemoteMemory;

use rights::Listener;
