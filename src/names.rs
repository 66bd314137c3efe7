//! `mpi-connect names`: who has registered or published what. `watch` goes on from there.
//!
//! Invariant: secrets of a record (cookie, contact) are never shown, and no byte of it reaches the terminal raw.

use crate::key::KeyOption;
use crate::output;
use crate::select::{Pair, Selection};
use crate::shown::{kind_word, object, pairs, printable, word};
use crate::watch;
use naming::{Kind, Naming, OpenError, Row, State, StoreError, rows};
use std::fmt;
use std::io;
use std::path::Path;

#[derive(clap::Args)]
pub struct Args {
    /// Where to look, instead of MPI_CONNECT_NAMING or the user's private folder
    #[arg(long, value_name = "URL")]
    naming: Option<String>,
    #[command(flatten)]
    key: KeyOption,
    /// Write JSON; with --watch, one object on each line
    #[arg(long)]
    json: bool,
    /// Go on, and tell who joins, leaves or dies, until interrupted
    #[arg(long)]
    watch: bool,
    /// Only names with this in their metadata; all of them, if given several times
    #[arg(long = "where", value_name = "KEY=VALUE")]
    pairs: Vec<Pair>,
    /// Only names of this run; '' for those of none
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Only names that begin so or, with a * in it, that are so: 'urn:site:*'
    pattern: Option<String>,
}

#[derive(Debug)]
pub enum NamesError {
    Open(OpenError),
    Store(StoreError),
}

impl NamesError {
    /// Whether a setting is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, NamesError::Open(e) if e.is_setting())
    }
}

impl fmt::Display for NamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamesError::Open(e) => e.fmt(f),
            NamesError::Store(e) => e.fmt(f),
        }
    }
}

pub fn names(args: &Args) -> Result<(), NamesError> {
    let url = args.naming.clone().map_or_else(naming::default_url, Ok).map_err(NamesError::Open)?;
    let store = args.key.open(&url).map_err(NamesError::Open)?;
    let wanted = Selection::new(args.pattern.as_deref(), &args.pairs, args.run.as_deref());
    // Before the list, so that nothing is missed between the two.
    let changes = args.watch.then(|| store.watch());
    let all = wanted.of(rows(store.list().map_err(NamesError::Store)?));
    let text = match all.is_empty() {
        _ if args.json && args.watch => String::new(),
        _ if args.json => as_json(&all, naming::now()) + "\n",
        true if is_missing(store.as_ref()) => {
            format!("no names in {}: there is no such folder yet\n", store.describe())
        }
        true if wanted.is_all() => format!("no names in {}\n", store.describe()),
        true => format!("no such names in {}\n", store.describe()),
        false => table(&all, naming::now()),
    };
    if output::write(&text)
        && let Some(changes) = changes
    {
        output::wrote(watch::watch(store.as_ref(), changes, &wanted, all, args.json, &mut io::stdout()));
    }
    Ok(())
}

/// Whether it is a folder that nobody has made.
pub fn is_missing(store: &dyn Naming) -> bool {
    store.url().strip_prefix("file:").is_some_and(|folder| !Path::new(folder).exists())
}

/// The MPI of a job, or who wrote what cannot be read.
fn mpi(row: &Row) -> String {
    match row.state {
        State::OtherVersion(v) if v < naming::VERSION => "written by an older mpi_connect".into(),
        State::OtherVersion(_) => "written by a newer mpi_connect".into(),
        State::OtherUser(_) => "another user's, not read".into(),
        _ => printable(&row.shared(|r| r.mpi.clone())),
    }
}

fn as_json(all: &[Row], now: u64) -> String {
    let rows = all.iter().map(|row| object(row, now));
    format!("{:#}", serde_json::Value::Array(rows.collect()))
}

