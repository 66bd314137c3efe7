//! One process's end: drives its session (epoll, lock, thread, waiting, user memory, single copy). It carries events in and
//! actions out, and knows no transport by name. The MPI face uses this room and no other below it; nothing here knows MPI.
//! All state sits in one [`Core`] behind one lock, which is never held across a sleep.
//!
//! `core` is what there is, `round` how it moves, `doors` handshakes, `polled` lanes that are looked at, `pull` data read from
//! others' memory, `operations` what is asked of it for a message, `paths` for a path to another leader, `pace`, `wait` and
//! `thread` who makes progress when, `memory` and `convert` user data, `waits` who waits for whom.

mod config;
mod convert;
mod copy;
mod core;
mod crowd;
mod doors;
mod entered;
mod hooks;
mod memory;
mod node;
mod operations;
mod pace;
mod paths;
mod polled;
mod pull;
mod round;
mod shape;
mod shared;
mod state;
mod sys;
mod thread;
mod types;
mod wait;
mod waits;
mod watch;

pub use base::ProcId;
pub use config::{Config, StartError};
pub use convert::{Kind, Representation, Signature};
pub use engine::{
    ContextId, Envelope, Fault, Gone, MessageId, Mode, OpId, Outcome, Probe, Source, Tag, partitioned_tag, user_tag,
};
/// For the check of types.
pub use entered::Waits;
pub use memory::Layout;
pub use node::Node;
pub use session::leaders;
pub use session::{Called, Group, InterId, Obstacle, PathRef, Proofs, RemoteGroup};
pub use shape::Shape;
pub use state::Core;
pub use state::waits::About;
pub use transports::registry::{Allowed, Settings, at_addresses, ip_addresses};
pub use types::{Element, F90_COMPLEX, F90_INTEGER, F90_REAL, Signed, Types, Wrong};
pub use waits::with_tag;
pub use wire::Contact;
