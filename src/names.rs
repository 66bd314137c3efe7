//! `mpi-connect names`: who has registered or published what. `watch` goes on from there.
//!
//! Invariant: secrets of a record (cookie, contact) are never shown, and no byte of it reaches the terminal raw.

use crate::select::{Pair, Selection};
use crate::watch;
use naming::{Kind, OpenError, Record, State, StoreError};
use serde_json::json;
use std::fmt;
use std::io::{self, Write};

#[derive(clap::Args)]
pub struct Args {
    /// Where to look, instead of MPI_CONNECT_NAMING or the user's private folder
    #[arg(long, value_name = "URL")]
    naming: Option<String>,
    /// Write JSON; with --watch, one object on each line
    #[arg(long)]
    json: bool,
    /// Go on, and tell of each name that comes or goes, until interrupted
    #[arg(long)]
    watch: bool,
    /// Only names with this in their metadata; all of them, if given several times
    #[arg(long = "where", value_name = "KEY=VALUE")]
    pairs: Vec<Pair>,
    /// Only names that begin so or, with a * in it, that are so: 'urn:site:*'
    pattern: Option<String>,
}

#[derive(Debug)]
pub enum NamesError {
    Open(OpenError),
    Store(StoreError),
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
    let store = naming::open(&url).map_err(NamesError::Open)?;
    let wanted = Selection::new(args.pattern.as_deref(), &args.pairs);
    let all = wanted.of(store.list().map_err(NamesError::Store)?);
    let text = match all.is_empty() {
        _ if args.json && args.watch => String::new(),
        _ if args.json => as_json(&all, naming::now()) + "\n",
        true if wanted.is_all() => format!("no names in {}\n", store.describe()),
        true => format!("no such names in {}\n", store.describe()),
        false => table(&all, naming::now()),
    };
    let mut out = io::stdout();
    // Whoever reads no more has seen enough.
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok() && args.watch {
        let _ = watch::watch(store.as_ref(), &wanted, all, args.json, &mut out);
    }
    Ok(())
}

pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Job => "job",
        Kind::Port => "port",
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Live => "live",
        State::LeftOver => "left over",
    }
}

fn as_json(all: &[(Record, State)], now: u64) -> String {
    let rows = all.iter().map(|(r, state)| object(r, *state, now));
    format!("{:#}", serde_json::Value::Array(rows.collect()))
}

pub fn object(r: &Record, state: State, now: u64) -> serde_json::Value {
    let metadata: serde_json::Map<_, _> = r.metadata.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    json!({
        "name": r.name,
        "kind": kind_word(r.kind()),
        "state": word(state),
        "ranks": r.size,
        "mpi": r.mpi,
        "host": r.host,
        "pid": r.pid,
        "since": r.since,
        "age": now.saturating_sub(r.since),
        "incarnation": format!("{:016x}", r.incarnation),
        "metadata": metadata,
    })
}

fn table(all: &[(Record, State)], now: u64) -> String {
    let mut rows = vec![["NAME", "KIND", "STATE", "RANKS", "MPI", "HOST", "PID", "AGE", "METADATA"].map(String::from)];
    rows.extend(all.iter().map(|(r, state)| {
        [
            printable(&r.name),
            kind_word(r.kind()).into(),
            word(*state).into(),
            if r.kind() == Kind::Job { r.size.to_string() } else { "-".into() },
            printable(&r.mpi),
            printable(&r.host),
            r.pid.to_string(),
            age(now.saturating_sub(r.since)),
            pairs(r),
        ]
    }));
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

/// What a record tells besides, on one line.
pub fn pairs(r: &Record) -> String {
    let all: Vec<_> = r.metadata.iter().map(|(key, value)| printable(&format!("{key}={value}"))).collect();
    all.join(", ")
}

pub fn printable(s: &str) -> String {
    s.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
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

    fn record() -> Record {
        Record {
            name: "mer é".into(),
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
            metadata: vec![("grid".into(), "t63".into()), ("run".into(), "7".into())],
        }
    }

    #[test]
    fn a_table() {
        let port = Record { port: Some("secret".into()), metadata: vec![], ..record() };
        let text = table(&[(record(), State::Live), (port, State::LeftOver)], 1065);
        assert_eq!(
            text,
            "NAME   KIND  STATE      RANKS  MPI        HOST   PID  AGE    METADATA\n\
             mer é  job   live       12     MPICH?[2J  node1  42   1m05s  grid=t63, run=7\n\
             mer é  port  left over  -      MPICH?[2J  node1  42   1m05s\n"
        );
    }

    #[test]
    fn json_without_secrets() {
        let text = as_json(&[(record(), State::Live)], 1001);
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
