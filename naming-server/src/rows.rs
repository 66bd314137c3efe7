//! What people are shown of a store's list: a row for each job and each port, and one for the two halves of a coupling.
//!
//! Invariant: a coupling is there while both of its halves are.

use crate::State;
use crate::record::{Kind, Record};
use std::collections::HashMap;

/// One line of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its record, or that of one half.
    pub record: Record,
    /// What is known of its holder.
    pub state: State,
    /// The other half of a coupling.
    pub other: Option<Record>,
}

impl Row {
    /// What its records say, with a dash between what two halves say.
    pub fn both(&self, what: impl Fn(&Record) -> String) -> String {
        let one = what(&self.record);
        self.other.as_ref().map_or_else(|| one.clone(), |other| format!("{one} - {}", what(other)))
    }

    /// The same, once if both halves say the same.
    pub fn shared(&self, what: impl Fn(&Record) -> String) -> String {
        match &self.other {
            Some(other) if what(other) == what(&self.record) => what(other),
            _ => self.both(what),
        }
    }

    /// The record, or those of both halves.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        std::iter::once(&self.record).chain(&self.other)
    }
}

/// A store's list as rows; couplings behind the jobs and ports of their run.
pub fn rows(all: Vec<(Record, State)>) -> Vec<Row> {
    let (halves, names): (Vec<_>, Vec<_>) = all.into_iter().partition(|(r, _)| r.kind() == Kind::Coupling);
    let mut rows: Vec<_> = names.into_iter().map(|(record, state)| Row { record, state, other: None }).collect();
    // Those whose other half has not been met, by what that one says of itself.
    let mut alone = HashMap::new();
    for (half, state) in halves {
        let name = Some(half.name.clone());
        let mine = (half.run.clone(), half.incarnation, name.clone(), half.coupled.clone());
        match alone.remove(&mine) {
            Some((record, state)) => rows.push(Row { record, state, other: Some(half) }),
            None => drop(alone.insert((half.run.clone(), half.incarnation, half.coupled.clone(), name), (half, state))),
        }
    }
    rows.sort_by_cached_key(|row| (row.record.run.clone(), row.other.is_some(), row.record.key()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each half alone: looking through all the others for every one takes minutes.
    #[test]
    fn many_halves_are_looked_at_once() {
        let half = |id| Record { coupled: Some("ocean".into()), incarnation: id, ..Record::new("air") };
        let begun = std::time::Instant::now();
        assert_eq!(rows((0..60_000).map(|id| (half(id), State::Live)).collect()), []);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_coupling_takes_two() {
        let job = |name: &str| (Record::new(name), State::Live);
        let half = |name: &str, other: &str, id| {
            let record = Record { coupled: Some(other.into()), incarnation: id, size: id as u32, ..Record::new(name) };
            (record, State::Live)
        };
        let seen = |all: Vec<_>| rows(all).iter().map(|row| row.both(|r| r.name.clone())).collect::<Vec<_>>();
        let whole = vec![half("air", "ocean", 7), job("ice"), half("ocean", "air", 7)];
        assert_eq!(seen(whole.clone()), ["ice", "air - ocean"]);
        assert_eq!(seen(whole[..2].to_vec()), ["ice"], "one half alone");
        assert_eq!(seen(vec![half("air", "ocean", 7), half("ocean", "air", 8)]), [] as [&str; 0]);
        let row = rows(whole).pop().unwrap();
        assert_eq!(
            (row.both(|r| r.size.to_string()), row.shared(|r| r.size.to_string())),
            ("7 - 7".into(), "7".into())
        );
    }
}
