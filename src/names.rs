//! `mpi-connect names`: who has registered what.
//!
//! Invariant: secrets of a record (cookie, contact) are never shown, and no byte of it reaches the terminal raw.

use naming::{OpenError, Record, State, StoreError};
use serde_json::json;
use std::fmt;

#[derive(clap::Args)]
pub struct Args {
    /// Where to look, instead of MPI_CONNECT_NAMING or the user's private folder
    #[arg(long, value_name = "URL")]
    naming: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
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
    let all = store.list().map_err(NamesError::Store)?;
    if args.json {
        println!("{}", as_json(&all, naming::now()));
    } else if all.is_empty() {
        println!("no names in {}", store.describe());
    } else {
        print!("{}", table(&all, naming::now()));
    }
    Ok(())
}

fn word(state: State) -> &'static str {
    match state {
        State::Live => "live",
        State::LeftOver => "left over",
    }
}

fn as_json(all: &[(Record, State)], now: u64) -> String {
    let rows = all.iter().map(|(r, state)| {
        json!({
            "name": r.name,
            "state": word(*state),
            "ranks": r.size,
            "mpi": r.mpi,
            "host": r.host,
            "pid": r.pid,
            "since": r.since,
            "age": now.saturating_sub(r.since),
            "incarnation": format!("{:016x}", r.incarnation),
        })
    });
    format!("{:#}", serde_json::Value::Array(rows.collect()))
}

fn table(all: &[(Record, State)], now: u64) -> String {
    let mut rows = vec![["NAME", "STATE", "RANKS", "MPI", "HOST", "PID", "AGE"].map(String::from)];
    rows.extend(all.iter().map(|(r, state)| {
        [
            printable(&r.name),
            word(*state).into(),
            r.size.to_string(),
            printable(&r.mpi),
            printable(&r.host),
            r.pid.to_string(),
            age(now.saturating_sub(r.since)),
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

fn printable(s: &str) -> String {
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
            metadata: vec![],
        }
    }

    #[test]
    fn a_table() {
        let text = table(&[(record(), State::Live), (record(), State::LeftOver)], 1065);
        assert_eq!(
            text,
            "NAME   STATE      RANKS  MPI        HOST   PID  AGE\n\
             mer é  live       12     MPICH?[2J  node1  42   1m05s\n\
             mer é  left over  12     MPICH?[2J  node1  42   1m05s\n"
        );
    }

    #[test]
    fn json_without_secrets() {
        let text = as_json(&[(record(), State::Live)], 1001);
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(v[0]["name"], "mer é");
        assert_eq!(v[0]["age"], 1);
        assert_eq!(v[0]["incarnation"], "0000000000000abc");
        assert!(v[0].get("cookie").is_none() && v[0].get("leader").is_none());
        assert_eq!(as_json(&[], 0), "[]");
    }

    #[test]
    fn ages() {
        let got = [0, 59, 60, 3599, 3600, 86399, 86400, 90000].map(age);
        assert_eq!(got, ["0s", "59s", "1m00s", "59m59s", "1h00m", "23h59m", "1d00h", "1d01h"]);
    }
}
