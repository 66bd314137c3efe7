//! Transports, which carry frames between processes: one folder for each; `ip`, what those have in common whose handshake goes
//! over IP; and `stream`, lanes over any byte stream.
//!
//! The node uses this crate by way of the [`registry`]. Nothing here knows of matching, paths or sessions. [`sim`] holds
//! simulated lanes for tests.
#![warn(missing_docs)]

#[cfg(test)]
mod conformance;
pub mod control;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
mod ip;
mod memory;
pub mod registry;
mod relay;
mod router;
mod shm;
pub mod sim;
pub mod stream;
mod tcp;
#[cfg(feature = "toy")]
mod toy;
pub mod transport;
mod verbs;
