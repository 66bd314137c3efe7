//! The waits of this process, and what calls wait for.

use engine::{OpId, Source, Tag};
use session::InterId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a call waits for.
#[derive(Debug, Clone)]
pub struct About {
    pub call: &'static str,
    /// Those of them that are not over.
    pub ops: Vec<OpId>,
    /// A message that is looked for.
    pub probe: Option<(InterId, Source, Tag)>,
    /// What it is if neither of these, in words: `for job 'ocean'`.
    pub else_for: Option<String>,
}

impl About {
    pub fn op(call: &'static str, op: OpId) -> About {
        About::ops(call, vec![op])
    }

    pub fn ops(call: &'static str, ops: Vec<OpId>) -> About {
        About { call, ops, probe: None, else_for: None }
    }

    pub fn probe(call: &'static str, inter: InterId, source: Source, tag: Tag) -> About {
        About { probe: Some((inter, source, tag)), ..About::ops(call, Vec::new()) }
    }
}

/// The waits of this process.
pub(crate) struct Table {
    pub(crate) entered: BTreeMap<u64, (About, Instant)>,
    pub(crate) next: u64,
    /// When a wait is told of first.
    pub notice: Duration,
}

impl Table {
    pub fn new(notice: Duration) -> Table {
        Table { entered: BTreeMap::new(), next: 0, notice }
    }
}
