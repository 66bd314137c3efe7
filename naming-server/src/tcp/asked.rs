//! One question to one server of several. The client alone uses this.
//!
//! Invariant: a server that cannot answer, since the store that it shares is away, is as one that does not answer: another may.

use super::peer::{ANSWER, Peer, PeerError};
use crate::wire::{Answer, Refusal, Request, refusal};
use std::fmt::{Display, Formatter, Result as Formatted};
use std::sync::Arc;
use std::time::Duration;
use trust::Refused;

/// How long one of several servers is waited for: a dead one may cost less than two seconds.
const OF_SEVERAL: Duration = Duration::from_millis(1400);

/// Why a server has not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AskError {
    Peer(PeerError),
    /// It does not reach the store that it shares.
    StoreAway,
}

impl AskError {
    /// Why one side does not trust the other, if it is that.
    pub(super) fn refused(&self) -> Option<Refused> {
        if let AskError::Peer(e) = self { e.refused() } else { None }
    }
}

impl Display for AskError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            AskError::Peer(e) => e.fmt(f),
            AskError::StoreAway => write!(f, "the server {}", refusal(Refusal::StoreAway)),
        }
    }
}

/// How long each of these servers is waited for.
pub(super) fn patience(peers: &[Arc<Peer>]) -> Duration {
    if peers.len() > 1 { OF_SEVERAL } else { ANSWER }
}

pub(super) fn ask(peer: &Peer, request: &Request, patience: Duration) -> Result<Answer, AskError> {
    match peer.ask(request, patience).map_err(AskError::Peer)? {
        Answer::Refused(Refusal::StoreAway) => Err(AskError::StoreAway),
        answer => Ok(answer),
    }
}
