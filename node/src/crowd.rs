//! Oversubscription: a waiting thread may spin only if the processes that wait for each other on this host have a
//! processor each.
//!
//! Part of the core. This is decided again when an inter-communicator is opened, and when a lane is made.

use crate::state::Core;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The number of processors that are online. The C library reads a file for it, so it is asked once.
static ONLINE: LazyLock<usize> = LazyLock::new(|| {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
});

/// Processors have numbers below this one. A set of processors has room for many more than a machine has.
static NUMBERS: LazyLock<usize> = LazyLock::new(|| {
    let ranges = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = ranges.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<usize>().ok());
    last.map_or(CpuSet::count(), |last| CpuSet::count().min(last + 1))
});

impl Core {
    /// Decides again whether waiting threads may spin.
    pub(crate) fn judge_spinning(&mut self) {
        let crowded = self.is_crowded();
        self.pace.may_spin = !crowded;
    }

    fn is_crowded(&self) -> bool {
        let Some(own) = processors_of(0) else { return true };
        let all = *ONLINE;
        // A process that is bound to some processors was placed by a launcher, which placed the rest of the job on
        // others.
        let bound = own.len() < all;
        let of_this_job = if bound { 1 } else { self.pace.local_processes };
        // The processes of other jobs on this host, and whether each may run on our processors. A process whose number
        // is not known is not counted.
        let mut rivals = HashMap::new();
        for (i, pair) in self.session.pairs() {
            let here = pair.contact().is_some_and(|c| c.host == self.session.own().host);
            if let Some(process) = pair.known_process()
                && here
                && pair.gone().is_none()
                && process != self.session.own().process
            {
                // An unbound process shares processors with every other: the kernel need not be asked.
                let theirs = || self.polled_lane(i).and_then(|lane| processors_of(lane.peer()?));
                let meets = !bound || theirs().is_none_or(|theirs| theirs.iter().any(|cpu| own.contains(cpu)));
                rivals.entry(process).and_modify(|known| *known &= meets).or_insert(meets);
            }
        }
        of_this_job + rivals.values().filter(|meets| **meets).count() > own.len()
    }
}

/// The processors on which a process may run; pid 0 is this process. `None`: the kernel does not say.
fn processors_of(pid: i32) -> Option<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(pid)).ok()?;
    Some((0..*NUMBERS).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}
