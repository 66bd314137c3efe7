//! How pairs end: their lane, their slot and all that was known of them are given back.
//!
//! Part of the core. A pair ends when no inter-communicator uses it and either our group was removed or the other side
//! is gone. Invariant: nothing that was sent is given up by it, and a slot is free only when nobody can name it.

use crate::Gone;
use crate::core::{Between, Core};
use crate::pair::Pair;

/// How many groups that have left are known to have, of those that one group of ours met. The calls that could still name
/// one are collective over ours, so it is the last or the one before.
const MOST_LEFT: usize = 4;

impl Core {
    pub(crate) fn remove_group(&mut self, incarnation: u64) {
        let Some(known) = self.groups.get_mut(&incarnation) else { return };
        known.removed = true;
        if known.pairs == 0 {
            self.groups.remove(&incarnation);
        }
        // With the group goes the memory of those whose pair has ended.
        let engine = &mut self.engine;
        self.between.retain(|(ours, _), between| {
            let stays = *ours != incarnation || between.pairs > 0;
            if !stays {
                engine.remove_group(between.number);
            }
            stays
        });
        let its = self.by_ids.iter().filter(|((local, _), _)| local.incarnation == incarnation);
        self.leaving.extend(its.map(|(_, &i)| i));
        self.see_off_all();
    }

    #[inline]
    pub(crate) fn see_off_all(&mut self) {
        if !self.leaving.is_empty() {
            self.see_off_each();
        }
    }

    fn see_off_each(&mut self) {
        for i in self.leaving.clone() {
            if !self.see_off(i) {
                self.leaving.remove(&i);
            }
        }
    }

    /// Takes the end of a pair as far as it goes. Whether it must be looked at again.
    fn see_off(&mut self, i: usize) -> bool {
        let pair = &self.pairs[i];
        let removed = self.groups.get(&pair.local.incarnation).is_none_or(|known| known.removed);
        if pair.serial == 0 || pair.inters > 0 {
            return false;
        }
        let bye_waits = pair.bye_said && pair.owes();
        match pair.gone {
            // Whoever said BYE closes the lane, when it knows that we have it. If both did, either may.
            Some(_) if pair.lane.is_some() && (!pair.bye_said || bye_waits) => return true,
            // What it said may still be read, until our group goes too.
            Some(_)
                if !removed && !pair.is_caller && (self.engine.keeps_early(pair.peer) || !pair.controls.is_empty()) =>
            {
                return false;
            }
            Some(_) => {}
            None if !removed => return false,
            None => {
                if self.engine.depends_on(pair.peer) {
                    return true;
                }
                if !pair.bye_said && pair.lane.is_some() {
                    self.say_bye(i);
                }
                let pair = &self.pairs[i];
                // BYE alone is worth no new connection: whoever comes is told that we have left.
                let owed = pair.path.unacknowledged() > usize::from(pair.bye_said);
                let waits = if pair.lane.is_some() { pair.owes() } else { owed && pair.can_dial() };
                if waits {
                    return true;
                }
            }
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
        self.drop_lane(i);
        self.end_dial(i);
        let peer = self.pairs[i].peer;
        let Pair { serial, local, remote, gone, is_caller, claimed, .. } =
            std::mem::replace(&mut self.pairs[i], Pair::nobody(peer));
        self.strangers.retain(|s| *s != i);
        base::log!(Debug, "{local} and {remote} have done with each other");
        self.engine.remove_peer(peer);
        self.by_ids.remove(&(local, remote));
        self.timed.remove(&i);
        self.dirty.retain(|d| *d != i);
        let key = (local.incarnation, remote.incarnation);
        if let Some(between) = self.between.get_mut(&key) {
            between.pairs -= 1;
            // Of a stranger nobody knows whether it was what it said.
            if !removed && !is_caller && claimed.is_none() {
                between.over.insert(remote.rank, gone.unwrap_or(Gone::Finished));
                self.forget_oldest(local.incarnation);
            } else if between.pairs == 0 {
                self.engine.remove_group(between.number);
                self.between.remove(&key);
            }
        }
        if let Some(known) = self.groups.get_mut(&local.incarnation) {
            known.pairs -= 1;
            if let Some(callers) = &mut known.callers {
                callers.retain(|caller| caller.serial != serial);
            }
            if removed && known.pairs == 0 {
                self.groups.remove(&local.incarnation);
            }
        }
    }

    /// Forgets the group that left first, if there are too many. Those that were given up for dead are not forgotten: they
    /// might come back.
    fn forget_oldest(&mut self, ours: u64) {
        let has_left = |b: &Between| b.pairs == 0 && b.over.values().all(|gone| *gone == Gone::Finished);
        let left = self.between.iter().filter(|((o, _), b)| *o == ours && has_left(b));
        let left: Vec<_> = left.map(|(key, b)| (b.number, *key)).collect();
        if left.len() > MOST_LEFT
            && let Some((number, key)) = left.into_iter().min()
        {
            self.engine.remove_group(number);
            self.between.remove(&key);
        }
    }

    /// For tests: how many groups there are, or were.
    #[doc(hidden)]
    pub fn groups_known(&self) -> usize {
        self.between.len()
    }

    /// Says BYE to all who were ever connected, or are owed something.
    pub(crate) fn say_goodbye(&mut self) {
        self.closing = true;
        for i in 0..self.pairs.len() {
            let pair = &self.pairs[i];
            let known = pair.was_up || !pair.path.all_acknowledged();
            if pair.gone.is_none() && known && !pair.bye_said {
                self.say_bye(i);
            }
        }
    }

    /// How many of those who live lack something.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.pairs.iter().filter(|p| p.gone.is_none() && p.owes()).count()
    }

    pub(crate) fn unacknowledged_bytes(&self) -> usize {
        self.pairs.iter().map(|p| p.path.retained_bytes()).sum()
    }

    /// What lanes have taken, and how much of it is still in our kernel: for a slow way, all that is seen to move.
    pub(crate) fn sent(&mut self) -> (u64, u64) {
        let lanes = self.pairs.iter_mut().filter_map(|p| p.lane.as_mut());
        (self.bytes_out, lanes.map(|l| l.lane.under_way()).sum())
    }

    /// For tests: how much has come, on all lanes.
    #[doc(hidden)]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_in
    }

    /// For tests: how many pairs there are.
    #[doc(hidden)]
    pub fn pairs_in_use(&self) -> usize {
        self.by_ids.len()
    }
}
