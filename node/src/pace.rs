//! How often a waiting thread reads the busy lanes, when a round is due, and how it goes to sleep.
//!
//! Used by `round`, `wait` and `thread`. Invariant: nothing here changes what is sent or received, only when.

use crate::state::Core;
use crate::wait::ROUND_AFTER;

/// How often busy lanes are read in each turn of a wait: sockets by a system call each, queues of a device by some loads, shared memory by
/// one.
const LOOKS_AT_SOCKETS: u32 = 2;
const LOOKS_AT_QUEUES: u32 = 128;
const LOOKS_AT_MEMORY: u32 = 32;

impl Core {
    /// Counts a call that makes no round. True: `after` such calls have followed each other, so a round is due.
    #[inline]
    pub(crate) fn is_round_due(&mut self, after: u32) -> bool {
        self.pace.without_round += 1;
        self.pace.without_round >= after
    }

    /// Whether the next wait makes a round in any case, so a call that could end without a wait is to wait all the same.
    pub fn owes_round(&self) -> bool {
        self.pace.without_round >= ROUND_AFTER
    }

    /// How often to read the busy lanes in each turn of a wait. 0: there are none, and only a round finds messages.
    pub(crate) fn looks(&self) -> u32 {
        match (self.pace.busy.is_empty(), self.polled.is_empty()) {
            (false, _) if self.pace.busy.iter().all(|i| self.is_queue(*i)) => LOOKS_AT_QUEUES,
            (false, _) => LOOKS_AT_SOCKETS,
            (true, false) => LOOKS_AT_MEMORY,
            (true, true) => 0,
        }
    }

    fn is_queue(&self, i: usize) -> bool {
        self.session.pair(i).lane().is_some_and(|up| up.lane.is_queue())
    }

    /// What a thread does between two looks that find nothing. A look at shared memory in each cycle would take the line from the sender
    /// that is writing to it; other looks take their time.
    #[inline]
    pub(crate) fn pause_between_looks(&self) {
        if self.pace.busy.is_empty() {
            std::hint::spin_loop();
        }
    }

    /// Forgets which sockets are busy when nothing has come for a while: then only epoll is asked.
    pub(crate) fn forget_busy(&mut self) {
        self.pace.busy.clear();
    }

    /// Announces that a thread is about to sleep until a descriptor is ready. False: there is something to do, so it
    /// must not sleep.
    pub(crate) fn begin_sleep(&mut self) -> bool {
        // First the doorbell is armed and then the lanes are looked at, so no message is missed in between.
        self.polled.arm();
        self.registry.arm();
        let is_idle = !self.session.has_credit() && !self.session.engine.has_to_buffer();
        let sleeps = is_idle && !self.is_dirty() && !self.has_polled_input();
        self.pace.sleepers += usize::from(sleeps);
        sleeps
    }

    /// A thread that slept is awake again.
    pub(crate) fn end_sleep(&mut self) {
        self.pace.sleepers -= 1;
    }
}
