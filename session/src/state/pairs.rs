//! The table of pairs.

use crate::state::pair::Pair;
use base::ProcId;
use std::collections::HashMap;

/// All pairs, by number and by their two processes.
pub(crate) struct Pairs<L> {
    /// By number. A slot whose pair has ended is used again.
    pub(crate) slots: Vec<Pair<L>>,
    pub(crate) by_ids: HashMap<(ProcId, ProcId), usize>,
    /// The serial number of the newest pair.
    pub(crate) last_serial: u64,
    /// The pairs whose other side is a stranger, in order of arrival.
    pub strangers: Vec<usize>,
}

impl<L> Default for Pairs<L> {
    fn default() -> Pairs<L> {
        Pairs { slots: Vec::new(), by_ids: HashMap::new(), last_serial: 0, strangers: Vec::new() }
    }
}

impl<L> std::ops::Index<usize> for Pairs<L> {
    type Output = Pair<L>;

    #[inline]
    fn index(&self, i: usize) -> &Pair<L> {
        &self.slots[i]
    }
}

impl<L> std::ops::IndexMut<usize> for Pairs<L> {
    #[inline]
    fn index_mut(&mut self, i: usize) -> &mut Pair<L> {
        &mut self.slots[i]
    }
}

impl<L> Pairs<L> {
    /// The table of these pairs, from a snapshot.
    pub fn of(slots: Vec<Pair<L>>, last_serial: u64, strangers: Vec<usize>) -> Pairs<L> {
        let live = slots.iter().enumerate().filter(|(_, pair)| pair.serial != 0);
        let by_ids = live.map(|(i, pair)| ((pair.local(), pair.remote()), i)).collect();
        Pairs { slots, by_ids, last_serial, strangers }
    }

    pub fn last_serial(&self) -> u64 {
        self.last_serial
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn get_mut(&mut self, i: usize) -> Option<&mut Pair<L>> {
        self.slots.get_mut(i)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Pair<L>)> {
        self.slots.iter().enumerate()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pair<L>> {
        self.slots.iter_mut()
    }

    pub fn find(&self, local: ProcId, remote: ProcId) -> Option<usize> {
        self.by_ids.get(&(local, remote)).copied()
    }

    /// How many pairs there are.
    pub fn in_use(&self) -> usize {
        self.by_ids.len()
    }

    /// The pairs of one group of ours.
    pub fn of_group(&self, incarnation: u64) -> impl Iterator<Item = usize> {
        self.by_ids.iter().filter(move |((local, _), _)| local.incarnation == incarnation).map(|(_, &i)| i)
    }

    /// Takes a pair out; its number may be used again.
    pub fn end(&mut self, i: usize) -> Pair<L> {
        let peer = self.slots[i].peer;
        let ended = std::mem::replace(&mut self.slots[i], Pair::nobody(peer));
        self.strangers.retain(|s| *s != i);
        self.by_ids.remove(&(ended.local(), ended.remote()));
        ended
    }
}
