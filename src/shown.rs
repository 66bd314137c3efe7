//! A record, and a row of `mpi-connect names`, in the words that people and programs read.
//!
//! Invariant: secrets of a record (cookie, contact) are never shown.

use naming::{Kind, Record, Row, State};
use serde_json::json;

pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Job => "job",
        Kind::Port => "port",
        Kind::Coupling => "coupling",
    }
}

pub fn word(state: State) -> String {
    match state {
        State::Live => "live".into(),
        State::LeftOver => "left over".into(),
        State::OtherVersion(version) => format!("version {version}"),
        State::OtherUser(user) => format!("of user {user}"),
    }
}

/// What is told of a row. A coupling has a list of two where a job has one value.
pub fn object(row: &Row, now: u64) -> serde_json::Value {
    let r = &row.record;
    let each = |what: &dyn Fn(&Record) -> serde_json::Value| match &row.other {
        Some(other) => json!([what(r), what(other)]),
        None => what(r),
    };
    let metadata = |r: &Record| {
        r.metadata.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect::<serde_json::Map<_, _>>().into()
    };
    let mut object = json!({
        "name": row.both(|r| r.name.clone()),
        "run": r.run,
        "kind": kind_word(r.kind()),
        "state": word(row.state),
        "ranks": each(&|r| r.size.into()),
        "mpi": each(&|r| r.mpi.as_str().into()),
        "host": each(&|r| r.host.as_str().into()),
        "pid": each(&|r| r.pid.into()),
        "since": r.since,
        "age": now.saturating_sub(r.since),
        "incarnation": format!("{:016x}", r.incarnation),
        "metadata": each(&metadata),
    });
    if row.other.is_some() {
        object["jobs"] = each(&|r| r.name.as_str().into());
    }
    if let State::OtherVersion(version) = row.state {
        object["state"] = "other version".into();
        object["version"] = version.into();
    }
    if let State::OtherUser(user) = row.state {
        object["state"] = "other user".into();
        object["user"] = user.into();
    }
    object
}

/// What a record tells besides, on one line.
pub fn pairs(r: &Record) -> String {
    let all: Vec<_> = r.metadata.iter().map(|(key, value)| printable(&format!("{key}={value}"))).collect();
    all.join(", ")
}

pub fn printable(s: &str) -> String {
    s.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
