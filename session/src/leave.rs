//! How pairs end: their lane, their slot and all that was known of them are given back.
//!
//! Part of the session. A pair ends when no inter-communicator uses it and either our group was removed or the other side
//! is gone. Invariant: nothing that was sent is given up by it, and a slot is free only when nobody can name it.

use crate::state::Session;
use base::Memory;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Takes the end of all pairs that may end as far as it goes.
    #[inline]
    pub fn leave_all(&mut self) {
        if !self.agenda.leaving.is_empty() {
            self.leave_each();
        }
    }

    fn leave_each(&mut self) {
        for i in self.agenda.leaving.clone() {
            if !self.leave(i) {
                self.agenda.leaving.remove(&i);
            }
        }
    }

    /// Takes the end of a pair as far as it goes. Whether it must be looked at again.
    fn leave(&mut self, i: usize) -> bool {
        let pair = &self.pairs[i];
        let removed = self.groups.is_removed(pair.local().incarnation);
        if pair.serial == 0 || pair.inters > 0 {
            return false;
        }
        let has_lane = pair.lane().is_some();
        match pair.gone() {
            // Whoever said BYE closes the lane, when it knows that we have it. If both did, either may.
            Some(_) if has_lane && (!pair.bye_said || pair.owes()) => return true,
            // What it said may still be read, until our group goes too.
            Some(_)
                if !removed
                    && pair.caller.is_none()
                    && (self.engine.keeps_early(pair.peer) || !pair.inbox.messages.is_empty()) =>
            {
                return false;
            }
            Some(_) => {}
            None if !removed => return false,
            None => {
                if self.engine.depends_on(pair.peer) {
                    return true;
                }
                if !pair.bye_said && has_lane {
                    self.say_bye(i);
                }
                let pair = &self.pairs[i];
                // BYE alone is worth no new connection: whoever comes is told that we have left.
                let owed = pair.path.unacknowledged() > usize::from(pair.bye_said);
                let waits = if pair.lane().is_some() { pair.owes() } else { owed && pair.can_dial() };
                if waits {
                    return true;
                }
            }
        }
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::NoEnd {
            return true;
        }
        self.end_pair(i, removed);
        false
    }

    /// Nothing may follow to this pair.
    fn say_bye(&mut self, i: usize) {
        self.pairs[i].bye_said = true;
        self.engine.bye(self.pairs[i].peer);
        self.settle();
        self.pairs[i].path.flush();
        self.mark(i);
        self.settle();
    }

    pub(crate) fn end_pair(&mut self, i: usize, removed: bool) {
        self.end_dial(i);
        self.drop_lane(i);
        let peer = self.pairs[i].peer;
        let ended = self.pairs.end(i);
        let (local, remote) = (ended.local(), ended.remote());
        base::log!(Debug, "{local} and {remote} have done with each other");
        self.engine.remove_peer(peer);
        self.agenda.timed.remove(&i);
        self.agenda.lossy.remove(&i);
        self.agenda.dirty.retain(|d| *d != i);
        let gone = self.remembered(&ended, removed);
        self.groups.end_pair(&mut self.engine, local, remote, ended.serial, gone);
    }

    // ---- Finalize

    /// Says BYE to all who were ever connected, or are owed something.
    pub fn say_goodbye(&mut self) {
        for i in 0..self.pairs.len() {
            let pair = &self.pairs[i];
            let known = pair.evidence.met || !pair.path.all_acknowledged();
            if pair.gone().is_none() && known && !pair.bye_said {
                self.say_bye(i);
            }
        }
    }

    /// How many of those who live lack something.
    pub fn unacknowledged(&self) -> usize {
        self.pairs.iter().filter(|(_, p)| p.gone().is_none() && p.owes()).count()
    }

    pub fn unacknowledged_bytes(&self) -> usize {
        self.pairs.iter().map(|(_, p)| p.path.retained_bytes()).sum()
    }

    /// What lanes have brought and taken, and how much of that is still in our kernel: for a slow way, all that is seen to
    /// move.
    pub fn moved(&mut self) -> (u64, u64, u64) {
        let lanes = self.pairs.iter_mut().filter_map(|p| p.lane_mut());
        let in_kernel = lanes.filter_map(|up| up.lane.in_kernel()).map(|kernel| kernel.bytes).sum();
        (self.bytes_in, self.bytes_out, in_kernel)
    }
}
