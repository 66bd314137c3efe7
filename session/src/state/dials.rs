//! The attempts that are under way.

use crate::action::AttemptId;
use std::collections::BTreeMap;

/// The attempts that are under way, with the pair of each.
#[derive(Default)]
pub(crate) struct Dials {
    pub(crate) pairs: BTreeMap<AttemptId, usize>,
    /// The last number given to an attempt.
    pub(crate) last: u32,
}
