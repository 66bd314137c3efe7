//! An operator's commands to the processes of a job, and their answers, as bytes (docs/protocol.md, "Control").
//!
//! The command, the nodes and the tree between them use this. Invariants: decoding is strict, takes memory for bytes that are
//! there and for no number alone, and refuses what is beyond the limits; encoding cuts texts and lists to these limits.

mod answer;
mod report;
mod request;

use base::bytes::{Malformed, Put, Take};
use base::protocol::operator::{self as numbers, NONE};

pub use answer::{Answer, Outcome, What};
pub use base::protocol::operator::{MAX_ANSWER, MAX_REQUEST};
pub use report::{Carried, Flow, Holding, Job, Pair, Report, Wait};
pub use request::{Addressee, Command, Id, JobSecret, Member, Request};

/// The length of the message that begins so, without these bytes.
pub fn length(head: [u8; numbers::message::BYTES], most: usize) -> Result<usize, Malformed> {
    let len = u32::from_le_bytes(head) as usize;
    if len > most { Err(Malformed) } else { Ok(len) }
}

/// A body with its length in front, as it is sent.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers::message::BYTES + body.len());
    out.put_bytes(body);
    out
}

// ---- texts and lists

/// Appends a text, or the beginning of it.
fn put_text(out: &mut Vec<u8>, text: &str, most: usize) {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    out.put_bytes(&text.as_bytes()[..end.unwrap_or(0)]);
}

fn flag(from: &mut Take<'_>) -> Result<bool, Malformed> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn text(from: &mut Take<'_>, most: usize) -> Result<String, Malformed> {
    std::str::from_utf8(from.bytes(most)?).map(str::to_owned).map_err(|_| Malformed)
}

/// Appends how many there are, at most so many, and each.
fn put_list<T>(out: &mut Vec<u8>, all: &[T], most: usize, put: impl Fn(&mut Vec<u8>, &T)) {
    let all = &all[..all.len().min(most)];
    out.put_u32(all.len() as u32);
    all.iter().for_each(|one| put(out, one));
}

fn list<T>(
    from: &mut Take<'_>,
    most: usize,
    read: impl Fn(&mut Take<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let n = from.u32()? as usize;
    if n > most {
        return Err(Malformed);
    }
    // It grows with what is there.
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(read(from)?);
    }
    Ok(all)
}

fn put_rank(out: &mut Vec<u8>, rank: Option<u32>) {
    out.put_u32(rank.unwrap_or(NONE));
}

fn rank(from: &mut Take<'_>) -> Result<Option<u32>, Malformed> {
    Ok(Some(from.u32()?).filter(|rank| *rank != NONE))
}

fn whole<T>(bytes: &[u8], read: impl Fn(&mut Take<'_>) -> Result<T, Malformed>) -> Result<T, Malformed> {
    let mut from = Take(bytes);
    let value = read(&mut from)?;
    from.end()?;
    Ok(value)
}
#[cfg(test)]
mod tests;
