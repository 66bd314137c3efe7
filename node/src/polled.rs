//! Lanes that are looked at instead of slept on: which of them has something, and how one sleeps without missing it.
//!
//! Part of the core. A lane from which messages come often is looked at by itself (*direct*); the senders of the others set
//! a bit on this process's board. The bit of a pair's lane is the pair's number; where several pairs have the same, all are
//! looked at. Invariants: a lane is in `direct` exactly if its sender has been told so; of those who sleep, each has looked
//! at everything after the board said that they sleep.

use crate::state::Core;
use transports::registry::{BOARD_KEYS, Polled};

impl Core {
    pub(crate) fn polled_lane(&self, i: usize) -> Option<&Polled> {
        self.session.pair(i).lane()?.lane.polled()
    }

    fn has_input(&self, i: usize) -> bool {
        self.polled_lane(i).is_some_and(Polled::has_input)
    }

    fn has_room(&self, i: usize) -> bool {
        self.polled_lane(i).is_none_or(|lane| !lane.is_stuck())
    }

    /// Whether there is something to read on polled lanes, or room where there was none.
    pub(crate) fn has_polled_input(&self) -> bool {
        let polled = &self.polled;
        polled.direct.iter().any(|i| self.has_input(*i))
            || polled.has_word()
            || polled.stuck.iter().any(|i| self.has_room(*i))
    }

    /// Reads what is there on polled lanes; whether anything was.
    pub(crate) fn read_polled(&mut self) -> bool {
        if self.polled.is_empty() {
            return false;
        }
        let mut found = false;
        let mut k = 0;
        while let Some(&i) = self.polled.direct.get(k) {
            if self.has_input(i) {
                found |= self.read(i);
            }
            k += 1;
        }
        if self.polled.has_word() {
            found |= self.read_told();
        }
        if !self.polled.stuck.is_empty() {
            self.retry_stuck();
        }
        found
    }

    /// Reads the lanes whose bits are set.
    fn read_told(&mut self) -> bool {
        let Some(looked) = &self.polled.looked else { return false };
        let mut bits = std::mem::take(&mut self.polled.bits);
        looked.board.take(|bit| bits.push(bit));
        let mut found = false;
        for bit in bits.drain(..) {
            for i in (bit as usize..self.session.pairs_made()).step_by(BOARD_KEYS as usize) {
                if self.has_input(i) && self.read(i) {
                    found = true;
                    self.promote(i);
                }
            }
        }
        self.polled.bits = bits;
        found
    }

    /// A lane whose bit was set has brought something: perhaps it is looked at by itself from now on. If not, and something
    /// is left, it is told of once more.
    fn promote(&mut self, i: usize) {
        let Some(looked) = &self.polled.looked else { return };
        if self.polled.is_direct(i) {
            return;
        }
        if self.brought(i) >= looked.after && self.make_place_for(i) {
            self.set_direct(i, true);
        } else if self.has_input(i) {
            self.polled.tell(i);
        }
    }

    /// How often a lane has brought something since there was last a change among those that are looked at.
    fn brought(&self, i: usize) -> u32 {
        self.session.pair(i).lane().map_or(0, |up| up.brought)
    }

    /// Makes sure that one more lane may be looked at by itself: if there are as many as may be, the one that has brought
    /// least gives way, if it has brought less than this one.
    fn make_place_for(&mut self, i: usize) -> bool {
        let Some(looked) = &self.polled.looked else { return false };
        if self.polled.direct.len() < looked.most {
            return true;
        }
        let Some(&least) = self.polled.direct.iter().min_by_key(|k| self.brought(**k)) else { return false };
        if self.brought(least) >= self.brought(i) {
            return false;
        }
        self.set_direct(least, false);
        // Something may have come just before it was told.
        self.polled.tell(least);
        for up in self.session.pairs_mut().filter_map(|pair| pair.lane_mut()) {
            up.brought = 0;
        }
        true
    }

    fn set_direct(&mut self, i: usize, yes: bool) {
        if let Some(lane) = self.polled_lane(i) {
            lane.set_direct(yes);
        }
        if yes {
            self.polled.direct.push(i);
        } else {
            self.polled.direct.retain(|k| *k != i);
        }
    }

    /// Goes on with those for which there is room now.
    fn retry_stuck(&mut self) {
        let freed: Vec<usize> = self.polled.stuck.iter().copied().filter(|i| self.has_room(*i)).collect();
        for i in freed {
            self.polled.set_stuck(i, false);
            if let Some(up) = self.session.pair_mut(i).lane_mut() {
                up.waiting = 0;
            }
            self.session.mark(i);
        }
    }
}
