//! Which names come and go, for whoever wants to be told.
//!
//! The store tells what it notices, so that a name or a coupling which comes and goes between two looks is told of too; and
//! its list is looked at each second, for what it cannot notice: deaths in a folder, folders that other hosts write to.

use crate::error::StoreError;
use crate::fate::Fate;
use crate::record::{Key, Kind, Record};
use crate::rows::{Row, rows};
use crate::{Change, Naming, State, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

const AGAIN: Duration = Duration::from_secs(1);

/// Claims that stand, each by what makes it another than the next of its name.
pub type Live = BTreeMap<(Key, u64), Row>;

/// Who is told of names that come and go.
pub trait Follower {
    /// Whether it is told of this one.
    fn wants(&self, row: &Row) -> bool;
    /// A name has come or gone, at this time (in seconds since 1970). An error ends it.
    fn tell(&mut self, fate: Fate, row: &Row, at: u64) -> io::Result<()>;
    /// The store cannot be seen; told once until it can be. What cannot be seen has not gone.
    fn fails(&mut self, e: &StoreError);
    /// Asked about once a second.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Tells of each name that comes or goes, until the first error, or until it is told to end. `all`: those that are known.
pub fn follow(
    store: &dyn Naming,
    mut changes: Box<dyn Watch + '_>,
    all: Vec<Row>,
    to: &mut impl Follower,
) -> io::Result<()> {
    let mut before = live(all);
    let mut failing = false;
    let mut halves = Halves::default();
    let mut aborted = BTreeSet::new();
    let mut is_asked_again = false;
    while to.goes_on() {
        for change in changes.next(AGAIN) {
            let at = change.at;
            if is_sign(&change.record) {
                aborted.insert(holder(&change.record));
            }
            for (fate, row) in halves.step(change) {
                let came = fate == Fate::Claimed;
                let mut key = key(&row);
                // What was gone before it could be read may have been in the list a moment ago.
                if row.record.pid == 0
                    && let Some(listed) = before.keys().find(|(of, _)| *of == key.0)
                {
                    key = listed.clone();
                }
                if !to.wants(&row) || before.contains_key(&key) == came {
                    continue;
                }
                if came {
                    to.tell(fate, &row, at)?;
                    before.insert(key, row);
                } else {
                    let row = before.remove(&key).unwrap_or(row);
                    let fate = if aborted.contains(&holder(&row.record)) { Fate::Over } else { fate };
                    to.tell(fate, &row, at)?;
                }
            }
        }
        let (now, left_over) = match store.list() {
            Ok(all) => {
                aborted = all.iter().map(|(record, _)| record).filter(|record| is_sign(record)).map(holder).collect();
                let (now, others): (Vec<_>, Vec<_>) = rows(all).into_iter().partition(|row| row.state == State::Live);
                let others = others.iter().filter(|row| row.state == State::LeftOver).map(key);
                (live(now.into_iter().filter(|row| to.wants(row)).collect()), others.collect::<BTreeSet<_>>())
            }
            // What cannot be seen has not gone.
            Err(e) => {
                if !std::mem::replace(&mut failing, true) {
                    to.fails(&e);
                }
                continue;
            }
        };
        failing = false;
        // What is left of a coupling is not listed.
        let has_died = |key: &(Key, u64), gone: &Row| {
            let is_left = left_over.contains(key) || aborted.contains(&holder(&gone.record));
            is_left || gone.other.is_some() && gone.records().any(is_dead)
        };
        // A store may notice a moment later how a name went.
        // A holder that is dead may have given it back before.
        let is_open = before.keys().any(|key| !now.contains_key(key) && !left_over.contains(key));
        if is_open && !std::mem::replace(&mut is_asked_again, true) {
            continue;
        }
        is_asked_again = false;
        let at = crate::now();
        for (key, gone) in &before {
            if !now.contains_key(key) {
                to.tell(if has_died(key, gone) { Fate::Over } else { Fate::Released }, gone, at)?;
            }
        }
        for (key, new) in &now {
            if !before.contains_key(key) {
                to.tell(Fate::Claimed, new, at)?;
            }
        }
        before = now;
    }
    Ok(())
}

/// Whether this is a coupling of a job with itself: so a leader that aborts says that it gives its names back before others take them for
/// left over, and not since its job has ended.
fn is_sign(record: &Record) -> bool {
    record.coupled.as_ref() == Some(&record.name)
}

/// Who holds it: its run, host and process.
fn holder(record: &Record) -> (String, String, u32) {
    (record.run.clone(), record.host.clone(), record.pid)
}

/// Whether the holder was a process of this host, and there is none any more.
fn is_dead(record: &Record) -> bool {
    record.host == crate::host() && !Path::new(&format!("/proc/{}", record.pid)).exists()
}

/// Halves of couplings, by their run and number: of each, whether it stands. Two jobs tell of a coupling that is soon over
/// one after the other, so a half that has gone is kept until the other one comes, for [`KEPT`] at most.
#[derive(Default)]
struct Halves(BTreeMap<(String, u64), Coupling>);

struct Coupling {
    changed: Instant,
    halves: Vec<(Record, bool)>,
    /// One half was given back while the other stood, whose holder was dead: how it went is not known yet.
    is_open: bool,
}

const KEPT: Duration = Duration::from_secs(60);

impl Halves {
    /// What has come and gone by this: a coupling comes with its second half, and goes with the first that goes. If the holder of
    /// the other half is dead by then, it goes with what becomes of that half, or with the list.
    fn step(&mut self, change: Change) -> Vec<(Fate, Row)> {
        let Change { fate, record, .. } = change;
        let came = fate == Fate::Claimed;
        if record.kind() != Kind::Coupling {
            return vec![(fate, Row { record, state: State::Live, other: None })];
        }
        self.0.retain(|_, it| it.halves.iter().any(|(_, stands)| *stands) || it.changed.elapsed() < KEPT);
        let of = (record.run.clone(), record.key().id);
        let new = || Coupling { changed: Instant::now(), halves: Vec::new(), is_open: false };
        let Coupling { changed, halves, is_open } = self.0.entry(of.clone()).or_insert_with(new);
        *changed = Instant::now();
        let stood = halves.iter().filter(|(_, stands)| *stands).count();
        halves.retain(|(half, _)| half.key() != record.key());
        halves.push((record, came));
        let stand = halves.iter().filter(|(_, stands)| *stands).count();
        let was_open = std::mem::take(is_open);
        // It has ended in order, or this half is given back because the holder of the other has died.
        *is_open = (stood, stand) == (2, 1)
            && fate == Fate::Released
            && halves.iter().any(|(half, stands)| *stands && is_dead(half));
        let is_open = *is_open;
        let mut whole: Vec<Record> = halves.iter().map(|(half, _)| half.clone()).collect();
        if stand == 0 && whole.len() == 2 {
            self.0.remove(&of);
        }
        whole.sort_by_key(Record::key);
        let Ok([record, other]) = <[Record; 2]>::try_from(whole) else { return Vec::new() };
        let row = Row { record, state: State::Live, other: Some(other) };
        match (stood, came, stand) {
            (_, true, 2) => vec![(fate, row)],
            // The first half has gone already.
            (_, true, _) => vec![(fate, row.clone()), (Fate::Released, row)],
            (2, false, _) if !is_open => vec![(fate, row)],
            (1, false, _) if was_open => vec![(fate, row)],
            _ => Vec::new(),
        }
    }
}

/// Those of them that stand.
pub fn live(all: Vec<Row>) -> Live {
    let standing = all.into_iter().filter(|row| row.state == State::Live);
    standing.map(|row| (key(&row), row)).collect()
}

fn key(row: &Row) -> (Key, u64) {
    (row.record.key(), row.record.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coupling_is_told_of_once_however_its_halves_come() {
        let half = |name: &str, other: &str, came| {
            let record = Record { coupled: Some(other.into()), incarnation: 7, ..Record::new(name) };
            Change { fate: if came { Fate::Claimed } else { Fate::Over }, at: 0, record }
        };
        let (air, ocean) = (|came| half("air", "ocean", came), |came| half("ocean", "air", came));
        for order in [
            [air(true), ocean(true), ocean(false), air(false)],
            [ocean(true), air(true), ocean(false), air(false)],
            [ocean(true), ocean(false), air(true), air(false)],
        ] {
            let mut halves = Halves::default();
            let told: Vec<_> = order.into_iter().flat_map(|change| halves.step(change)).collect();
            assert_eq!(told.iter().map(|(fate, _)| *fate == Fate::Claimed).collect::<Vec<_>>(), [true, false]);
            assert!(told.iter().all(|(_, row)| row.both(|r| r.name.clone()) == "air - ocean"));
            assert!(halves.0.is_empty());
        }
        let mut halves = Halves::default();
        assert!(halves.step(air(true)).is_empty() && halves.step(air(false)).is_empty(), "one half alone");
    }

    /// Both changes come in one look, and both processes are gone by then.
    #[test]
    fn a_coupling_whose_holders_have_ended_goes_as_its_second_half_did() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let half = |name: &str, other: &str, fate| {
            let host = crate::host();
            let record = Record { coupled: Some(other.into()), incarnation: 7, host, pid, ..Record::new(name) };
            Change { fate, at: 0, record }
        };
        for end in [Fate::Released, Fate::Over] {
            let mut halves = Halves::default();
            let changes = [
                half("air", "ocean", Fate::Claimed),
                half("ocean", "air", Fate::Claimed),
                half("air", "ocean", Fate::Released),
                half("ocean", "air", end),
            ];
            let told: Vec<_> =
                changes.into_iter().flat_map(|change| halves.step(change)).map(|(fate, _)| fate).collect();
            assert_eq!(told, [Fate::Claimed, end]);
            assert!(halves.0.is_empty());
        }
    }
}
