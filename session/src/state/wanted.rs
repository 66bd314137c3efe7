//! The processes that calls wait for.

use crate::state::inters::InterId;
use base::Time;
use engine::Source;
use std::collections::BTreeSet;
use std::time::Duration;

/// Which processes are expected to send, though no call blocks for them.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Sources of probes that found nothing since the last look.
    pub(crate) probed: Vec<(InterId, Source)>,
    /// Pairs that were expected at the last look.
    pub(crate) expected: BTreeSet<usize>,
    /// When the next look is due.
    pub(crate) next_look: Option<Time>,
    /// The least time between two looks: with very many operations a look takes long.
    pub(crate) rest: Duration,
    /// How long the last look took.
    pub(crate) took: Duration,
    /// The log has said for whom MPI_Finalize waits.
    pub(crate) told: bool,
    /// The same of processes that are held.
    pub(crate) told_held: bool,
}
