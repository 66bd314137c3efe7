//! The driver of one process: it hands events of its descriptors to the session, and carries out the session's actions.
//!
//! It owns the lock, the background thread, the waiting, user memory and single copy. It knows no transport by name,
//! and nothing of MPI. The shim uses this crate and none of the crates below it. All state is one [`Core`] behind one
//! lock, which is never held across a sleep.
//!
//! `node` is the interface. `core` and `state` hold the state, and `round` makes progress. `handshakes` drives the
//! connections that are being made, `polled` the lanes in shared memory, `pull` the transfers by single copy.
//! `operations` has the calls for messages, and `paths` those for the path to another leader. `pace`, `wait` and
//! `thread` decide which thread makes progress when. `memory`, `shape`, `copy`, `convert`, `types` and `judge` handle
//! user data, and `waits` reports long waits. `control` serves operators, and files that
//! other jobs want, in threads of its own; `servers` reaches the processes that serve files of theirs.

#![warn(missing_docs)]

mod callbacks;
mod checkpoints;
mod config;
mod control;
mod convert;
mod copy;
mod core;
mod crowd;
mod entered;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handshakes;
mod hooks;
mod judge;
mod lock;
mod memory;
mod node;
mod operations;
mod pace;
mod paths;
mod polled;
mod pull;
mod put;
mod round;
mod servers;
mod shape;
mod shared;
mod signal;
mod state;
mod switching;
mod sys;
mod thread;
mod types;
mod wait;
mod waits;
mod watch;

pub use base::ProcId;
pub use base::protocol::message::READ_FROM;
pub use checkpoint as images;
pub use checkpoint::{AllRows, Besides, With};
pub use checkpoints::outcomes_matter;
pub use config::{Config, StartError, Trusts};
pub use convert::{Kind, Representation, Signature};
pub use engine::{
    ContextId, Envelope, Fault, Gone, MessageId, Mode, OpId, Outcome, Probe, Source, Tag, partitioned_tag, user_tag,
};
pub use entered::Waits;
pub use files;
pub use lock::Guard;
pub use memory::Layout;
pub use node::Node;
pub use servers::{Aside, Server};
pub use session::Hold;
pub use session::leaders;
pub use session::{Called, CannotMove, Directory, Group, InterId, Obstacle, PathRef, Proofs, RemoteGroup};
pub use shape::Shape;
pub use signal::hold_on_signal;
pub use state::Core;
pub use state::callbacks::{Function, OnHold};
pub use state::checkpoints::{Opened, Place};
pub use state::waits::About;
pub use switching::{CannotUse, Moved, NoTransport};
pub use transports::registry::{Allowed, Settings, at_addresses, ip_addresses};
pub use trust::{incarnation, public_number};
pub use types::{Element, F90_COMPLEX, F90_INTEGER, F90_REAL, Signed, Types, Wrong};
pub use waits::with_tag;
pub use wire::control as figures;
pub use wire::ranges::{above, below};
pub use wire::{Contact, Contacts};

/// The root over the contact records of a group, and the record of its leader, in place of all. `None`: there is no such rank.
pub fn rooted(contacts: &Contacts, leader: u32) -> Option<Contacts> {
    wire::ranges::rooted(contacts, leader, trust::digest)
}
