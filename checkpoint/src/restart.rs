//! From which line joined jobs restart.
//!
//! Invariant: all leaders that are told the same choose the same.

use crate::line::LineId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A line that a job could restart from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Old {
    /// The line.
    pub id: LineId,
    /// The names of its jobs.
    pub jobs: BTreeSet<String>,
    /// It is known to be complete on all sides.
    pub complete: bool,
}

/// What a job has to restart from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Grows with each change.
    pub version: u32,
    /// The name of the job.
    pub name: String,
    /// The number of ranks.
    pub size: u32,
    /// It has begun to run: it restarts no more.
    pub runs: bool,
    /// Its lines, the newest first. None if it begins anew.
    pub lines: Vec<Old>,
}

/// What is to be done at a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The jobs of these names have not told what they have.
    Wait(BTreeSet<String>),
    /// Restart from this line, by its place in the own list.
    From(usize),
    /// There is no common line, and none was ever complete: begin anew.
    Anew,
    /// There is no common line, though one was complete: the job of this name lacks it, and whether it runs already.
    Lacks(String, bool),
}

/// Chooses the newest line that all its jobs have.
pub fn choose<'a>(own: &Known, others: impl Iterator<Item = &'a Known> + Clone) -> Choice {
    let mut lacks = None;
    for (at, line) in own.lines.iter().enumerate() {
        let find = |name: &String| others.clone().find(|other| other.name == *name);
        let is_missing = |name: &&String| **name != own.name && find(name).is_none();
        let missing: BTreeSet<String> = line.jobs.iter().filter(is_missing).cloned().collect();
        let without = line.jobs.iter().filter(|name| **name != own.name).filter_map(find);
        let without = without.into_iter().find(|other| other.runs || !other.lines.iter().any(|l| l.id == line.id));
        match without {
            Some(other) if line.complete => {
                lacks.get_or_insert_with(|| (other.name.clone(), other.runs));
            }
            Some(_) => (),
            None if missing.is_empty() => return Choice::From(at),
            None => return Choice::Wait(missing),
        }
    }
    lacks.map_or(Choice::Anew, |(name, runs)| Choice::Lacks(name, runs))
}
