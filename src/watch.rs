//! `mpi-connect names --watch`: one line for each name that comes or goes, until interrupted.
//!
//! Any store will do: it is asked again each second. A claim that was given up and made again in between is told of as
//! one that went and one that came.

use crate::names::{kind_word, object, pairs, printable};
use crate::select::Selection;
use naming::{Kind, Naming, Record, State};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

const AGAIN: Duration = Duration::from_secs(1);

/// Claims that stand, each by what makes it another than the next of its name.
type Live = BTreeMap<(String, Kind, u64, u64), Record>;

/// Ends only when nobody reads what it writes. `all`: what has been shown, if it is not `json`.
pub fn watch(
    store: &dyn Naming,
    wanted: &Selection<'_>,
    all: Vec<(Record, State)>,
    json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut before = live(all);
    if json {
        before.values().try_for_each(|r| tell(out, "there", r, json))?;
    }
    let mut failing = false;
    loop {
        out.flush()?;
        sleep(AGAIN);
        let now = match store.list() {
            Ok(all) => live(wanted.of(all)),
            // What cannot be seen has not gone.
            Err(e) => {
                if !std::mem::replace(&mut failing, true) {
                    eprintln!("mpi-connect: {e}; watching on");
                }
                continue;
            }
        };
        failing = false;
        for (key, gone) in &before {
            if !now.contains_key(key) {
                tell(out, "went", gone, json)?;
            }
        }
        for (key, new) in &now {
            if !before.contains_key(key) {
                tell(out, "came", new, json)?;
            }
        }
        before = now;
    }
}

fn live(all: Vec<(Record, State)>) -> Live {
    let standing = all.into_iter().filter(|(_, state)| *state == State::Live);
    standing.map(|(r, _)| ((r.name.clone(), r.kind(), r.incarnation, r.since), r)).collect()
}

fn tell(out: &mut impl Write, event: &str, r: &Record, json: bool) -> io::Result<()> {
    if json {
        let mut line = object(r, State::Live, naming::now());
        line["event"] = event.into();
        if event == "went" {
            line["state"] = "gone".into();
        }
        return writeln!(out, "{line}").and_then(|()| out.flush());
    }
    let sign = if event == "went" { '-' } else { '+' };
    let ranks = match (r.kind(), r.size) {
        (Kind::Port, _) => String::new(),
        (Kind::Job, 1) => "1 rank of ".into(),
        (Kind::Job, n) => format!("{n} ranks of "),
    };
    let [name, mpi, host] = [&r.name, &r.mpi, &r.host].map(|s| printable(s));
    let line =
        format!("{sign} {name}  {}  {ranks}{mpi}  process {} on {host}  {}", kind_word(r.kind()), r.pid, pairs(r));
    writeln!(out, "{}", line.trim_end()).and_then(|()| out.flush())
}
