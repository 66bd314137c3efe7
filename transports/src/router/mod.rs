//! Routers: all processes of a host (of one user, with one key) share one, so each has one connection, and two hosts have one
//! between them.
//!
//! The registry calls [`open`], and then the traits of a transport. The router ([`switch`]) is in that process which has the local name, and
//! is turned by its calls and by a thread ([`host`]); when it dies, another one takes the name ([`post`]). Each process has one [`trunk`] to it, which carries
//! channels ([`frame`], [`channel`]); the handshake of every transport over streams goes through a channel from end to end, so a
//! router sees names and sizes only. Nothing here blocks but the start, for a moment.

mod accept;
mod address;
mod bell;
mod channel;
mod conn;
mod departed;
mod dial;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
mod into;
mod lane;
mod line;
mod local;
mod open;
mod own;
mod pipe;
mod post;
mod switch;
mod trunk;

pub(crate) use address::ABOUT;
pub(crate) use lane::RouterLane;
pub(crate) use open::{Settings, open};

#[cfg(test)]
mod tests;
