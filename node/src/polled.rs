//! Polled lanes, those in shared memory: which of them have messages, and how a thread sleeps without missing one.
//!
//! Part of the core. A lane with much traffic is *direct*: each look reads it. The senders of the other lanes set a bit
//! in this process's doorbell bitmap. The bit of a pair is its number modulo the number of bits; if several pairs share
//! a bit, all of them are read. Invariants: a lane is in `direct` exactly if its sender was told so; a thread that
//! sleeps has looked at all lanes after the doorbell was armed.

use crate::state::Core;
use transports::registry::{DOORBELLS, Polled};

impl Core {
    /// The lane of a pair, if it is a polled one.
    #[inline(always)]
    pub(crate) fn polled_lane(&self, i: usize) -> Option<&Polled> {
        self.session.pair(i).lane()?.lane.polled()
    }

    #[inline(always)]
    fn has_input(&self, i: usize) -> bool {
        self.polled_lane(i).is_some_and(Polled::has_input)
    }

    fn has_room(&self, i: usize) -> bool {
        self.polled_lane(i).is_none_or(|lane| !lane.is_stuck())
    }

    /// Whether there is something to read on polled lanes, or room where there was none.
    pub(crate) fn has_polled_input(&self) -> bool {
        let polled = &self.polled;
        if polled.is_empty() {
            // Bits that the last lanes have left are taken when there is a lane again.
            return false;
        }
        polled.direct.iter().any(|i| self.has_input(*i))
            || polled.is_rung()
            || polled.stuck.iter().any(|i| self.has_room(*i))
    }

    /// Reads the messages in polled lanes, as far as [`session::Session::receive`] does. False: there were none.
    #[inline(always)]
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
        if self.polled.is_rung() {
            found |= self.read_rung();
        }
        if !self.polled.stuck.is_empty() {
            self.retry_stuck();
        }
        found
    }

    /// Reads the lanes whose doorbell bits are set.
    #[cold]
    #[inline(never)]
    fn read_rung(&mut self) -> bool {
        let Some(polling) = &self.polled.polling else { return false };
        let mut bits = std::mem::take(&mut self.polled.bits);
        polling.doorbells.take(|bit| bits.push(bit));
        let mut found = false;
        for bit in bits.drain(..) {
            for i in (bit as usize..self.session.pairs_made()).step_by(DOORBELLS as usize) {
                let leaves = self.session.pair(i).is_leaving();
                if (self.has_input(i) || leaves) && self.read(i) {
                    found = true;
                    self.promote(i);
                }
                if leaves {
                    // The pair's next lane was read too, and may have got another descriptor, by which it wakes who sleeps.
                    self.update_watched(i);
                }
            }
        }
        self.polled.bits = bits;
        found
    }

    /// Makes a lane direct if it has brought enough messages. If it stays indirect and still has messages, its bit is
    /// set again.
    fn promote(&mut self, i: usize) {
        let Some(polling) = &self.polled.polling else { return };
        if self.polled.is_direct(i) {
            return;
        }
        if self.brought(i) >= polling.after && self.make_place_for(i) {
            self.set_direct(i, true);
        } else if self.has_input(i) {
            self.polled.ring(i);
        }
    }

    /// How often messages were found in a lane since the last time that a direct lane had to give way.
    fn brought(&self, i: usize) -> u32 {
        self.session.pair(i).lane().map_or(0, |up| up.brought)
    }

    /// Whether pair `i` may become direct. If there are as many direct lanes as allowed, the one with the least traffic
    /// gives way, provided that it has less than this one.
    fn make_place_for(&mut self, i: usize) -> bool {
        let Some(polling) = &self.polled.polling else { return false };
        if self.polled.direct.len() < polling.most {
            return true;
        }
        let Some(&least) = self.polled.direct.iter().min_by_key(|k| self.brought(**k)) else { return false };
        if self.brought(least) >= self.brought(i) {
            return false;
        }
        self.set_direct(least, false);
        // Its sender may have written a message without ringing, just before it was told.
        self.polled.ring(least);
        for up in self.session.pairs_mut().filter_map(|pair| pair.lane_mut()) {
            up.brought = 0;
        }
        true
    }

    /// Makes a lane direct, or no longer so, and tells its sender.
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

    /// Writes on in the stuck lanes that have room again.
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
