//! What an image has of the messages between two processes: plain data, which [`crate::Engine::cut`] gives out and
//! [`crate::Engine::resume`] takes.

use crate::context::ContextId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message of an image: one that came to the process and that its program has not, or that of a send that was pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its number.
    pub number: u64,
    /// The inter-communicator.
    pub context: ContextId,
    /// The rank of the sender in its group.
    pub source: u32,
    /// The tag.
    pub tag: i64,
    /// The note that goes with it. Empty if there is none.
    #[serde(with = "base::bytes::whole")]
    pub note: Vec<u8>,
    /// Packed bytes.
    #[serde(with = "base::bytes::whole")]
    pub data: Vec<u8>,
}

/// What a cut has of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOf {
    /// Messages that were sent to it, those of [`CutOf::leaving`] among them.
    pub sent: u64,
    /// Messages that have come from it.
    pub arrived: u64,
    /// Those of them that the program does not have, by number.
    pub kept: Vec<Kept>,
    /// Those of them that have not come whole.
    pub lacking: BTreeSet<u64>,
    /// The sends to it that were pending.
    pub leaving: Vec<Kept>,
}

/// The receives from any source of an inter-communicator, at a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcards {
    /// The group of its peers.
    pub group: u64,
    /// The inter-communicator.
    pub context: ContextId,
    /// Those whose outcome was not fetched, by number, in the order of posting: a restarted program posts them again.
    pub pending: Vec<u64>,
    /// Those of them that have a message: their number, its source, and its number.
    pub chosen: Vec<(u64, u32, u64)>,
    /// How many were posted. The next one has this number.
    pub posted: u64,
}

/// What receives from any source may get in an inter-communicator after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// By the receive's number from the cut on: the source, and the number of its message.
    pub chosen: BTreeMap<u64, (u32, u64)>,
}

/// What a process does at a restart with one peer: how its own cut and the peer's fit together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Messages that the own cut had sent, and that had come to the peer's.
    pub sent: (u64, u64),
    /// Of those that the own cut has still to send, the early ones that are sent again, and the number of late ones that its
    /// image has, and that the peer wants.
    pub again: (BTreeSet<u64>, u64),
    /// Messages that had come to the own cut, and that the peer's had sent.
    pub arrived: (u64, u64),
    /// What this process has of those that come.
    pub line: Line,
}

/// What the receiver of a pair has for a restart from two cuts, of which `sent` and `leaving` are the sender's: how many messages it
/// had sent, and the numbers of those that its image has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Late messages that the receiver's own image has.
    pub kept: Vec<Kept>,
    /// Late messages that the sender's image has.
    pub wanted: VecDeque<u64>,
    /// Early messages that are to be sent again.
    pub lacking: BTreeSet<u64>,
    /// Late messages that no image has yet: they are still to be logged.
    pub missing: Vec<u64>,
}

impl CutOf {
    /// Pairs the cut of a receiver, and what it has logged since, with that of the sender.
    pub fn line(&self, log: &BTreeMap<u64, Kept>, sent: u64, leaving: &BTreeSet<u64>) -> Line {
        let mut line = Line::default();
        line.kept.extend(self.kept.iter().filter(|kept| kept.number <= sent).cloned());
        for number in self.lacking.range(..=sent).copied().chain(self.arrived + 1..=sent) {
            if let Some(kept) = log.get(&number) {
                line.kept.push(kept.clone());
            } else if leaving.contains(&number) {
                line.wanted.push_back(number);
            } else {
                line.missing.push(number);
            }
        }
        let kept = self.kept.iter().map(|kept| kept.number);
        line.lacking = kept.chain(self.lacking.iter().copied()).filter(|number| *number > sent).collect();
        line
    }
}
