//! Dials that are under way.

use crate::action::AttemptId;
use std::collections::BTreeMap;

/// Dials that are under way: for which pair.
#[derive(Default)]
pub(crate) struct Dials {
    pub(crate) pairs: BTreeMap<AttemptId, usize>,
    pub(crate) last: u32,
}
