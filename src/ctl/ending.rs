//! How a job has ended whose leader answers no more, as its names tell: a job gives them back before it ends, and one that is
//! lost does not.
//!
//! Invariant: a job has ended as it should only if each of its names was seen to be given back.

use naming::{Change, Fate, Naming, Record, State, StoreError, Watch};
use std::time::{Duration, Instant};

/// How long a name may be seen after its job has ended.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often is looked.
const AGAIN: Duration = Duration::from_millis(100);

/// Follows the names while a job is watched.
pub struct Ending<'a> {
    store: &'a dyn Naming,
    changes: Box<dyn Watch + 'a>,
    /// Those that were not given back.
    standing: Vec<Record>,
}

impl<'a> Ending<'a> {
    pub fn new(store: &'a dyn Naming) -> Result<Ending<'a>, StoreError> {
        // Before the list, so that nothing is missed between the two.
        let changes = store.watch();
        let live = store.list()?.into_iter().filter(|(_, state)| *state == State::Live);
        Ok(Ending { store, changes, standing: live.map(|(record, _)| record).collect() })
    }

    /// Takes note of what has changed.
    pub fn look(&mut self) {
        self.wait(Duration::ZERO);
    }

    fn wait(&mut self, patience: Duration) {
        for Change { fate, record, .. } in self.changes.next(patience) {
            match fate {
                Fate::Claimed => self.standing.push(record),
                Fate::Released => self.standing.retain(|one| !is_same(one, &record)),
                // It stands for good.
                Fate::Over => (),
            }
        }
    }

    /// Whether the job of this leader, which answers no more, has given all its names back.
    pub fn is_regular(&mut self, leader: &Record) -> bool {
        let is_own = |one: &Record| (one.pid, &one.host) == (leader.pid, &leader.host);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.wait(AGAIN);
            if !self.standing.iter().any(is_own) {
                return true;
            }
            let left_over = |(one, state): &(Record, State)| *state == State::LeftOver && is_own(one);
            if self.store.list().is_ok_and(|all| all.iter().any(left_over)) {
                return false;
            }
        }
        false
    }
}

fn is_same(one: &Record, other: &Record) -> bool {
    (one.key(), one.incarnation) == (other.key(), other.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_gives_its_names_back_has_ended_as_it_should() {
        let dir = std::env::temp_dir().join(format!("ending-{:016x}", u64::from_le_bytes(base::ident::random())));
        std::fs::create_dir(&dir).expect("a folder");
        let store = naming::open(&format!("file:{}", dir.display())).expect("a store");
        let record = |name: &str, pid| Record { pid, host: "node1".into(), ..Record::new(name) };
        let (first, second, other) = (record("air", 7), record("sky", 7), record("ocean", 8));
        let claim = |record| store.claim(record).expect("it is free");
        let (early, kept) = (claim(&first), claim(&other));
        let mut ending = Ending::new(store.as_ref()).expect("it is there");
        let later = claim(&second);
        drop(early);
        ending.look();
        assert!(!ending.is_regular(&first), "it has another name still");
        drop(later);
        assert!(ending.is_regular(&first) && !ending.is_regular(&other));
        drop(kept);
        std::fs::remove_dir_all(&dir).expect("it is there");
    }
}
