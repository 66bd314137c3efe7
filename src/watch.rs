//! `mpi-connect names --watch`: one line for each name that comes or goes, until interrupted.
//!
//! The store tells what it notices, so that a name or a coupling which comes and goes between two looks is told of too; and
//! its list is looked at each second, for what it cannot notice: deaths in a folder, folders that other hosts write to.

use crate::rows::{Row, rows};
use crate::select::Selection;
use crate::shown::{kind_word, object, pairs, printable};
use crate::time::utc;
use naming::{Change, Fate, Key, Kind, Naming, Record, State, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const AGAIN: Duration = Duration::from_secs(1);

/// Claims that stand, each by what makes it another than the next of its name.
type Live = BTreeMap<(Key, u64), Row>;

/// Ends only when nobody reads what it writes. `all`: what has been shown, if it is not `json`.
pub fn watch(
    store: &dyn Naming,
    changes: Box<dyn Watch + '_>,
    wanted: &Selection<'_>,
    all: Vec<Row>,
    json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    if json {
        live(all.clone()).values().try_for_each(|r| tell(out, None, r, naming::now(), json))?;
    }
    out.flush()?;
    follow(store, changes, wanted, all, |fate, row, at| tell(out, Some(fate), row, at, json))
}

/// Tells of each name that comes or goes, when, until the first error. `all`: those that are known.
pub fn follow(
    store: &dyn Naming,
    mut changes: Box<dyn Watch + '_>,
    wanted: &Selection<'_>,
    all: Vec<Row>,
    mut tell: impl FnMut(Fate, &Row, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut before = live(all);
    let mut failing = false;
    let mut halves = Halves::default();
    let mut is_asked_again = false;
    loop {
        for change in changes.next(AGAIN) {
            let at = change.at;
            for (fate, row) in halves.step(change) {
                let came = fate == Fate::Claimed;
                let mut key = key(&row);
                // What was gone before it could be read may have been in the list a moment ago.
                if row.record.pid == 0
                    && let Some(listed) = before.keys().find(|(of, _)| *of == key.0)
                {
                    key = listed.clone();
                }
                if wanted.of(vec![row.clone()]).is_empty() || before.contains_key(&key) == came {
                    continue;
                }
                if came {
                    tell(fate, &row, at)?;
                    before.insert(key, row);
                } else {
                    let row = before.remove(&key).unwrap_or(row);
                    tell(fate, &row, at)?;
                }
            }
        }
        let (now, left_over) = match store.list() {
            Ok(all) => {
                let (now, others): (Vec<_>, Vec<_>) = rows(all).into_iter().partition(|row| row.state == State::Live);
                let others = others.iter().filter(|row| row.state == State::LeftOver).map(key);
                (live(wanted.of(now)), others.collect::<BTreeSet<_>>())
            }
            // What cannot be seen has not gone.
            Err(e) => {
                if !std::mem::replace(&mut failing, true) {
                    eprintln!("mpi-connect: {e}; watching on");
                }
                continue;
            }
        };
        failing = false;
        // What is left of a coupling is not listed.
        let has_died = |key: &(Key, u64), gone: &Row| {
            left_over.contains(key) || gone.other.is_some() && gone.records().any(is_dead)
        };
        // A store may notice a moment later how a name went: a server lists none whose lease is over.
        let is_open = before.iter().any(|(key, gone)| !now.contains_key(key) && !has_died(key, gone));
        if is_open && !std::mem::replace(&mut is_asked_again, true) {
            continue;
        }
        is_asked_again = false;
        let at = naming::now();
        for (key, gone) in &before {
            if !now.contains_key(key) {
                tell(if has_died(key, gone) { Fate::Over } else { Fate::Released }, gone, at)?;
            }
        }
        for (key, new) in &now {
            if !before.contains_key(key) {
                tell(Fate::Claimed, new, at)?;
            }
        }
        before = now;
    }
}

/// Whether the holder was a process of this host, and there is none any more.
fn is_dead(record: &Record) -> bool {
    record.host == naming::host() && !Path::new(&format!("/proc/{}", record.pid)).exists()
}

/// Halves of couplings, by their run and number: of each, whether it stands. Two jobs tell of a coupling that is soon over
/// one after the other, so a half that has gone is kept until the other one comes, for [`KEPT`] at most.
#[derive(Default)]
struct Halves(BTreeMap<(String, u64), Coupling>);

struct Coupling {
    changed: Instant,
    halves: Vec<(Record, bool)>,
}

const KEPT: Duration = Duration::from_secs(60);

impl Halves {
    /// What has come and gone by this: a coupling comes with its second half, and goes with the first that goes.
    fn step(&mut self, change: Change) -> Vec<(Fate, Row)> {
        let Change { fate, record, .. } = change;
        let came = fate == Fate::Claimed;
        if record.kind() != Kind::Coupling {
            return vec![(fate, Row { record, state: State::Live, other: None })];
        }
        self.0.retain(|_, it| it.halves.iter().any(|(_, stands)| *stands) || it.changed.elapsed() < KEPT);
        let of = (record.run.clone(), record.key().id);
        let new = || Coupling { changed: Instant::now(), halves: Vec::new() };
        let Coupling { changed, halves } = self.0.entry(of.clone()).or_insert_with(new);
        *changed = Instant::now();
        let stood = halves.iter().filter(|(_, stands)| *stands).count();
        halves.retain(|(half, _)| half.key() != record.key());
        halves.push((record, came));
        let stand = halves.iter().filter(|(_, stands)| *stands).count();
        // One half is given back because the holder of the other has died.
        let is_left_over = !came && halves.iter().any(|(half, stands)| *stands && is_dead(half));
        let fate = if is_left_over { Fate::Over } else { fate };
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
            (2, false, _) => vec![(fate, row)],
            _ => Vec::new(),
        }
    }
}

fn live(all: Vec<Row>) -> Live {
    let standing = all.into_iter().filter(|row| row.state == State::Live);
    standing.map(|row| (key(&row), row)).collect()
}

fn key(row: &Row) -> (Key, u64) {
    (row.record.key(), row.record.incarnation)
}

/// `fate`: none for what is there from the beginning.
fn tell(out: &mut impl Write, fate: Option<Fate>, row: &Row, at: u64, json: bool) -> io::Result<()> {
    let (event, sign) = match fate {
        None => ("there", '+'),
        Some(Fate::Claimed) => ("joined", '+'),
        Some(Fate::Released) => ("left", '-'),
        Some(Fate::Over) => ("died", '-'),
    };
    let is_gone = sign == '-';
    if json {
        let mut line = object(row, naming::now());
        line["event"] = event.into();
        line["time"] = utc(at).into();
        if is_gone {
            line["state"] = "gone".into();
        }
        return writeln!(out, "{line}").and_then(|()| out.flush());
    }
    let job = |r: &Record| match (r.kind(), r.size) {
        (Kind::Port, _) => r.mpi.clone(),
        (_, 1) => format!("1 rank of {}", r.mpi),
        (_, n) => format!("{n} ranks of {}", r.mpi),
    };
    let [name, jobs, place] =
        [row.both(|r| r.name.clone()), row.both(job), row.both(|r| format!("process {} on {}", r.pid, r.host))]
            .map(|text| printable(&text));
    let run = if row.record.run.is_empty() { String::new() } else { format!("  run {}", printable(&row.record.run)) };
    let kind = kind_word(row.record.kind());
    let jobs = if row.record.pid == 0 { "(gone before it could be read)".into() } else { format!("{jobs}  {place}") };
    let how = if is_gone { format!("  {event}") } else { String::new() };
    let line = format!("{} {sign} {name}{run}  {kind}{how}  {jobs}  {}", utc(at), pairs(&row.record));
    writeln!(out, "{}", line.trim_end()).and_then(|()| out.flush())
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
}
