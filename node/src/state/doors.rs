//! Handshakes that are under way, with their descriptors.

use session::{AttemptId, ProbeId, VisitorId};
use std::collections::HashMap;
use std::time::Instant;
use transports::transport::{Attempt, Guest, Probe};
use wire::Place;

#[derive(Default)]
pub(crate) struct Doors {
    pub(crate) attempts: HashMap<AttemptId, Box<dyn Attempt>>,
    pub(crate) guests: HashMap<VisitorId, Box<dyn Guest>>,
    pub(crate) probes: HashMap<ProbeId, (Place, Box<dyn Probe>, Instant)>,
    /// The doors rest until then: out of descriptors.
    pub(crate) accept_again: Option<Instant>,
}

impl Doors {
    /// Whether time must be looked at.
    pub fn is_timed(&self) -> bool {
        self.accept_again.is_some()
    }
}
