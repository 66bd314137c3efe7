//! The waits of this process: which calls wait, and what for.

use base::ProcId;
use engine::{OpId, Source, Tag};
use session::InterId;
use std::collections::{BTreeMap, BTreeSet};
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
    /// All processes that have not acknowledged what was sent to them.
    pub deliveries: bool,
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
        About { call, ops, probe: None, deliveries: false, else_for: None }
    }

    /// MPI_Finalize, while it delivers what these operations and those before them have sent.
    pub(crate) fn end(ops: Vec<OpId>) -> About {
        let what = "for other processes to take what was sent to them".into();
        About { deliveries: true, else_for: Some(what), ..About::ops("MPI_Finalize", ops) }
    }

    /// A call that waits for a message without receiving it.
    pub fn probe(call: &'static str, inter: InterId, source: Source, tag: Tag) -> About {
        About { probe: Some((inter, source, tag)), ..About::ops(call, Vec::new()) }
    }
}

/// Processes, and jobs, for which waits are counted apart.
const MOST_AWAITED: usize = 1024;

/// For whom a call waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whom {
    pub(crate) jobs: BTreeSet<u64>,
    /// None, if they are too many to be counted apart.
    pub(crate) peers: BTreeSet<ProcId>,
}

/// How long calls have waited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waited {
    /// For whomever.
    pub(crate) all: Duration,
    /// For each of these jobs, by incarnation.
    pub(crate) jobs: BTreeMap<u64, Duration>,
    /// For each of these processes.
    pub(crate) peers: BTreeMap<ProcId, Duration>,
}

impl Waited {
    /// Whether a wait for these can be counted for each of them.
    pub(crate) fn has_room(&self, whom: &Whom) -> bool {
        fits(&self.jobs, &whom.jobs) && fits(&self.peers, &whom.peers)
    }

    /// A wait for several counts for each of them; where there is no room, for the sum alone.
    pub(crate) fn add(&mut self, whom: &Whom, time: Duration) {
        self.all += time;
        add_to(&mut self.jobs, &whom.jobs, time);
        add_to(&mut self.peers, &whom.peers, time);
    }
}

fn fits<K: Ord>(table: &BTreeMap<K, Duration>, keys: &BTreeSet<K>) -> bool {
    let most = MOST_AWAITED - table.len();
    keys.len() <= most || keys.iter().filter(|key| !table.contains_key(key)).count() <= most
}

fn add_to<K: Ord + Copy>(table: &mut BTreeMap<K, Duration>, keys: &BTreeSet<K>, time: Duration) {
    for key in keys {
        if table.len() < MOST_AWAITED || table.contains_key(key) {
            *table.entry(*key).or_default() += time;
        }
    }
}

/// A wait that has lasted for a while.
pub(crate) struct Entered {
    pub(crate) about: About,
    pub(crate) since: Instant,
    /// Up to when it is counted, and for whom it waits from then on. `None`: it is not for messages, and not counted.
    pub(crate) counted: Option<(Instant, Whom)>,
}

/// The waits of this process.
pub(crate) struct Table {
    /// How long calls have waited, as far as it is counted.
    pub(crate) waited: Waited,
    /// By number.
    pub(crate) entered: BTreeMap<u64, Entered>,
    /// The number of the last wait that was entered.
    pub(crate) next: u64,
    /// How long a wait lasts before its first notice.
    pub(crate) notice: Duration,
}

impl Table {
    pub(crate) fn new(notice: Duration) -> Table {
        Table { waited: Waited::default(), entered: BTreeMap::new(), next: 0, notice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_which_there_is_no_room_counts_for_the_sum_alone() {
        let second = Duration::from_secs(1);
        let whom = |rank: usize| Whom {
            jobs: BTreeSet::from([7]),
            peers: BTreeSet::from([ProcId { incarnation: 7, rank: rank as u32 }]),
        };
        let mut waited = Waited::default();
        (0..MOST_AWAITED).for_each(|rank| waited.add(&whom(rank), second));
        assert!(waited.has_room(&whom(0)) && !waited.has_room(&whom(MOST_AWAITED)));
        [0, MOST_AWAITED].iter().for_each(|rank| waited.add(&whom(*rank), second));
        assert_eq!((waited.peers.len(), waited.peers[&ProcId { incarnation: 7, rank: 0 }]), (MOST_AWAITED, 2 * second));
        let all = second * (MOST_AWAITED as u32 + 2);
        assert_eq!((waited.all, waited.jobs[&7]), (all, all));
    }
}
