//! What carries frames between processes: one folder a transport, and `stream`, lanes over any byte stream.
//!
//! The node uses this room, by way of the registry; it knows nothing of matching, paths or sessions.

#[cfg(test)]
mod conformance;
mod host;
pub mod registry;
pub mod shm;
pub mod sim;
pub mod stream;
pub mod tcp;
#[cfg(feature = "toy")]
pub mod toy;
pub mod transport;
