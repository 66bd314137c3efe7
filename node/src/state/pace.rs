//! How hard those who wait look.

use crate::watch::Happened;

/// Sockets that are read without asking epoll: to ask costs as much as to read two.
const MOST_BUSY: usize = 2;

pub(crate) struct Pace {
    /// Pairs from whose lane something came lately.
    pub busy: Vec<usize>,
    /// How many sleep on the watch.
    pub sleepers: usize,
    /// Calls since the last round.
    pub without_round: u32,
    /// Processes of this job on this host.
    pub local_processes: usize,
    /// Whether waiting may take a processor for itself.
    pub may_spin: bool,
    /// Memory for what a round is told.
    pub events: Vec<Happened>,
}

impl Default for Pace {
    fn default() -> Pace {
        let (busy, events) = (Vec::new(), Vec::new());
        Pace { busy, sleepers: 0, without_round: 0, local_processes: 1, may_spin: false, events }
    }
}

impl Pace {
    pub fn warm(&mut self, i: usize) {
        if !self.busy.contains(&i) {
            self.busy.truncate(MOST_BUSY - 1);
            self.busy.insert(0, i);
        }
    }
}
