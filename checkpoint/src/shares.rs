//! Room that jobs share, so that one of them takes none of another's.

use crate::line::Job;
use std::collections::BTreeMap;

/// What one may have of a table with room for `most`, of which the others have so much: half of what these leave. So there is
/// always room for one more.
pub(crate) fn share(most: usize, others: usize) -> usize {
    most.saturating_sub(others) / 2
}

/// How much of a table each job has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares(BTreeMap<Job, usize>);

impl Shares {
    /// Takes so much more for a job, of a table with room for `most`. `false`: that is more than its share, and nothing is taken.
    pub fn take(&mut self, most: usize, job: Job, more: usize) -> bool {
        let others = self.0.iter().filter(|(other, _)| **other != job).map(|(_, has)| has).sum();
        let has = self.0.get(&job).copied().unwrap_or(0).saturating_add(more);
        let fits = has <= share(most, others);
        if fits && more > 0 {
            self.0.insert(job, has);
        }
        fits
    }

    /// A job has so much less.
    pub fn give_back(&mut self, job: Job, less: usize) {
        if let Some(has) = self.0.get_mut(&job) {
            *has -= less.min(*has);
            if *has == 0 {
                self.0.remove(&job);
            }
        }
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
        assert_eq!(shares.0.len(), 2);
    }
}
