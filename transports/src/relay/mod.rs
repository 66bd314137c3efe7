//! Relays: processes that cannot reach each other meet at a third place, which joins their connections.
//!
//! The registry calls [`open`], and then the traits of a transport. A process waits at its relays ([`posts`]); who dials it asks
//! a relay for it, by its process number, and the handshake of every transport over streams then goes from end to end. The
//! relay's own side of what is said is here too ([`Visitor`]), for the program that is one. Nothing here blocks.

mod accept;
mod address;
mod ask;
mod dial;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lane;
mod message;
mod open;
mod posts;
mod visitor;

pub(crate) use address::ABOUT;
pub use address::DEFAULT_PORT;
pub use ask::{Asked, Asking, Standing};
pub(crate) use lane::RelayLane;
pub use message::{Answer, Request};
pub(crate) use open::{Settings, open};
pub use visitor::{Visit, Visitor};

#[cfg(test)]
mod tests;
