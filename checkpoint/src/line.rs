//! Lines and rows: plain data that all the other files speak of.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A job: the incarnation of its group.
pub type Job = u64;

/// The number of a line: the job whose leader has planned it, and a count there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineId {
    /// The job.
    pub by: Job,
    /// The count, from 1.
    pub count: u64,
}

/// A line: of each job the cut that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Its number.
    pub id: LineId,
    /// The serial numbers of the cuts.
    pub cuts: BTreeMap<Job, u64>,
    /// The names of the jobs.
    pub names: BTreeSet<String>,
}

/// What a number of a job with another number takes in a message, at most; and what a name does besides its letters.
pub(crate) const NUMBERS: usize = 20;
const NAME: usize = 4;

/// What names take in a message, at most.
pub(crate) fn cost_of_names<'a>(names: impl IntoIterator<Item = &'a String>) -> usize {
    names.into_iter().map(|name| name.len() + NAME).sum()
}

impl Planned {
    /// Bytes that it takes in a message, at most.
    pub(crate) fn cost(&self) -> usize {
        NUMBERS * (1 + self.cuts.len()) + cost_of_names(&self.names)
    }
}

/// What a process has done for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Done {
    /// It has heard of it.
    Heard,
    /// It has written its image.
    Written,
    /// It will not write one: it has no such cut, the disk has no room, or a later line was whole before.
    Failed,
}

/// What a leader tells the processes of another job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Lines with their job.
    pub lines: Vec<Planned>,
    /// Those of them of which all processes of all their jobs have heard.
    pub heard: BTreeSet<LineId>,
    /// Those of them that will not be complete.
    pub failed: BTreeSet<LineId>,
    /// Of each job the newest cut that may still be in a later line, while older ones may not.
    pub seen: BTreeMap<Job, u64>,
}

/// What a process's cut has of one process of another job, for that one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Messages sent to it.
    pub sent: u64,
    /// Messages that had come from it.
    pub arrived: u64,
    /// Those sent whose data the sender's image has, since the sends were pending.
    pub leaving: BTreeSet<u64>,
}

/// The rows of a cut for one process, by the rank of the process whose row it is. Without those that are all zeros.
pub type Rows = BTreeMap<u32, Row>;

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.by, self.count)
    }
}
