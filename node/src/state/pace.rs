//! The state that decides how often lanes are read while a thread waits.

use crate::watch::Happened;

/// Sockets that are read without asking epoll first: asking costs as much as reading two of them.
const MOST_BUSY: usize = 2;

pub(crate) struct Pace {
    /// Pairs whose sockets brought something last, the latest first.
    pub busy: Vec<usize>,
    /// How many threads sleep until a descriptor is ready.
    pub sleepers: usize,
    /// Calls since the last round.
    pub without_round: u32,
    /// Processes of this job on this host, with this one.
    pub local_processes: usize,
    /// Whether a waiting thread may spin.
    pub may_spin: bool,
    /// Scratch memory for the events of a round.
    pub events: Vec<Happened>,
}

impl Default for Pace {
    fn default() -> Pace {
        let (busy, events) = (Vec::new(), Vec::new());
        Pace { busy, sleepers: 0, without_round: 0, local_processes: 1, may_spin: false, events }
    }
}

impl Pace {
    /// A socket has brought something: it is the first of the busy ones.
    pub(crate) fn mark_busy(&mut self, i: usize) {
        if !self.busy.contains(&i) {
            self.busy.truncate(MOST_BUSY - 1);
            self.busy.insert(0, i);
        }
    }
}
