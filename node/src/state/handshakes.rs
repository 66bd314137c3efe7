//! Handshakes that are under way, with their descriptors.

use session::{AttemptId, IncomingId, ProbeId};
use std::collections::HashMap;
use std::time::Instant;
use transports::transport::{Attempt, Incoming, Probe};
use wire::Place;

/// The handshakes by the session's numbers.
#[derive(Default)]
pub(crate) struct Handshakes {
    pub(crate) attempts: HashMap<AttemptId, Box<dyn Attempt>>,
    pub(crate) pending: HashMap<IncomingId, Box<dyn Incoming>>,
    /// The place that each probe dials, the probe, and when it began.
    pub(crate) probes: HashMap<ProbeId, (Place, Box<dyn Probe>, Instant)>,
    /// The process has run out of descriptors: no connection is accepted before this time.
    pub(crate) accept_again: Option<Instant>,
    /// When attempts and probes are continued next though nothing was heard of them.
    pub(crate) next_look: Option<Instant>,
}

impl Handshakes {
    /// Whether a time limit runs.
    pub(crate) fn is_timed(&self) -> bool {
        self.accept_again.is_some()
    }
}
