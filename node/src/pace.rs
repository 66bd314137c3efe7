//! How hard those who wait look: which lanes are busy, whether a processor may be taken, when a round is due.
//!
//! Used by `round`, `wait` and `thread`. Invariant: nothing here changes what is sent or received, only when.

use crate::state::Core;

const LOOKS_AT_SOCKETS: u32 = 2;
const LOOKS_AT_MEMORY: u32 = 32;

impl Core {
    /// For a call that could do without a round: whether so many have followed each other.
    #[inline]
    pub(crate) fn is_round_due(&mut self, after: u32) -> bool {
        self.pace.without_round += 1;
        self.pace.without_round >= after
    }

    /// How often to look at the busy lanes, one time after the other; 0: there are none, only a round tells.
    pub(crate) fn looks(&self) -> u32 {
        match (self.pace.busy.is_empty(), self.polled.is_empty()) {
            (false, _) => LOOKS_AT_SOCKETS,
            (true, false) => LOOKS_AT_MEMORY,
            (true, true) => 0,
        }
    }

    /// Nothing has come for a while: only epoll is asked.
    pub(crate) fn cool(&mut self) {
        self.pace.busy.clear();
    }

    /// Somebody is about to sleep on the watch. False: there is something to do, so better not.
    pub(crate) fn lie_down(&mut self) -> bool {
        self.polled.arm();
        let lies = !self.is_dirty() && !self.has_polled_input();
        self.pace.sleepers += usize::from(lies);
        lies
    }

    /// One who slept is awake.
    pub(crate) fn get_up(&mut self) {
        self.pace.sleepers -= 1;
    }
}