fn table(all: &[Row], now: u64) -> String {
    let mut rows =
        vec![["RUN", "NAME", "KIND", "STATE", "RANKS", "MPI", "HOST", "PID", "AGE", "METADATA"].map(String::from)];
    rows.extend(all.iter().map(|row| {
        let r = &row.record;
        let known = matches!(row.state, State::Live | State::LeftOver);
        let or_dash = |there: bool, text: String| if there { text } else { "-".into() };
        [
            or_dash(!r.run.is_empty(), printable(&r.run)),
            printable(&row.both(|r| r.name.clone())),
            kind_word(r.kind()).into(),
            word(row.state),
            or_dash(known && r.kind() != Kind::Port, row.both(|r| r.size.to_string())),
            mpi(row),
            or_dash(known, printable(&row.shared(|r| r.host.clone()))),
            or_dash(known, row.both(|r| r.pid.to_string())),
            age(now.saturating_sub(r.since)),
            row.records().map(pairs).filter(|p| !p.is_empty()).collect::<Vec<_>>().join(" - "),
        ]
    }));
    if all.iter().all(|row| row.record.run.is_empty()) {
        let without = |[_, rest @ ..]: [String; 10]| -> [String; 9] { rest };
        return columns(&rows.into_iter().map(without).collect::<Vec<_>>());
    }
    columns(&rows)
}

/// Rows with their columns lined up; the last is not padded.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, w) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:w$}  "));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn age(s: u64) -> String {
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{:02}h", s / 86400, s % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use naming::Record;

    fn record() -> Record {
        Record {
            name: "mer é".into(),
            run: String::new(),
            incarnation: 0xabc,
            cookie: [0x5a; 16],
            size: 12,
            leader: vec![0x5a; 8],
            mpi: "MPICH\u{1b}[2J".into(),
            host: "node1".into(),
            boot: [0; 16],
            pid: 42,
            since: 1000,
            port: None,
            coupled: None,
            metadata: vec![("grid".into(), "t63".into()), ("run".into(), "7".into())],
        }
    }

    fn row(record: Record, state: State) -> Row {
        Row { record, state, other: None }
    }

    #[test]
    fn a_table() {
        let port = Record { port: Some("secret".into()), metadata: vec![], ..record() };
        let text = table(&[row(record(), State::Live), row(port, State::LeftOver)], 1065);
        assert_eq!(
            text,
            "NAME   KIND  STATE      RANKS  MPI        HOST   PID  AGE    METADATA\n\
             mer é  job   live       12     MPICH?[2J  node1  42   1m05s  grid=t63, run=7\n\
             mer é  port  left over  -      MPICH?[2J  node1  42   1m05s\n"
        );
    }

    #[test]
    fn a_table_with_runs() {
        let of = |run: &str| row(Record { run: run.into(), metadata: vec![], ..record() }, State::Live);
        assert_eq!(
            table(&[of(""), of("case7")], 1001),
            "RUN    NAME   KIND  STATE  RANKS  MPI        HOST   PID  AGE  METADATA\n\
             -      mer é  job   live   12     MPICH?[2J  node1  42   1s\n\
             case7  mer é  job   live   12     MPICH?[2J  node1  42   1s\n"
        );
        assert_eq!(object(&of("case7"), 0)["run"], "case7");
    }

    #[test]
    fn json_without_secrets() {
        let text = as_json(&[row(record(), State::Live)], 1001);
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(v[0]["name"], "mer é");
        assert_eq!(v[0]["age"], 1);
        assert_eq!(v[0]["incarnation"], "0000000000000abc");
        assert_eq!((&v[0]["kind"], &v[0]["metadata"]["grid"]), (&"job".into(), &"t63".into()));
        assert!(["cookie", "leader", "port"].iter().all(|secret| v[0].get(secret).is_none()));
        assert_eq!(as_json(&[], 0), "[]");
    }

    #[test]
    fn ages() {
        let got = [0, 59, 60, 3599, 3600, 86399, 86400, 90000].map(age);
        assert_eq!(got, ["0s", "59s", "1m00s", "59m59s", "1h00m", "23h59m", "1d00h", "1d01h"]);
    }
}
