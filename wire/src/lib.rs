//! What travels between processes, as bytes and as the types that stand for them: frames, HELLO and HELLO-ACK, contact
//! records; and what a lane is that carries frames.
//!
//! The session and the transports use this room; it knows neither. Invariant: decoding is strict, allocates no more than the
//! documented limits, and never panics, whatever the other side sends.

#![forbid(unsafe_code)]

pub mod contact;
pub mod frame;
pub mod hello;
pub mod lane;
pub mod transport;

pub use contact::Contact;
pub use hello::{Hello, HelloAck, Status};
pub use transport::{About, Place, Scope, TransportId};
