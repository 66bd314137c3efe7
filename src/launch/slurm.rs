//! The nodes of a Slurm allocation, and which of them each job gets. Nothing is asked of Slurm: its variables say it all.
//!
//! Invariant: no node is given to two jobs, unless neither of them asks for nodes of its own.

use super::manifest::{Job, Needs};
use std::collections::BTreeSet;

/// The nodes of each component; one that is not heterogeneous has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub components: Vec<Vec<String>>,
    pub is_heterogeneous: bool,
}

impl Allocation {
    /// That in which this process is, by the values of variables.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Allocation> {
        variable("SLURM_JOB_ID")?;
        let list = |name: &str| variable(name).and_then(|text| nodes(&text)).unwrap_or_default();
        let size = variable("SLURM_HET_SIZE").and_then(|size| size.parse::<usize>().ok());
        let components = match size {
            Some(size) => (0..size.min(128)).map(|at| list(&format!("SLURM_JOB_NODELIST_HET_GROUP_{at}"))).collect(),
            None => vec![list("SLURM_JOB_NODELIST")],
        };
        Some(Allocation { components, is_heterogeneous: size.is_some() })
    }
}

/// What a job gets of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// Its component, if there are several.
    pub component: Option<usize>,
    /// Its nodes. `None`: all of the component.
    pub nodes: Option<Vec<String>>,
    /// Others have these nodes too.
    pub is_shared: bool,
}

/// The names that a list of Slurm's stands for, such as `n[0-2,7],login`. `None`: it is none.
pub fn nodes(list: &str) -> Option<Vec<String>> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                all.extend(expanded(&list[from..at])?);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.extend(expanded(&list[from..])?);
    (depth == 0).then_some(all)
}

/// How many nodes a list may stand for: one that says more is not believed.
const MOST: usize = 1 << 20;

/// One name, with ranges in it.
fn expanded(name: &str) -> Option<Vec<String>> {
    if name.is_empty() {
        return None;
    }
    let Some((before, rest)) = name.split_once('[') else { return Some(vec![name.to_owned()]) };
    let (inner, behind) = rest.split_once(']')?;
    let behind = if behind.is_empty() { vec![String::new()] } else { expanded(behind)? };
    let mut all = Vec::new();
    for part in inner.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if high < low || (high - low + 1).checked_mul(behind.len())? > MOST - all.len().min(MOST) {
            return None;
        }
        for number in low..=high {
            // As many digits as the first has.
            all.extend(behind.iter().map(|behind| format!("{before}{number:00$}{behind}", first.len())));
        }
    }
    Some(all)
}

/// The component of each job. Where no job says its own, those that ask for the same are in one.
pub fn components(jobs: &[Job]) -> Vec<usize> {
    let nothing = Needs::default();
    let needs: Vec<&Needs> = jobs.iter().map(|job| job.slurm.as_ref().unwrap_or(&nothing)).collect();
    if needs.iter().any(|needs| needs.component.is_some()) {
        return needs.iter().map(|needs| needs.component.unwrap_or(0)).collect();
    }
    let (mut kinds, mut all) = (Vec::new(), Vec::new());
    for Needs { partition, constraint, options, .. } in needs {
        let kind = (partition, constraint, options);
        all.push(kinds.iter().position(|other| *other == kind).unwrap_or(kinds.len()));
        if all.last() == Some(&kinds.len()) {
            kinds.push(kind);
        }
    }
    all
}

/// The share of each job, or what is wrong, each with the job that it is of. Jobs on other hosts have none.
pub fn divide(jobs: &[Job], allocation: &Allocation) -> Result<Vec<Share>, Vec<(usize, String)>> {
    let mut problems = Vec::new();
    let mut said = components(jobs);
    // A launcher that is written out, of a job that says nothing of Slurm, is left as it is.
    let takes_part =
        |job: &Job| job.host.is_none() && (job.slurm.is_some() || !job.launcher.iter().any(|word| word == "{program}"));
    let here: Vec<usize> = (0..jobs.len()).filter(|at| takes_part(&jobs[*at])).collect();
    let is_said = |at: usize| jobs[at].slurm.as_ref().is_some_and(|needs| needs.component.is_some());
    let count = allocation.components.len();
    for at in &here {
        // What different jobs ask for may be in one allocation all the same: whoever made it knows.
        if count == 1 && !is_said(*at) {
            said[*at] = 0;
        } else if said[*at] >= count {
            let what = format!("slurm: component {} of {count} is not there; they are counted from 0", said[*at]);
            problems.push((*at, what));
        }
    }
    let mut shares = vec![Share::default(); jobs.len()];
    for (component, nodes) in allocation.components.iter().enumerate() {
        let own: Vec<usize> = here.iter().copied().filter(|at| said[*at] == component).collect();
        let wanted = |at: &usize| jobs[*at].slurm.as_ref().and_then(|needs| needs.nodes);
        let all: usize = own.iter().filter_map(wanted).sum();
        if let Some(last) = own.iter().rfind(|at| wanted(at).is_some())
            && all > nodes.len()
        {
            let each = |at: &usize| wanted(at).map(|n| format!("'{}' {n}", jobs[*at].name));
            let each = own.iter().filter_map(each).collect::<Vec<_>>().join(", ");
            problems.push((*last, format!("slurm: too few nodes: {each} make {all}, and there are {}", nodes.len())));
            continue;
        }
        let mut left = nodes.clone();
        for at in &own {
            shares[*at].component = allocation.is_heterogeneous.then_some(component);
            let Some(number) = wanted(at) else { continue };
            if number > jobs[*at].ranks {
                problems.push((*at, format!("slurm: {number} nodes for {} ranks", jobs[*at].ranks)));
            }
            shares[*at].nodes = Some(left.drain(..number).collect());
        }
        let others: Vec<usize> = own.iter().copied().filter(|at| wanted(at).is_none()).collect();
        for at in &others {
            shares[*at].is_shared = others.len() > 1;
            if others.len() == own.len() {
                continue;
            }
            if left.is_empty() {
                problems.push((*at, "slurm: no node is left for it".into()));
            }
            // No more than there are ranks.
            shares[*at].nodes = Some(left.iter().take(jobs[*at].ranks).cloned().collect());
        }
    }
    if problems.is_empty() { Ok(shares) } else { Err(problems) }
}

/// Whether the jobs have, together, more than one node that is theirs by name.
pub fn are_several(shares: &[Share]) -> bool {
    let all: BTreeSet<&String> = shares.iter().filter_map(|share| share.nodes.as_ref()).flatten().collect();
    all.len() > 1
}

#[cfg(test)]
#[path = "slurm_tests.rs"]
mod tests;
