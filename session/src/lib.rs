//! Connection management without I/O: which process is connected to which, as plain data stepped by events.
//!
//! Whoever drives a [`Session`] (the node; the simulator) tells it what has happened: somebody has come, a dial was answered,
//! a lane has died, time has passed. It gives back [`Action`]s: dial there, answer so, watch this lane. It owns the engine, a
//! path to every peer and the lanes under them, of which it knows only the trait. Invariants: no descriptor, clock, thread or
//! MPI is known here, and all but lanes can be written to disk; what comes from outside never makes it panic.
//!
//! `pair` is the state of one peer; `pairs`, `groups` and `inters` the tables. How a peer gets a lane: `dial` (our side),
//! `race` (several addresses at once), `answer` (their side), `strangers` (who is not known yet), `lanes`. How it is judged:
//! `evidence` (of deaths), `hosts` (who can be reached), `life` (silence), `wanted` (who is waited for). How it ends: `leave`.
//! `traffic` carries messages between engine, paths and lanes; `leaders` is how two jobs agree.

#![forbid(unsafe_code)]

mod action;
mod agenda;
mod answer;
mod dial;
mod evidence;
mod groups;
mod hosts;
mod inters;
mod lanes;
pub mod leaders;
mod leave;
mod life;
mod lossy;
mod obstacle;
mod pairs;
pub mod path;
#[cfg(feature = "plant")]
mod plant;
mod snapshot;
mod state;
mod strangers;
mod swap;
mod traffic;
mod visitors;
mod wanted;

pub use action::{Action, AttemptId, ProbeId, VisitorId};
pub use agenda::TICK;
pub use obstacle::Obstacle;
#[cfg(feature = "plant")]
pub use plant::Plant;
pub use snapshot::SnapshotError;
pub use state::evidence::Refusal;
pub use state::groups::{Group, RemoteGroup};
pub use state::hosts::Proofs;
pub use state::inters::InterId;
pub use state::pair::{Asks, NewLane, Pair, PathRef, Up};
pub use state::talk::Called;
pub use state::{Own, Session};
pub use traffic::Received;
