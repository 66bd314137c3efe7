//! Who may connect: the keys of a user, the identity of a process, the handshake that proves both, and the records that
//! protect what follows it (docs/security.md).
//!
//! The transports and the naming service use this crate, and it knows neither. It opens no socket: bytes go in and come out.
//! The one file that it touches is the key file. Invariants: a process that does not prove the key learns nothing but the
//! identifier of ours, and costs no public-key operation; no nonce is used twice under one key; a record that was changed,
//! repeated, reordered or left out ends the connection, and nothing of it is delivered.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

// With this feature a thread may have primitives that protect nothing.
#[cfg(all(feature = "fuzzing", not(debug_assertions)))]
compile_error!("the feature `fuzzing` is for fuzz targets alone, which are built with debug assertions");

mod crypto;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod greeting;
mod handshake;
mod identity;
mod key;
mod process;
mod records;
mod ring;
#[cfg(any(test, feature = "fuzzing"))]
mod toy;

pub use file::{FileError, KeyFile};
pub use greeting::{Encrypt, GREETING, MOST_PROOF, Protocol, Refused, host_of, is_near};
pub use handshake::{Answering, Channel, Dialling, Progress, Refusal, dial};
pub use identity::{Identity, incarnation};
pub use key::{Key, KeyId, ParseError, digest, public_number};
pub use process::Trust;
pub use records::{Broken, Inbox, MOST_RECORD, Outbox};
pub use ring::Ring;
