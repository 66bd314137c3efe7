//! The waits of this process: which calls wait, and what for.

use base::ProcId;
use engine::{OpId, Source, Tag};
use session::InterId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A call that waits, and what it waits for.
#[derive(Debug, Clone)]
pub struct About {
    /// The name of the MPI function.
    pub call: &'static str,
    /// Operations, of which a notice names those that are pending.
    pub ops: Vec<OpId>,
    /// The message that a probe looks for.
    pub probe: Option<(InterId, Source, Tag)>,
    /// Something else, in words: `for job 'ocean'`.
    pub else_for: Option<String>,
}

impl About {
    /// A call that waits for one operation.
    pub fn op(call: &'static str, op: OpId) -> About {
        About::ops(call, vec![op])
    }

    /// A call that waits for several operations.
    pub fn ops(call: &'static str, ops: Vec<OpId>) -> About {
        About { call, ops, probe: None, else_for: None }
    }

    /// A call that waits for a message without receiving it.
    pub fn probe(call: &'static str, inter: InterId, source: Source, tag: Tag) -> About {
        About { probe: Some((inter, source, tag)), ..About::ops(call, Vec::new()) }
    }
}

/// For whom a call waits, as far as that is one job, or one process of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whom {
    pub(crate) job: Option<u64>,
    pub(crate) one: Option<ProcId>,
}

/// The waits of this process.
pub(crate) struct Table {
    /// How long calls have waited that did not sleep and were over soon: it is not asked for whom.
    pub(crate) short: Duration,
    /// How long the others have waited, by whom they waited for.
    pub(crate) waited: BTreeMap<Whom, Duration>,
    /// By number: each wait and its beginning.
    pub(crate) entered: BTreeMap<u64, (About, Instant)>,
    /// The number of the last wait that was entered.
    pub(crate) next: u64,
    /// How long a wait lasts before its first notice.
    pub(crate) notice: Duration,
}

impl Table {
    pub(crate) fn new(notice: Duration) -> Table {
        Table { short: Duration::ZERO, waited: BTreeMap::new(), entered: BTreeMap::new(), next: 0, notice }
    }
}
