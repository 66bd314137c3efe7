//! Which cores a job gets, and the binding of a process to them.
//!
//! Invariant: no core is given to two jobs.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;

pub type Set = BTreeSet<usize>;
/// What cannot be given, and the number of the job that asks for it.
pub type Refused = Vec<(usize, String)>;

/// What a job asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cores {
    /// So many, whichever.
    Some(usize),
    These(Set),
}

/// The largest number of a core that a set of the kernel's can hold.
const HIGHEST: usize = 1023;

/// `0-3,8`.
pub fn list(text: &str) -> Option<Set> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high || high > HIGHEST {
            return None;
        }
        all.extend(low..=high);
    }
    Some(all)
}

/// The same back: the shortest list.
pub fn text(all: &Set) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in all {
        match parts.last_mut() {
            Some((_, high)) if *high + 1 == core => *high = core,
            _ => parts.push((core, core)),
        }
    }
    let part = |(low, high)| if low == high { format!("{low}") } else { format!("{low}-{high}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// The cores of each job, of those that `may` be used; a problem is told with the number of its job. If no job asks for any, none is
/// bound; if some do, the others share what is left.
pub fn assign(jobs: &[(&str, Option<&Cores>)], may: &Set) -> Result<Vec<Option<Set>>, Refused> {
    if jobs.iter().all(|(_, wanted)| wanted.is_none()) {
        return Ok(vec![None; jobs.len()]);
    }
    let mut problems = Vec::new();
    let mut given: Vec<Option<Set>> = vec![None; jobs.len()];
    let mut free = may.clone();
    for (at, (name, wanted)) in jobs.iter().enumerate() {
        let Some(Cores::These(these)) = wanted else { continue };
        let absent: BTreeSet<_> = these.difference(may).copied().collect();
        if !absent.is_empty() {
            let what = format!("job '{name}': cores {} may not be used here, only {}", text(&absent), text(may));
            problems.push((at, what));
        }
        for (other, theirs) in given.iter().enumerate().filter_map(|(i, set)| Some((i, set.as_ref()?))) {
            let both: BTreeSet<_> = these.intersection(theirs).copied().collect();
            if !both.is_empty() {
                problems.push((at, format!("job '{name}': job '{}' has cores {} too", jobs[other].0, text(&both))));
            }
        }
        free = &free - these;
        given[at] = Some(these.clone());
    }
    let left = free.len();
    let asked: usize = jobs.iter().map(|(_, wanted)| if let Some(Cores::Some(n)) = wanted { *n } else { 0 }).sum();
    if asked > left {
        let last = jobs.iter().rposition(|(_, wanted)| matches!(wanted, Some(Cores::Some(_)))).unwrap_or(0);
        let counts = jobs.iter().filter_map(|(name, wanted)| match wanted {
            Some(Cores::Some(n)) => Some(format!("'{name}' {n}")),
            _ => None,
        });
        let who = counts.collect::<Vec<_>>().join(", ");
        let of =
            if left == may.len() { String::new() } else { format!(", since others have their own of {}", may.len()) };
        problems.push((last, format!("too many cores: {who} make {asked}, and {left} may be used here{of}")));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    for (at, (_, wanted)) in jobs.iter().enumerate() {
        let Some(Cores::Some(n)) = wanted else { continue };
        let these: Set = free.iter().take(*n).copied().collect();
        free = &free - &these;
        given[at] = Some(these);
    }
    for (at, (name, _)) in jobs.iter().enumerate().filter(|(_, (_, wanted))| wanted.is_none()) {
        if free.is_empty() {
            problems.push((at, format!("job '{name}': no core is left for it: the others have all {}", may.len())));
        }
        given[at] = Some(free.clone());
    }
    if problems.is_empty() { Ok(given) } else { Err(problems) }
}

/// The cores that this process may use.
pub fn allowed() -> nix::Result<Set> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true)).collect())
}

/// Binds this process to those of the cores that it may use, or to all of them if its launcher has bound it elsewhere.
pub fn stay_on(cores: &Set) -> nix::Result<()> {
    let may = allowed()?;
    let both = cores & &may;
    let mut set = CpuSet::new();
    for core in if both.is_empty() { cores } else { &both } {
        set.set(*core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Set {
        list(text).unwrap()
    }

    #[test]
    fn lists_are_read_and_written() {
        for (said, is) in [("0", "0"), ("0-3,8", "0-3,8"), ("3,1,2", "1-3"), ("4-4", "4")] {
            assert_eq!(text(&set(said)), is);
        }
        for wrong in ["", "a", "3-1", "0-5000000000", "1,", "-1"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_core_is_given_twice() {
        let (two, these) = (Cores::Some(2), Cores::These(set("1-2")));
        let jobs = [("air", Some(&two)), ("ocean", Some(&these)), ("ice", None)];
        let got = assign(&jobs, &set("0-7")).unwrap();
        let texts: Vec<_> = got.iter().map(|set| text(set.as_ref().unwrap())).collect();
        assert_eq!(texts, ["0,3", "1-2", "4-7"]);
        assert_eq!(assign(&[("air", None), ("ocean", None)], &set("0")).unwrap(), [None, None]);
    }

    #[test]
    fn what_cannot_be_given_is_told_with_numbers() {
        let said = |jobs: &[(&str, Option<&Cores>)], may: &str| {
            let problems = assign(jobs, &set(may)).unwrap_err();
            problems.into_iter().map(|(_, what)| what).collect::<Vec<_>>().join("\n")
        };
        let (three, these) = (Cores::Some(3), Cores::These(set("1-2")));
        assert_eq!(
            said(&[("air", Some(&three)), ("ocean", Some(&three))], "0-3"),
            "too many cores: 'air' 3, 'ocean' 3 make 6, and 4 may be used here"
        );
        assert_eq!(
            said(&[("air", Some(&three)), ("ocean", Some(&these))], "0-3"),
            "too many cores: 'air' 3 make 3, and 2 may be used here, since others have their own of 4"
        );
        assert_eq!(
            said(&[("air", Some(&these)), ("ocean", Some(&these))], "0-1"),
            "job 'air': cores 2 may not be used here, only 0-1\njob 'ocean': cores 2 may not be used here, only 0-1\n\
             job 'ocean': job 'air' has cores 1-2 too"
        );
        assert_eq!(
            said(&[("air", Some(&these)), ("ice", None)], "1-2"),
            "job 'ice': no core is left for it: the others have all 2"
        );
    }
}
