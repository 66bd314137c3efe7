//! Whether waiting may take a processor for itself: not where processes that wait for each other outnumber the processors
//! that they have.
//!
//! Part of the core. Judged anew whenever a process on this host becomes known, or how it is reached.

use crate::state::Core;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::collections::HashMap;

impl Core {
    pub(crate) fn judge_spinning(&mut self) {
        let crowded = self.is_crowded();
        self.pace.may_spin = !crowded;
    }

    fn is_crowded(&self) -> bool {
        let Some(own) = processors_of(0) else { return true };
        let all = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten().unwrap_or(1) as usize;
        // Who is bound to some processors was placed by a launcher, which has placed the rest of the job beside it.
        let bound = own.len() < all;
        let of_this_job = if bound { 1 } else { self.pace.local_processes };
        // Of other jobs on this host, by process: whether it may run where we do. Of whom one knows no number, one does not
        // know.
        let mut rivals = HashMap::new();
        for (i, pair) in self.session.pairs() {
            let here = pair.contact().is_some_and(|c| c.host == self.session.own().host);
            if let Some(process) = pair.known_process()
                && here
                && pair.gone().is_none()
                && process != self.session.own().process
            {
                // Who may run anywhere meets everybody: there is nothing to ask the kernel.
                let theirs = || self.polled_lane(i).and_then(|lane| processors_of(lane.peer()?));
                let meets = !bound || theirs().is_none_or(|theirs| theirs.iter().any(|cpu| own.contains(cpu)));
                rivals.entry(process).and_modify(|known| *known &= meets).or_insert(meets);
            }
        }
        of_this_job + rivals.values().filter(|meets| **meets).count() > own.len()
    }
}

/// The processors that a process may use; 0: this one.
fn processors_of(pid: i32) -> Option<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(pid)).ok()?;
    Some((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}
