//! Shared memory: lanes between processes of one host.
//!
//! A process listens at an abstract socket named after its process number ([`Door`]). Who comes there says HELLO as over
//! TCP, and brings what the other side needs to send to it: the board on which senders leave word, and the descriptor that
//! wakes it. The answer brings the same, and the memory of both directions. When the dialling side has mapped that, it says
//! so, and both have a [`ShmLane`]. The connection stays as the sign of life.
//!
//! `ground` is what shared memory looks like to the algorithms (`ring`, `room`, `board`), `segment` the mapped kind;
//! `rights` are local connections that carry descriptors, `hello`, `dial` and `accept` the handshake; `peek` reads the
//! other side's memory. When a process is killed, nothing of all this is left: neither memory nor name has a place in any
//! folder.

mod accept;
mod board;
mod dial;
mod fence;
mod ground;
mod hello;
#[cfg(test)]
mod killed;
mod lane;
#[cfg(test)]
mod model;
mod open;
mod peek;
mod rights;
mod ring;
mod room;
mod segment;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tests;

pub use board::BITS;
pub use hello::Own;
pub use lane::{CHUNK, ShmLane};
pub use open::{ABOUT, Looked, Settings, open};
pub use peek::Readable;

use rights::Door;
