//! Connection management without I/O: which process is connected to which, as plain data stepped by events.
//!
//! The driver of a [`Session`] (the node, or the simulator) reports events to it: a connection has come in, a dial was
//! answered, a lane has died, time has passed. The session gives back [`Action`]s: dial there, accept this connection,
//! watch this lane. It owns the engine, one path for each pair, and the lanes below the paths, which it knows only by
//! their trait.
//!
//! Invariants: the session knows no descriptor, clock, thread or MPI (`tests/layers/pure.rs` checks it). All its state but
//! the lanes can be serialised. Nothing that other processes send makes it panic.
//!
//! Modules: `state` holds the data, and the others act on it. A pair gets its lane by `dial` (our side; `state::race`
//! tries several places at once), `answer` (the other side's HELLO), `incoming` (pending handshakes), `strangers`
//! (processes without a contact record) and `lanes`; `directory` asks for records of large groups; `moves` has it go over to another transport, and `swap` to the
//! lane of that. A pair is judged by `evidence`
//! (of death), `hosts` (which hosts can be reached), `life` (silence), `hold` (those that are away) and `wanted` (whom a call waits for). A pair ends
//! in `leave`. `cuts` is about checkpoints. `traffic` carries messages between engine, paths and lanes. `leaders` is how two jobs agree. `snapshot`
//! writes and reads all of it, and `sound` judges what was read.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod action;
mod agenda;
mod answer;
mod cuts;
mod dial;
mod directory;
mod evidence;
mod figures;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod groups;
mod hold;
mod hosts;
mod incoming;
mod inters;
mod lanes;
pub mod leaders;
mod leave;
mod life;
mod lossy;
mod moves;
mod obstacle;
mod pairs;
pub mod path;
#[cfg(feature = "plant")]
mod plant;
mod snapshot;
mod sound;
mod state;
mod strangers;
mod swap;
mod traffic;
mod wanted;

pub use action::{Action, AttemptId, IncomingId, ProbeId};
pub use agenda::TICK;
pub use hold::Hold;
pub use moves::{Became, CannotMove, Ordered};
pub use obstacle::Obstacle;
#[cfg(feature = "plant")]
pub use plant::{Forgotten, Plant};
pub use snapshot::SnapshotError;
#[cfg(feature = "plant")]
pub use snapshot::forget;
pub use state::directory::Directory;
pub use state::evidence::Refusal;
pub use state::figures::Sum;
pub use state::groups::{Group, RemoteGroup};
pub use state::hosts::Proofs;
pub use state::inters::InterId;
pub use state::pair::{Agreed, Asks, NewLane, Pair, PathRef, Up};
pub use state::talk::Called;
pub use state::{Own, Session};
pub use traffic::{Received, SentNow};
