//! `mpi-connect names --watch`: one line for each name that comes or goes, until interrupted.

use crate::output;
use crate::select::Selection;
use crate::shown::{kind_word, object, pairs, printable};
use crate::time::utc;
use naming::{Fate, Follower, Kind, Naming, Record, Row, StoreError, Watch, follow, live};
use std::io::{self, Write};

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
    let tell = |fate, row: &Row, at| tell(out, Some(fate), row, at, json);
    follow(store, changes, all, &mut Following { wanted, tell })
}

/// Somebody who is told of a selection.
pub struct Following<'a, T> {
    pub wanted: &'a Selection<'a>,
    pub tell: T,
}

impl<T: FnMut(Fate, &Row, u64) -> io::Result<()>> Follower for Following<'_, T> {
    fn wants(&self, row: &Row) -> bool {
        self.wanted.wants(row)
    }
    fn tell(&mut self, fate: Fate, row: &Row, at: u64) -> io::Result<()> {
        (self.tell)(fate, row, at)
    }
    fn fails(&mut self, e: &StoreError) {
        output::say(format_args!("{e}; watching on"));
    }
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
