//! What one process's end holds, as data: no file here knows what is done to it.

pub mod doors;
pub mod operations;
pub mod pace;
pub mod polled;
pub mod pulls;
pub mod waits;

use crate::memory::Buffers;
use crate::state::doors::Doors;
use crate::state::operations::Operations;
use crate::state::pace::Pace;
use crate::state::polled::PolledLanes;
use crate::state::pulls::Pulls;
use crate::watch::Watch;
use session::Session;
use std::sync::Arc;
use std::time::Instant;
use transports::registry::{AnyLane, Registry};

pub struct Core {
    pub(crate) session: Session<AnyLane, Buffers>,
    pub(crate) registry: Registry,
    pub(crate) doors: Doors,
    pub(crate) polled: PolledLanes,
    pub(crate) pulls: Pulls,
    pub(crate) operations: Operations,
    pub(crate) waits: waits::Table,
    pub(crate) pace: Pace,
    pub(crate) watch: Arc<Watch>,
    /// The beginning of [`Time`].
    pub(crate) start: Instant,
}
