//! Room that others share, so that one of them takes none of another's. Pure.
//!
//! Invariant: whoever comes finds some room, since each may have half of what the others leave.

use std::collections::BTreeMap;

/// What one may have of a table with room for `most`, of which the others have so much: half of what these leave. So there is
/// always room for one more.
pub fn share(most: usize, others: usize) -> usize {
    most.saturating_sub(others) / 2
}

/// How much of a table each has: a job, a process or a host.
#[derive(Clone, Debug)]
pub struct Shares<K>(BTreeMap<K, usize>);

impl<K> Default for Shares<K> {
    fn default() -> Shares<K> {
        Shares(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Shares<K> {
    /// Whether one may have so much more, of a table with room for `most`.
    pub fn has_room(&self, most: usize, of: K, more: usize) -> bool {
        let others = self.0.iter().filter(|(other, _)| **other != of).map(|(_, has)| has).sum();
        self.of(of).saturating_add(more) <= share(most, others)
    }

    fn of(&self, one: K) -> usize {
        self.0.get(&one).copied().unwrap_or(0)
    }

    /// One has so much more.
    pub fn add(&mut self, of: K, more: usize) {
        if more > 0 {
            *self.0.entry(of).or_default() += more;
        }
    }

    /// Takes so much more for one. `false`: that is more than its share, and nothing is taken.
    pub fn take(&mut self, most: usize, of: K, more: usize) -> bool {
        let fits = self.has_room(most, of, more);
        if fits {
            self.add(of, more);
        }
        fits
    }

    /// One has so much less.
    pub fn give_back(&mut self, of: K, less: usize) {
        if let Some(has) = self.0.get_mut(&of) {
            *has -= less.min(*has);
            if *has == 0 {
                self.0.remove(&of);
            }
        }
    }

    /// Whether nobody has anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaves_room_for_others() {
        let mut shares = Shares::default();
        assert!(shares.take(100, 1, 50) && !shares.take(100, 1, 1));
        assert!(shares.take(100, 2, 25) && !shares.take(100, 2, 1) && shares.take(100, 3, 12));
        shares.give_back(1, 50);
        assert!(shares.take(100, 2, 15));
        [2, 3].into_iter().for_each(|job| shares.give_back(job, 100));
        assert!(shares.is_empty());
    }
}
