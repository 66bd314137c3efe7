//! Whether what clients have seen of a name fits one order of their requests: each takes effect at one moment between its
//! begin and its answer, or, unanswered, until the server's death or never. The search is Wing and Gong's, which remembers
//! where it has been (Lowe).

use std::collections::{BTreeSet, HashSet};

/// Who holds the name: the incarnation of its record.
pub type Holder = Option<u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// Asked for the name for this holder; whether it got it, or who had it.
    Claim(u64, Option<Result<(), u64>>),
    /// Gave back what this holder has.
    Release(u64, bool),
    /// Looked the name up, and found this.
    Lookup(Holder),
}

/// One request, with the times of its begin and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub begun: u64,
    pub ended: u64,
    pub did: Did,
}

impl Event {
    fn is_open(&self) -> bool {
        matches!(self.did, Did::Claim(_, None) | Did::Release(_, false))
    }

    /// The holder afterwards; `None` if what was seen cannot be with this holder before.
    fn after(&self, before: Holder) -> Option<Holder> {
        match (self.did, before) {
            (Did::Claim(me, Some(Ok(()))), None) => Some(Some(me)),
            (Did::Claim(me, Some(Ok(()))), Some(by)) if by == me => Some(before),
            (Did::Claim(me, None), None) => Some(Some(me)),
            (Did::Claim(_, None), Some(_)) => Some(before),
            (Did::Claim(_, Some(Err(other))), Some(by)) if by == other => Some(before),
            (Did::Release(me, _), Some(by)) if by == me => Some(None),
            (Did::Release(..), _) => Some(before),
            (Did::Lookup(found), _) if found == before => Some(before),
            _ => None,
        }
    }
}

/// The holders that there may be after these requests, begun with these; none if no order fits.
pub fn check(events: &[Event], before: &BTreeSet<Holder>) -> BTreeSet<Holder> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.begun);
    let mut ends = BTreeSet::new();
    let mut seen: HashSet<(Vec<usize>, usize, Holder)> = HashSet::new();
    // Of a state: all before `first` are done, and those beyond it that are listed; and the holder.
    let mut todo: Vec<(Vec<usize>, usize, Holder)> = before.iter().map(|holder| (Vec::new(), 0, *holder)).collect();
    while let Some((done, first, holder)) = todo.pop() {
        if !seen.insert((done.clone(), first, holder)) {
            continue;
        }
        let left: Vec<usize> = (first..events.len()).filter(|i| !done.contains(i)).collect();
        if left.iter().all(|i| events[*i].is_open()) {
            ends.insert(holder);
        }
        let limit = left.iter().map(|i| events[*i].ended).min().unwrap_or(0);
        for next in left.iter().copied().take_while(|i| events[*i].begun <= limit) {
            let Some(then) = events[next].after(holder) else { continue };
            let mut done: Vec<usize> = done.iter().copied().chain([next]).collect();
            done.sort();
            let mut first = first;
            while done.first() == Some(&first) {
                done.remove(0);
                first += 1;
            }
            todo.push((done, first, then));
        }
    }
    ends
}

#[test]
fn what_cannot_be_is_found() {
    let event = |begun, ended, did| Event { begun, ended, did };
    let from = |holder| BTreeSet::from([holder]);
    let got = |me| Did::Claim(me, Some(Ok(())));
    let fits = |events: &[Event]| !check(events, &from(None)).is_empty();
    assert!(fits(&[event(0, 1, got(1)), event(2, 3, Did::Lookup(Some(1)))]));
    assert!(!fits(&[event(0, 1, got(1)), event(2, 3, Did::Lookup(None))]), "lost");
    assert!(!fits(&[event(0, 1, got(1)), event(2, 3, got(2))]), "two holders");
    assert!(fits(&[event(0, 3, got(1)), event(1, 2, Did::Lookup(None))]), "at the same time");
    assert!(fits(&[event(0, 1, got(1)), event(2, 5, Did::Release(1, true)), event(3, 4, got(2))]), "given back before");
    assert!(!fits(&[event(0, 1, Did::Claim(1, Some(Err(2))))]), "refused for nobody");
    let open = [event(0, 9, Did::Claim(1, None)), event(1, 2, Did::Lookup(Some(1))), event(3, 4, Did::Lookup(None))];
    assert!(!fits(&open), "seen, and gone without a release");
    assert_eq!(check(&open[..1], &from(None)), BTreeSet::from([None, Some(1)]));
}
