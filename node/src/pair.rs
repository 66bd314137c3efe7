//! One process of ours and one of theirs: the path between them, the lane that carries it now, and how the next lane
//! comes about. Data and small questions only; `connect` and `round` act on it.

use crate::carrier::Carrier;
use crate::life::Life;
use base::ProcId;
use engine::{Gone, PeerId};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use transports::path::Path;
use transports::shm::Attempt;
use transports::tcp::{Contact, Race};

/// Control messages of one leader that nobody has asked for yet: how many, and bytes in all, which is one offer of the
/// largest group and a little.
pub const MAX_CONTROLS: usize = 1024;
pub const MAX_CONTROL_BYTES: usize = 65 << 20;

pub struct Lane {
    pub lane: Carrier,
    pub generation: u16,
    /// How often something was found on it, lately.
    pub brought: u32,
    /// Bits of the descriptors of which epoll is asked for writability.
    pub writing: u16,
    /// Bits of the further connections that may not come: they are here, or were, or it is our side that dials them.
    pub taken: u16,
    /// Those that we dial, with their numbers.
    pub dialling: Vec<(u16, Race)>,
    pub life: Life,
}

pub enum Dial {
    Idle,
    /// Over shared memory.
    Near(Box<Attempt>),
    /// Over TCP, and why not over shared memory.
    Racing(Box<Race>, String),
    /// Until the next attempt.
    Resting(Instant),
}

impl Dial {
    /// Whether a HELLO of ours is out, sent less than `limit` ago.
    pub fn greeted_within(&self, limit: Duration, now: Instant) -> bool {
        match self {
            Dial::Near(attempt) => attempt.greeted_within(limit, now),
            Dial::Racing(race, _) => race.greeted_within(limit, now),
            Dial::Idle | Dial::Resting(_) => false,
        }
    }
}

pub struct Pair {
    /// Never used twice.
    pub serial: u64,
    pub local: ProcId,
    pub remote: ProcId,
    pub peer: PeerId,
    pub path: Path,
    pub lane: Option<Lane>,
    pub dial: Dial,
    /// Whom of the halfway ones we have answered, for shared memory, and who is to say the last word: no need to dial.
    pub answered: Option<u32>,
    /// The remote group's.
    pub cookie: Option<[u8; 16]>,
    pub contact: Option<Contact>,
    /// Its process number, once known: by its contact record, or where a port's name tells none, by who answered there.
    pub process: Option<[u8; 16]>,
    /// The process number that it says, while it is a stranger.
    pub claimed: Option<[u8; 16]>,
    /// When it came as a stranger.
    pub came: Option<Instant>,
    /// Bytes that the offer of one who came to a port still lacks.
    pub offer_missing: Option<usize>,
    /// Somebody waits for it, so it is to be connected though there is nothing to send.
    pub wanted: bool,
    /// Since when it has no lane, if it had one.
    pub lost: Option<Instant>,
    /// The other side has closed it.
    pub closed: bool,
    /// Where it answered last.
    pub worked: Option<SocketAddr>,
    /// Where its last lane over TCP ended.
    pub seen_at: Option<SocketAddr>,
    /// Why the last dial came to nothing.
    pub trouble: String,
    /// Since when an address that is known to be its host's refuses, or it says itself that it is not there.
    pub refused: Option<Instant>,
    /// It speaks this version of the protocol, which is not ours.
    pub other_version: Option<u16>,
    /// Nobody listens at its local socket.
    pub has_no_door: bool,
    /// Failed dials, and lanes that brought nothing, in a row.
    pub tries: u32,
    /// Lanes lost to malformed input, one after the other, with nothing got through since; and how much had.
    pub nonsense: u8,
    pub got_through: u64,
    /// The other side has used generations up to this.
    pub seen_generation: u16,
    pub gone: Option<Gone>,
    pub was_up: bool,
    /// It has had a lane of shared memory.
    pub was_shared: bool,
    pub backlogged: bool,
    /// Something may be ready to be written.
    pub dirty: bool,
    pub controls: VecDeque<Vec<u8>>,
    pub control_bytes: usize,
    /// Open inter-communicators that it is part of.
    pub inters: usize,
    pub bye_said: bool,
    /// It came to a port of ours.
    pub is_caller: bool,
    /// Until it is met, a refusal at each of its addresses says that it is not there.
    pub believes_refusals: bool,
    /// What it said last of what it waits for, and when; and when it was last told so.
    pub told: Option<(String, Instant)>,
    pub answered_at: Option<Instant>,
    /// It is told again once it has acknowledged so many bodies.
    pub answer_needs: u64,
}

impl Pair {
    pub fn new(local: ProcId, remote: ProcId, peer: PeerId, serial: u64) -> Pair {
        Pair {
            serial,
            local,
            remote,
            peer,
            path: Path::new(local, remote),
            lane: None,
            dial: Dial::Idle,
            answered: None,
            cookie: None,
            contact: None,
            process: None,
            claimed: None,
            came: None,
            offer_missing: None,
            wanted: false,
            lost: None,
            closed: false,
            worked: None,
            seen_at: None,
            trouble: String::new(),
            refused: None,
            other_version: None,
            has_no_door: false,
            tries: 0,
            nonsense: 0,
            got_through: 0,
            seen_generation: 0,
            gone: None,
            was_up: false,
            was_shared: false,
            backlogged: false,
            dirty: false,
            controls: VecDeque::new(),
            control_bytes: 0,
            inters: 0,
            bye_said: false,
            is_caller: false,
            believes_refusals: false,
            told: None,
            answered_at: None,
            answer_needs: 0,
        }
    }

    /// What stands in a slot whose pair has ended: nobody, and nobody finds it.
    pub fn nobody(peer: PeerId) -> Pair {
        let no = ProcId { incarnation: 0, rank: 0 };
        Pair { gone: Some(Gone::Finished), ..Pair::new(no, no, peer, 0) }
    }

    /// Which process it is, as far as one knows.
    pub fn who(&self) -> Option<[u8; 16]> {
        self.process.or(self.claimed)
    }

    /// Whether it should have a lane.
    pub fn needs_lane(&self) -> bool {
        self.gone.is_none() && (self.wanted || self.lost.is_some() || !self.path.all_acknowledged())
    }

    /// Whether nobody dials it, and it has not come.
    pub fn is_left_alone(&self) -> bool {
        !self.wanted && self.lane.is_none() && self.gone.is_none()
    }

    /// Whether there is something that its library may not have: not acknowledged, or in shared memory and not read.
    pub fn owes(&self) -> bool {
        let unread = |lane: &Lane| lane.lane.shm().is_some_and(|shm| !shm.is_read());
        !self.path.all_acknowledged() || self.lane.as_ref().is_some_and(unread)
    }

    /// Whether we know where it is. If not, it has to come to us.
    pub fn can_dial(&self) -> bool {
        self.contact.is_some() && self.cookie.is_some()
    }

    /// How long to rest after so many failures.
    pub fn rest(&self) -> Duration {
        Duration::from_millis((10u64 << self.tries.min(10)).min(1000))
    }
}
