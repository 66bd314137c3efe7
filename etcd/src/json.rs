//! Transactions and changes as etcd's JSON has them: numbers of 64 bits are texts, bytes are in base64, and what is zero or false
//! is left out. The requests alone use this.
//!
//! Invariant: every key goes out with the prefix of our rows, and comes back without it.

use data_encoding::BASE64;
use naming::server::{Cell, Compare, Event, Op, Outcome, SharedError, Txn};
use serde_json::{Value, json};

/// Before all of our keys. The number is of the format of the rows.
pub(crate) const PREFIX: &[u8] = b"mpi-connect/names/1/";
/// Behind all of our keys.
pub(crate) const BEHIND: &[u8] = b"mpi-connect/names/10";

fn text(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

fn key(key: &[u8]) -> String {
    text(&[PREFIX, key].concat())
}

fn odd() -> SharedError {
    SharedError::Damaged("it answers nonsense".into())
}

fn compare(one: &Compare) -> Value {
    match one {
        Compare::Modified(of, at) => {
            json!({"key": key(of), "target": "MOD", "result": "EQUAL", "mod_revision": at.to_string()})
        }
        Compare::Before(of, at) => {
            json!({"key": key(of), "target": "MOD", "result": "LESS", "mod_revision": (at + 1).to_string()})
        }
    }
}

fn op(one: &Op) -> Value {
    match one {
        Op::Put(at, value) => json!({"requestPut": {"key": key(at), "value": text(value)}}),
        Op::Delete(at) => json!({"requestDeleteRange": {"key": key(at)}}),
        Op::Get(at) => json!({"requestRange": {"key": key(at)}}),
        Op::Range(from, to, most) => {
            json!({"requestRange": {"key": key(from), "range_end": key(to), "limit": most.to_string()}})
        }
    }
}

/// All of them as one, each within it.
pub(crate) fn transaction(txns: &[Txn]) -> Value {
    let all = |ops: &[Op]| ops.iter().map(op).collect::<Vec<_>>();
    let each = |txn: &Txn| {
        let when: Vec<Value> = txn.when.iter().map(compare).collect();
        json!({"requestTxn": {"compare": when, "success": all(&txn.then), "failure": all(&txn.otherwise)}})
    };
    // One that only reads asks for a row that is not there, so that it goes through the majority.
    if txns.is_empty() {
        return json!({"success": [op(&Op::Get(b"none".to_vec()))]});
    }
    json!({"success": txns.iter().map(each).collect::<Vec<_>>()})
}

/// The revision of an answer.
pub(crate) fn revision(answer: &Value) -> Result<u64, SharedError> {
    number(&answer["header"]["revision"]).filter(|revision| *revision > 0).ok_or_else(odd)
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => Some(Vec::new()),
        other => BASE64.decode(other.as_str()?.as_bytes()).ok(),
    }
}

fn cell(value: &Value) -> Option<Cell> {
    let key = bytes(&value["key"])?.strip_prefix(PREFIX)?.to_vec();
    Some(Cell { key, value: bytes(&value["value"])?, modified: number(&value["mod_revision"])? })
}

pub(crate) fn cells(range: &Value) -> Result<Vec<Cell>, SharedError> {
    list(&range["kvs"]).iter().map(|one| cell(one).ok_or_else(odd)).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What these transactions have done.
pub(crate) fn outcomes(answer: &Value, txns: &[Txn]) -> Result<Vec<Outcome>, SharedError> {
    let done = list(&answer["responses"]);
    if txns.is_empty() {
        return Ok(Vec::new());
    }
    if done.len() != txns.len() {
        return Err(odd());
    }
    let outcome = |(one, txn): (&Value, &Txn)| {
        let one = &one["response_txn"];
        let held = one["succeeded"].as_bool().unwrap_or(false);
        let steps = if held { &txn.then } else { &txn.otherwise };
        let responses = list(&one["responses"]);
        if responses.len() != steps.len() {
            return Err(odd());
        }
        let read = responses.iter().map(|step| cells(&step["response_range"])).collect::<Result<_, _>>()?;
        Ok(Outcome { held, read })
    };
    done.iter().zip(txns).map(outcome).collect()
}

/// The changes of a line of a watch.
pub(crate) fn events(line: &Value) -> Result<Vec<Event>, SharedError> {
    let event = |one: &Value| {
        let now = cell(&one["kv"])?;
        let before = match &one["prev_kv"] {
            Value::Null => None,
            before => Some(cell(before)?.value),
        };
        let is_gone = one["type"].as_str() == Some("DELETE");
        Some(Event { key: now.key, value: (!is_gone).then_some(now.value), before, modified: now.modified })
    };
    list(&line["result"]["events"]).iter().map(|one| event(one).ok_or_else(odd)).collect()
}

/// Why a line of a watch ends it: the changes before a revision are gone, or anything else.
pub(crate) fn canceled(line: &Value) -> Result<(), SharedError> {
    let result = &line["result"];
    match number(&result["compact_revision"]) {
        Some(at) if at > 0 => Err(SharedError::Compacted(at)),
        _ if result["canceled"].as_bool() == Some(true) => {
            Err(SharedError::Away(result["cancel_reason"].as_str().unwrap_or("it ends the watch").into()))
        }
        _ if !line["error"].is_null() => Err(SharedError::Away(line["error"].to_string())),
        _ => Ok(()),
    }
}
