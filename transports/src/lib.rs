//! Transports, which carry frames between processes: one folder for each, and `stream`, lanes over any byte stream.
//!
//! The node uses this crate by way of the [`registry`]. Nothing here knows of matching, paths or sessions. [`sim`] holds
//! simulated lanes for tests.
#![warn(missing_docs)]

#[cfg(test)]
mod conformance;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
pub mod registry;
mod shm;
pub mod sim;
pub mod stream;
mod tcp;
#[cfg(feature = "toy")]
mod toy;
pub mod transport;
