//! Whoever is waited for.

use crate::state::inters::InterId;
use base::Time;
use engine::Source;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Wanted {
    /// What probes have looked for in vain since the last look.
    pub(crate) probed: Vec<(InterId, Source)>,
    /// Pairs that were expected at the last look, and when the next is due.
    pub(crate) expected: BTreeSet<usize>,
    pub(crate) next_look: Option<Time>,
    /// How long to rest between two looks, at least: among very many operations one takes its time.
    pub(crate) rest: Duration,
    /// Those for whom Finalize waits longer are told of once.
    pub(crate) told: bool,
}
