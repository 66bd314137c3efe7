//! One process of ours and one of theirs: the path between them, the lane that carries it now, and how the next lane
//! comes about. Data and small questions only; `connect` and `round` act on it.

use base::ProcId;
use engine::{Gone, PeerId};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use transports::path::Path;
use transports::stream::StreamLane;
use transports::tcp::{Contact, Race, Socket};

/// Control messages of one leader that nobody has asked for yet.
pub const MAX_CONTROLS: usize = 4096;

pub struct Lane {
    pub lane: StreamLane<Socket>,
    pub generation: u16,
    /// Whether epoll is asked for writability.
    pub writing: bool,
}

pub enum Dial {
    Idle,
    Racing(Race),
    /// Until the next attempt.
    Resting(Instant),
}

/// How a lane was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Their kernel closed it.
    Closed,
    /// It was we who closed it, since what came made no sense.
    Nonsense,
    /// Nothing came back, or something else went wrong: no sign that the process is gone.
    Silent,
}

pub struct Pair {
    pub local: ProcId,
    pub remote: ProcId,
    pub peer: PeerId,
    pub path: Path,
    pub lane: Option<Lane>,
    pub dial: Dial,
    /// The remote group's.
    pub cookie: Option<[u8; 16]>,
    pub contact: Option<Contact>,
    /// Its process number, once known.
    pub process: Option<[u8; 16]>,
    /// Somebody waits for it, so it is to be connected though there is nothing to send.
    pub wanted: bool,
    pub lost: Option<(Instant, Loss)>,
    /// Where it answered last.
    pub worked: Option<SocketAddr>,
    /// Since when an address that is known to be its host's refuses.
    pub refused: Option<Instant>,
    pub first_try: Option<Instant>,
    pub tries: u32,
    /// Lanes lost to malformed input.
    pub nonsense: u8,
    /// The other side has used generations up to this.
    pub seen_generation: u16,
    pub gone: Option<Gone>,
    pub was_up: bool,
    pub backlogged: bool,
    /// Something may be ready to be written.
    pub dirty: bool,
    pub controls: VecDeque<Vec<u8>>,
}

impl Pair {
    pub fn new(local: ProcId, remote: ProcId, peer: PeerId) -> Pair {
        Pair {
            local,
            remote,
            peer,
            path: Path::new(local, remote),
            lane: None,
            dial: Dial::Idle,
            cookie: None,
            contact: None,
            process: None,
            wanted: false,
            lost: None,
            worked: None,
            refused: None,
            first_try: None,
            tries: 0,
            nonsense: 0,
            seen_generation: 0,
            gone: None,
            was_up: false,
            backlogged: false,
            dirty: false,
            controls: VecDeque::new(),
        }
    }

    /// Whether it should have a lane.
    pub fn needs_lane(&self) -> bool {
        self.gone.is_none() && (self.wanted || self.lost.is_some() || !self.path.all_acknowledged())
    }

    /// How long to rest after so many failures.
    pub fn rest(&self) -> Duration {
        let longest = if self.was_up { 250 } else { 1000 };
        Duration::from_millis((10u64 << self.tries.min(10)).min(longest))
    }
}
