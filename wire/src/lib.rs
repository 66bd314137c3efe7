//! What travels between processes, as types and as bytes: frames, HELLO and HELLO-ACK, and contact records. The trait
//! of a lane, which carries frames, is here too.
//!
//! The session and the transports use this crate, and it uses neither. Invariant: decoding is strict, allocates no more
//! than the limits of docs/limits.md, and never panics, whatever the other side sends.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod contact;
pub mod contacts;
pub mod control;
pub mod frame;
pub mod hello;
pub mod lane;
pub mod ranges;
pub mod transport;

pub use contact::Contact;
pub use contacts::Contacts;
pub use hello::{Hello, HelloAck, Move, Status, Why};
pub use transport::{About, Place, Scope, TransportId};
