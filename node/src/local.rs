//! Lanes of shared memory in the core: which of them has something, and how one sleeps without missing it.
//!
//! Part of the core. A lane from which messages come often is looked at by itself (*direct*); the others set a bit. The
//! bit of a pair's lane is the pair's number; where several pairs have the same, all are looked at. Invariants: a lane is
//! in `direct` exactly if its sender has been told so; of those who sleep, each has looked at everything after the board
//! said that they sleep.

use crate::config::Config;
use crate::core::Core;
use crate::watch::{Owner, Watch};
use base::ProcId;
use transports::shm::{BITS, Door, Own, ShmLane};

/// What this process has for others on this host.
pub(crate) struct Local {
    pub own: Own,
    /// Where they come to; closed at the end.
    pub door: Option<Door>,
    /// Pairs whose lanes are looked at without being told.
    direct: Vec<usize>,
    /// Pairs whose lanes had no room for all there was.
    stuck: Vec<usize>,
    /// How many lanes there are.
    lanes: usize,
    bits: Vec<u32>,
    fast_after: u32,
    fast_max: usize,
}

impl Local {
    /// `None`, with a word in the log: then there is TCP.
    pub fn open(config: &Config, process: &[u8; 16], watch: &Watch) -> Option<Local> {
        if !config.lanes.shm {
            return None;
        }
        let opened = Own::new(watch.bell()).and_then(|own| Ok((own, Door::open(process)?)));
        match opened {
            Ok((own, door)) => {
                watch.set(&door, Owner::Door, false);
                Some(Local {
                    own,
                    door: Some(door),
                    direct: Vec::new(),
                    stuck: Vec::new(),
                    lanes: 0,
                    bits: Vec::new(),
                    fast_after: config.fast_after,
                    fast_max: config.fast_max as usize,
                })
            }
            Err(e) => {
                base::log!(Error, "no shared memory with others on this host: {e}");
                None
            }
        }
    }
}

/// The bit of a pair's lane on our board.
pub(crate) fn bit_of(i: usize) -> u32 {
    i as u32 % BITS
}

impl Core {
    pub(crate) fn shm_lane(&self, i: usize) -> Option<&ShmLane> {
        self.pairs.get(i)?.lane.as_ref()?.lane.shm()
    }

