//! The state of a talk between two leaders.

use crate::leaders::negotiation::{Agreement, Negotiation};
use base::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One negotiation, with its time limits.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub negotiation: Negotiation,
    /// When our offer is withdrawn; afterwards, when the wait for the answer to the withdrawal ends. `None`: never.
    pub(crate) limit: Option<Time>,
    /// Our offer was withdrawn.
    pub(crate) withdrawn: bool,
    /// The name of the other leader leads nowhere: when that leader counts as gone. If our offer was withdrawn, then for that.
    pub(crate) missing: Option<Time>,
    /// Of a caller: since when its contact record is known.
    pub known: Option<Time>,
}

impl Talk {
    pub fn new(negotiation: Negotiation) -> Talk {
        Talk { negotiation, limit: None, withdrawn: false, missing: None, known: None }
    }

    /// What comes of an offer that was withdrawn.
    pub(crate) fn why_withdrawn(&self) -> Turn {
        if self.missing.is_some() { Turn::Gone } else { Turn::TimedOut }
    }

    pub fn freeze(&self, now: Time) -> FrozenTalk {
        FrozenTalk {
            negotiation: self.negotiation.clone(),
            limit: self.limit.map(|limit| limit.since(now)),
            withdrawn: self.withdrawn,
            missing: self.missing.map(|until| until.since(now)),
        }
    }
}

/// What a snapshot holds of a [`Talk`]: of its time limits, how much is left. A probe of a caller's host is made anew, so the
/// wait for it is left out.
#[derive(Serialize, Deserialize)]
pub(crate) struct FrozenTalk {
    negotiation: Negotiation,
    pub limit: Option<Duration>,
    withdrawn: bool,
    missing: Option<Duration>,
}

impl FrozenTalk {
    pub fn thaw(self, now: Time) -> Talk {
        Talk {
            negotiation: self.negotiation,
            limit: self.limit.map(|left| now + left),
            withdrawn: self.withdrawn,
            missing: self.missing.map(|left| now + left),
            known: None,
        }
    }
}

/// The outcome of one step of a talk, see [`crate::Session::talk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Neither has decided yet: ask again after some progress.
    Waiting,
    /// Both sides want the same inter-communicator.
    Agreed(Agreement),
    /// The other leader is dead or has finalized, or its name leads nowhere any more.
    Gone,
    /// The time limit of our offer has passed, and the offer is withdrawn.
    TimedOut,
    /// The other leader violates the protocol.
    Nonsense,
}

/// The state of a caller that a port has dialled, because a dial request asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Called {
    /// The caller is gone, or its pair has ended.
    Gone,
    /// No answer has come yet.
    Dialled,
    /// At least one dial has failed.
    InVain,
    /// It has a lane, and its offer is not complete.
    Connected,
    /// Its whole offer has come.
    Offers,
}
