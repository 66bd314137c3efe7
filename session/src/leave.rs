//! The end of pairs: their lane, their slot and what was known of them are given back.
//!
//! Part of the session. A pair ends when no inter-communicator uses it and either our group was removed or the other side
//! is gone. Invariants: a pair does not end while something that was sent may still be delivered. A slot is used again only
//! when no handle names its pair.

use crate::state::Session;
use base::Memory;
use wire::lane::Lane;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Ends all pairs that can end now.
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

    /// Ends a pair, if it can end now. Returns whether it must be looked at again.
    fn leave(&mut self, i: usize) -> bool {
        let pair = &self.pairs[i];
        let removed = self.groups.is_removed(pair.local().incarnation) && !self.is_of_directory(i);
        if pair.serial == 0 || pair.inters > 0 {
            return false;
        }
        let has_lane = pair.lane().is_some();
        match pair.gone() {
            // The side that has said BYE closes the lane, once its BYE is acknowledged. If both have, either side may.
            Some(_) if has_lane && (!pair.bye_said || pair.owes()) => return true,
            // It has taken its leave during a hold, and waits for the answer.
            Some(_) if pair.owes_return() => return true,
            // What it sent may still be read, until our group is removed too.
            Some(_)
                if !removed
                    && pair.caller.is_none()
                    && (self.engine.keeps_early(pair.peer) || !pair.inbox.messages.is_empty()) =>
            {
                return false;
            }
            // A claimed message of it may still be received.
            Some(_) if self.engine.depends_on(pair.peer) => return true,
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
                // A BYE alone is no reason to dial: a process that dials us is told that we have left.
                let owed = pair.path.unacknowledged() > usize::from(pair.bye_said);
                // Nor is it dialled for an offer that was given up: a port forgets a caller that does not come again.
                let comes_again = pair.can_dial() && !pair.evidence.at_port;
                // Who waits for this process to come back would wait for one that has ended, too.
                let is_missed = owed || pair.is_expected_back;
                let waits = if pair.lane().is_some() { pair.owes() } else { is_missed && comes_again };
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

    /// Says BYE to a pair: nothing may follow.
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

    /// For MPI_Finalize: says BYE on all pairs that have had a lane or have something to deliver.
    pub fn say_goodbye(&mut self) {
        for i in 0..self.pairs.len() {
            let pair = &self.pairs[i];
            let known = pair.evidence.met || !pair.path.all_acknowledged();
            if pair.gone().is_none() && known && !pair.bye_said {
                self.say_bye(i);
            }
        }
    }

    /// The pairs, other than those whose process is gone, that have something that is not delivered yet; and those whose process has taken
    /// its leave during a hold.
    pub fn owing(&self) -> impl Iterator<Item = usize> {
        self.pairs.iter().filter(|(_, p)| p.gone().is_none() && p.owes() || p.owes_return()).map(|(i, _)| i)
    }

    /// How many these are.
    pub fn unacknowledged(&self) -> usize {
        self.owing().count()
    }

    /// How many bytes all paths keep until they are acknowledged.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.pairs.iter().map(|(_, p)| p.path.retained_bytes()).sum()
    }

    /// The bytes that lanes have brought, that they have taken, and that the other side's kernel has not acknowledged.
    /// On a slow link the last is all that is seen to change.
    pub fn moved(&mut self) -> (u64, u64, u64) {
        let lanes = self.pairs.iter_mut().filter_map(|p| p.lane_mut());
        let in_kernel = lanes.filter_map(|up| up.lane.in_kernel()).map(|kernel| kernel.bytes).sum();
        (self.bytes_in, self.bytes_out, in_kernel)
    }
}