    /// Whether there are lanes that cost next to nothing to look at.
    pub(crate) fn has_shm_lanes(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.lanes > 0)
    }

    /// A pair has got a lane of shared memory.
    pub(crate) fn shm_attached(&mut self, i: usize) {
        let Some(local) = &mut self.local else { return };
        local.lanes += 1;
        // What came before we were there.
        local.own.set(bit_of(i));
    }

    /// It has none any more.
    pub(crate) fn shm_dropped(&mut self, i: usize) {
        let Some(local) = &mut self.local else { return };
        local.lanes -= 1;
        local.direct.retain(|k| *k != i);
        local.stuck.retain(|k| *k != i);
    }

    /// Whether a pair's lane had no room for all there was, so that somebody has to come back for it.
    pub(crate) fn set_stuck(&mut self, i: usize, yes: bool) {
        let Some(local) = &mut self.local else { return };
        match local.stuck.iter().position(|k| *k == i) {
            None if yes => local.stuck.push(i),
            Some(at) if !yes => {
                local.stuck.swap_remove(at);
            }
            _ => (),
        }
    }

    /// Whether there is something to read on lanes of shared memory, or room where there was none.
    pub(crate) fn pending_input(&self) -> bool {
        let Some(local) = &self.local else { return false };
        let has_input = |i: &usize| self.shm_lane(*i).is_some_and(ShmLane::has_input);
        let has_room = |i: &usize| self.shm_lane(*i).is_some_and(|lane| !lane.is_stuck());
        local.direct.iter().any(has_input) || local.own.any() || local.stuck.iter().any(has_room)
    }

    /// Reads what is there on lanes of shared memory; whether anything was.
    pub(crate) fn read_local(&mut self) -> bool {
        if !self.has_shm_lanes() {
            return false;
        }
        let mut found = false;
        let mut k = 0;
        while let Some(&i) = self.local.as_ref().and_then(|local| local.direct.get(k)) {
            if self.shm_lane(i).is_some_and(ShmLane::has_input) {
                found |= self.read(i);
            }
            k += 1;
        }
        if self.local.as_ref().is_some_and(|local| local.own.any()) {
            found |= self.read_told();
        }
        if self.local.as_ref().is_some_and(|local| !local.stuck.is_empty()) {
            self.retry_stuck();
        }
        found
    }

    /// Reads the lanes whose bits are set.
    fn read_told(&mut self) -> bool {
        let Some(local) = &mut self.local else { return false };
        let mut bits = std::mem::take(&mut local.bits);
        local.own.take(|bit| bits.push(bit));
        let mut found = false;
        for bit in bits.drain(..) {
            for i in (bit as usize..self.pairs.len()).step_by(BITS as usize) {
                if self.shm_lane(i).is_some_and(ShmLane::has_input) && self.read(i) {
                    found = true;
                    self.promote(i);
                }
            }
        }
        if let Some(local) = &mut self.local {
            local.bits = bits;
        }
        found
    }

    /// A lane whose bit was set has brought something: perhaps it is looked at by itself from now on. If not, and something
    /// is left, it is told of once more.
    fn promote(&mut self, i: usize) {
        let Some(local) = &self.local else { return };
        if local.direct.contains(&i) {
            return;
        }
        if self.brought(i) >= local.fast_after && self.make_place_for(i) {
            self.set_direct(i, true);
        } else if let Some(local) = &self.local
            && self.shm_lane(i).is_some_and(ShmLane::has_input)
        {
            local.own.set(bit_of(i));
        }
    }

    /// How often a lane has brought something since there was last a change among those that are looked at.
    fn brought(&self, i: usize) -> u32 {
        self.pairs[i].lane.as_ref().map_or(0, |lane| lane.brought)
    }

    /// Makes sure that one more lane may be looked at by itself: if there are as many as may be, the one that has brought
    /// least gives way, if it has brought less than this one.
    fn make_place_for(&mut self, i: usize) -> bool {
        let Some(local) = &self.local else { return false };
        if local.direct.len() < local.fast_max {
            return true;
        }
        let Some(&least) = local.direct.iter().min_by_key(|k| self.brought(**k)) else { return false };
        if self.brought(least) >= self.brought(i) {
            return false;
        }
        self.set_direct(least, false);
        // Something may have come just before it was told.
        self.local.iter().for_each(|local| local.own.set(bit_of(least)));
        for pair in &mut self.pairs {
            pair.lane.iter_mut().for_each(|lane| lane.brought = 0);
        }
        true
    }

    fn set_direct(&mut self, i: usize, yes: bool) {
        if let Some(shm) = self.shm_lane(i) {
            shm.set_direct(yes);
        }
        let Some(local) = &mut self.local else { return };
        if yes {
            local.direct.push(i);
        } else {
            local.direct.retain(|k| *k != i);
        }
    }

    /// For tests: whether two processes have a lane of shared memory.
    #[doc(hidden)]
    pub fn is_shared(&self, local: ProcId, remote: ProcId) -> bool {
        self.find_pair(local, remote).is_some_and(|i| self.shm_lane(i).is_some())
    }

    /// For tests: whether the lane between two processes is looked at by itself.
    #[doc(hidden)]
    pub fn is_direct(&self, local: ProcId, remote: ProcId) -> bool {
        let i = self.find_pair(local, remote);
        i.is_some_and(|i| self.local.as_ref().is_some_and(|l| l.direct.contains(&i)))
    }

    /// Goes on with those for which there is room now.
    fn retry_stuck(&mut self) {
        let Some(local) = &self.local else { return };
        let has_room = |i: &usize| self.shm_lane(*i).is_none_or(|lane| !lane.is_stuck());
        let freed: Vec<usize> = local.stuck.iter().copied().filter(has_room).collect();
        for i in freed {
            self.set_stuck(i, false);
            self.mark(i);
        }
    }

    // ---- sleeping

    /// Somebody is about to sleep on the watch. False: there is something to do, so better not.
    pub(crate) fn lie_down(&mut self) -> bool {
        self.local.iter().for_each(|local| local.own.doze());
        let lies = !self.is_dirty() && !self.pending_input();
        self.sleepers += usize::from(lies);
        lies
    }

    /// One who slept is awake.
    pub(crate) fn get_up(&mut self) {
        self.sleepers -= 1;
    }
}
