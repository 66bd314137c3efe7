//! What is known of operations beside the engine.

use crate::memory::Counted;
use engine::{OpId, Outcome};

/// A receive whose outcome is not simply the engine's.
#[derive(Default)]
pub(crate) struct Judging {
    /// The types that its message says it has.
    pub(crate) note: Option<Vec<u8>>,
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Default)]
pub(crate) struct Operations {
    /// Receives whose outcome is not simply the engine's, from jobs with another representation and such with types.
    pub(crate) judging: Counted<Judging>,
    /// Those that go on though nobody will ask for them.
    pub(crate) forgotten: Vec<OpId>,
}
