//! What processes of joined jobs tell each other about checkpoints, as bytes.
//!
//! Invariant: reading takes memory for bytes that are there, and for no number alone.

use crate::board::Board;
use crate::line::{Done, LineId, Report, Rows};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A message between two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From a leader to each process of another job: a part of the rows of a cut of the leader's job. The last part ends them.
    Rows(u64, Rows, bool),
    /// From a leader to another: all that it knows.
    Board(Box<Board>),
    /// From a leader to each process of a job that it reports to.
    Lines(Box<Report>),
    /// The answer: this process has heard of a line, or has written its image of it.
    Done(LineId, Done),
    /// After a restart, to the leader of each other job: this process has done again what it must.
    Replayed,
    /// From a leader to each process of another job: all have.
    AllReplayed,
    /// At a restart, to each process with which there were messages, a part of: of those that this process is to get, which are
    /// to be sent from the image, and which by the program once more. The last part ends them.
    Again(BTreeSet<u64>, BTreeSet<u64>, bool),
    /// After that, to the same: this process takes messages from where its image was.
    Resumed,
}

impl Message {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data in memory")
    }

    /// The message of these bytes. `None`: they are none.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        postcard::from_bytes(bytes).ok()
    }
}

/// Plain data as bytes, for other processes of the own job.
pub fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain data in memory")
}

/// The values of bytes that [`pack`] has made one after the other.
pub fn unpack<T: for<'a> Deserialize<'a>>(mut bytes: &[u8]) -> Option<Vec<T>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
        all.push(value);
        bytes = rest;
    }
    Some(all)
}
