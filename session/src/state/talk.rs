//! What a leader keeps of one on the other side.

use crate::leaders::negotiation::{Agreement, Negotiation};
use base::Time;
use serde::{Deserialize, Serialize};

/// What the leader on this side keeps of one on the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Talk {
    pub negotiation: Negotiation,
    /// Until when our offer stands, or the answer to its withdrawal is waited for.
    #[serde(skip)]
    pub(crate) limit: Option<Time>,
    #[serde(skip)]
    pub(crate) withdrawn: bool,
    /// Since when the other leader is not to be found.
    #[serde(skip)]
    pub(crate) missing: Option<Time>,
    /// Of one that came to a port: since when it is known which process it is.
    #[serde(skip)]
    pub known: Option<Time>,
}

impl Talk {
    pub fn new(negotiation: Negotiation) -> Talk {
        Talk { negotiation, limit: None, withdrawn: false, missing: None, known: None }
    }
}

/// How it stands with our offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Waiting,
    Agreed(Agreement),
    /// The other leader is gone, or not to be found any more.
    Gone,
    TimedOut,
    /// It does not keep to the protocol.
    Nonsense,
}

/// How it stands with a caller that a port has dialled, since it asked for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Called {
    Gone,
    /// Nobody has answered yet.
    Dialled,
    /// No dial has got through.
    InVain,
    Connected,
    /// It has made its whole offer.
    Offers,
}
