//! The state of the core as data. The files beside this folder act on it.

pub mod callbacks;
pub mod checkpoints;
pub(crate) mod handshakes;
pub(crate) mod operations;
pub(crate) mod operators;
pub(crate) mod pace;
pub(crate) mod polled;
pub(crate) mod pulls;
pub(crate) mod waits;
pub(crate) mod ways;

use crate::memory::Buffers;
use crate::state::callbacks::Callbacks;
use crate::state::checkpoints::Checkpoints;
use crate::state::handshakes::Handshakes;
use crate::state::operations::Operations;
use crate::state::operators::Operators;
use crate::state::pace::Pace;
use crate::state::polled::PolledLanes;
use crate::state::pulls::Pulls;
use crate::watch::Watch;
use session::Session;
use std::sync::Arc;
use std::time::Instant;
use transports::registry::{AnyLane, Registry};
use trust::Trust;

/// The state of one process under the node's lock: its session, its transports and lanes, and its operations.
pub struct Core {
    pub(crate) session: Session<AnyLane, Buffers>,
    pub(crate) registry: Registry,
    pub(crate) trust: Arc<Trust>,
    pub(crate) handshakes: Handshakes,
    pub(crate) polled: PolledLanes,
    pub(crate) pulls: Pulls,
    pub(crate) operations: Operations,
    pub(crate) operators: Operators,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) callbacks: Callbacks,
    pub(crate) waits: waits::Table,
    pub(crate) pace: Pace,
    pub(crate) watch: Arc<Watch>,
    /// Transports that are being taken out of use, by their indices, and when their last lanes are cut.
    pub(crate) leaving: Vec<(usize, Instant)>,
    /// The zero of the session's time.
    pub(crate) start: Instant,
}
