//! A relay: processes that cannot reach each other meet at it (docs/relay.md).
//!
//! The command runs a [`Relay`]. Processes wait at it under their process numbers, which they prove; who calls one is joined to a
//! connection that this one makes. From then on bytes go to and fro as they are, and the two processes prove themselves to each
//! other, and encrypt, through it. Invariants: nothing is done for who has not proved the key; no process waits under the number
//! of another one; whatever others do, memory and descriptors stay within limits.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod conn;
mod joined;
mod places;
mod room;
mod server;
mod table;
mod way;

pub use server::{ListenError, Relay};
