//! One pair: a process of ours and one of the other job's, the path between them, its lane now, and what is done to get the
//! next one. Data and small questions only; other files act on it.

use crate::action::IncomingId;
use crate::path::Path;
use crate::state::evidence::Evidence;
use crate::state::life::Life;
use crate::state::moves::Moves;
use crate::state::race::Race;
use crate::state::talk::Talk;
use base::{Memory, ProcId, Time};
use engine::{Gone, PeerId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Contact, Move, Place, TransportId};

/// The most messages of a leader that are kept until they are read, and the most bytes of them: one offer of the largest
/// group, and a little.
const MAX_CONTROLS: usize = 1024;
const MAX_CONTROL_BYTES: usize = 65 << 20;

/// The path to another leader. A pair's number may be used again after its end, so a serial number is kept beside it: calls
/// with the path of a pair that has ended do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathRef {
    pub(crate) slot: usize,
    pub(crate) serial: u64,
}

/// A pair's lane, and what is known of it.
pub struct Up<L> {
    /// The lane.
    pub lane: L,
    /// Its number among the lanes of its path.
    pub generation: u16,
    /// The transport that has made it.
    pub transport: TransportId,
    /// How many calls of [`crate::Session::receive`] have found something on it. The driver may set it back to 0.
    pub brought: u32,
    /// The descriptors that have no room for what is to be written, as bits: what [`Lane::waiting`] said last.
    pub waiting: u16,
    pub(crate) life: Life,
}

/// A lane that a handshake has made, for [`crate::Session::attach`] or [`crate::Session::swap`].
pub struct NewLane<L> {
    /// The lane.
    pub lane: L,
    /// The generation on which both sides have agreed.
    pub generation: u16,
    /// How many first-class bodies of this path the other side has received.
    pub received: u64,
    /// The transport that has made it.
    pub transport: TransportId,
    /// Where its other end is; `None` for a transport that reaches this host alone.
    pub at: Option<Place>,
    /// Our side has dialled.
    pub dialled: bool,
    /// The pair moves to it from a lane that lives.
    pub moves: Option<Move>,
}

/// What both sides have agreed of a lane, before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The number of the pair that gets it.
    pub pair: usize,
    /// Its generation.
    pub generation: u16,
    /// How many first-class bodies the other side has received.
    pub received: u64,
    /// The pair moves to it from a lane that lives.
    pub moves: Option<Move>,
}

/// How two processes are connected.
// Each pair has one in place: a box would cost a hop for each message and save memory only where no lane is.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Link<L> {
    /// By no lane. `lost`: they had one.
    Apart {
        lost: Option<Lost>,
    },
    Up(Up<L>),
    /// The other side is dead or has finalized. A lane may still carry the last messages.
    Gone {
        how: Gone,
        last: Option<Up<L>>,
    },
}

/// The loss of a lane: since when, and whether the other side has closed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub since: Time,
    pub hung_up: bool,
}

/// What our side does to get the next lane, also while the pair has one.
pub(crate) enum Dial {
    Idle,
    Underway(Box<Race>),
    /// It waits until this moment before the next try.
    Resting(Time),
}

/// Which process the other side is.
pub(crate) enum Identity {
    Unknown,
    /// The process number is only its own claim, until a contact record comes. `came`: when it came first.
    Claimed {
        process: [u8; 16],
        came: Time,
    },
    /// The process number is from its contact record or, where the name of a port holds none, from its answer there.
    Known([u8; 16]),
}

/// What is known of the other side.
pub(crate) struct Who {
    /// The cookie of its group.
    pub cookie: Option<[u8; 16]>,
    pub contact: Option<Contact>,
    pub identity: Identity,
}

/// What is known of a caller: a stranger that came to a port of ours.
#[derive(Default)]
pub(crate) struct Caller {
    /// How many bytes of its offer are still to come; `None`: it has made no offer.
    pub offer_missing: Option<usize>,
}

/// CONTROL messages that were not read yet.
#[derive(Default)]
pub(crate) struct Inbox {
    pub messages: VecDeque<Vec<u8>>,
    pub bytes: usize,
}

/// What the two sides have told each other of what they wait for. The driver writes and reads it.
#[derive(Default)]
pub struct Asks {
    /// What the other side said last, and when.
    pub told: Option<(String, Time)>,
    /// When our side last told the other side.
    pub answered_at: Option<Time>,
    /// The other side is told again only when it has acknowledged this many bodies, so that answers do not pile up.
    pub answer_needs: u64,
}

/// One process of ours and one of the other job's, and all that is known of their connection.
///
/// It is one thing, since an event of a connection needs several of its parts at once: the loss of a lane changes the link,
/// takes back what the path had sent, counts as evidence, and begins a dial. A pair begins and ends as a whole.
pub struct Pair<L> {
    /// It tells pairs that had the same number apart. It is never used again; 0: the slot is free.
    pub(crate) serial: u64,
    pub(crate) peer: PeerId,
    pub(crate) path: Path,
    pub(crate) link: Link<L>,
    /// Lanes that were swapped for the one in use and are read to their end.
    pub(crate) leaving: Vec<Up<L>>,
    pub(crate) dial: Dial,
    /// Its moves to other transports.
    pub(crate) moves: Moves,
    /// The incoming connection whose HELLO was answered: until its last word comes, our side need not dial.
    pub(crate) answered: Option<IncomingId>,
    pub(crate) who: Who,
    pub(crate) evidence: Evidence,
    pub(crate) caller: Option<Caller>,
    pub(crate) inbox: Inbox,
    /// Of a stranger: what it has told of checkpoints.
    pub(crate) early: Inbox,
    /// Some of that was handed on lately.
    pub(crate) early_heard: bool,
    /// The negotiation of our leader with that process.
    pub(crate) talk: Option<Box<Talk>>,
    /// What the two sides have told each other of what they wait for.
    pub asks: Asks,
    /// What it has carried that was attributed to a transport.
    pub(crate) attributed: engine::Traffic,
    /// How many open inter-communicators it is part of.
    pub(crate) inters: usize,
    /// A call waits for that process, so it is to be connected though there is nothing to send.
    pub(crate) wanted: bool,
    /// Our BYE was sent: nothing may follow.
    pub(crate) bye_said: bool,
    /// The engine was told to hold back.
    pub(crate) backlogged: bool,
    /// This process is held, and the other side is to hear that it comes back.
    pub(crate) is_to_hear: bool,
    /// The other side has heard, or may have, that this process comes back by itself, and has said nothing on a lane since: it may wait
    /// for that.
    pub(crate) is_expected_back: bool,
    /// The last change of our contact record that the other side was told.
    pub(crate) told_contact: u32,
    /// It is in the agenda's list of pairs that may have something to write.
    pub(crate) dirty: bool,
}

impl<L> Pair<L> {
    pub(crate) fn new(path: Path, peer: PeerId, serial: u64) -> Pair<L> {
        Pair {
            serial,
            peer,
            path,
            link: Link::Apart { lost: None },
            leaving: Vec::new(),
            dial: Dial::Idle,
            moves: Moves::default(),
            answered: None,
            who: Who { cookie: None, contact: None, identity: Identity::Unknown },
            evidence: Evidence::default(),
            caller: None,
            inbox: Inbox::default(),
            early: Inbox::default(),
            early_heard: false,
            talk: None,
            asks: Asks::default(),
            attributed: Default::default(),
            inters: 0,
            wanted: false,
            bye_said: false,
            backlogged: false,
            is_to_hear: false,
            is_expected_back: false,
            told_contact: 0,
            dirty: false,
        }
    }

    /// What fills a slot whose pair has ended. No lookup finds it.
    pub(crate) fn nobody(peer: PeerId) -> Pair<L> {
        let no = ProcId { incarnation: 0, rank: 0 };
        Pair { link: Link::Gone { how: Gone::Finished, last: None }, ..Pair::new(Path::new(no, no), peer, 0) }
    }

    /// Our side: the incarnation of our group, and our rank in it.
    pub fn local(&self) -> ProcId {
        self.path.local()
    }

    /// The other side: the incarnation of its group, and its rank in it.
    pub fn remote(&self) -> ProcId {
        self.path.remote()
    }

    /// The engine's number for the other side. It equals the pair's number.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The path, for figures and tests.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lane in use, also while it carries the last messages of a process that is gone.
    #[inline]
    pub fn lane(&self) -> Option<&Up<L>> {
        match &self.link {
            Link::Up(up) | Link::Gone { last: Some(up), .. } => Some(up),
            _ => None,
        }
    }

    /// Whether it has left a lane that is still read.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The lanes that it has left and that are still read.
    pub fn left_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.leaving.iter_mut().map(|up| &mut up.lane)
    }

    /// As [`Pair::lane`].
    #[inline]
    pub fn lane_mut(&mut self) -> Option<&mut Up<L>> {
        match &mut self.link {
            Link::Up(up) | Link::Gone { last: Some(up), .. } => Some(up),
            _ => None,
        }
    }

    pub(crate) fn take_lane(&mut self) -> Option<Up<L>> {
        match &mut self.link {
            Link::Up(_) => match std::mem::replace(&mut self.link, Link::Apart { lost: None }) {
                Link::Up(up) => Some(up),
                _ => None,
            },
            Link::Gone { last, .. } => last.take(),
            Link::Apart { .. } => None,
        }
    }

    /// Whether the other side is dead or has finalized; `None` while neither is known.
    pub fn gone(&self) -> Option<Gone> {
        match self.link {
            Link::Gone { how, .. } => Some(how),
            _ => None,
        }
    }

    /// Whether the other side has said that it goes away, and has not come back.
    pub fn is_away(&self) -> bool {
        self.evidence.away
    }

    /// Whether the other side is still to hear that this process goes away. One that goes away itself, and is not connected any
    /// more, does not hear.
    pub(crate) fn can_hear(&self) -> bool {
        self.is_to_hear && (self.lane().is_some() || !self.is_away())
    }

    pub(crate) fn set_gone(&mut self, how: Gone) {
        let last = self.take_lane();
        self.link = Link::Gone { how, last };
    }

    pub(crate) fn lost(&self) -> Option<Lost> {
        match self.link {
            Link::Apart { lost } => lost,
            _ => None,
        }
    }

    /// The process number of the other side, be it known or only claimed.
    pub(crate) fn process(&self) -> Option<[u8; 16]> {
        match self.who.identity {
            Identity::Unknown => None,
            Identity::Claimed { process, .. } | Identity::Known(process) => Some(process),
        }
    }

    /// The process number of the other side, if more than its own claim is known.
    pub fn known_process(&self) -> Option<[u8; 16]> {
        match self.who.identity {
            Identity::Known(process) => Some(process),
            _ => None,
        }
    }

    /// The contact record of the other side, once it is known.
    pub fn contact(&self) -> Option<&Contact> {
        self.who.contact.as_ref()
    }

    /// Whether the other side is a stranger: known only by its own claim.
    pub fn is_stranger(&self) -> bool {
        matches!(self.who.identity, Identity::Claimed { .. })
    }

    /// The bytes of CONTROL messages that are kept.
    pub(crate) fn kept_control(&self) -> usize {
        self.inbox.bytes + self.early.bytes
    }

    pub(crate) fn know_process(&mut self, process: [u8; 16]) {
        if self.known_process().is_none() {
            self.who.identity = Identity::Known(process);
        }
    }

    /// Whether the pair should have a lane.
    pub(crate) fn needs_lane(&self) -> bool {
        let has_reason = self.wanted || self.lost().is_some() || self.is_expected_back || !self.path.all_acknowledged();
        self.gone().is_none() && has_reason || self.owes_return()
    }

    /// Whether the other side has taken its leave while this process was held, and waits until that is acknowledged.
    pub(crate) fn owes_return(&self) -> bool {
        let has_left = matches!(self.link, Link::Gone { how: Gone::Finished, last: None });
        has_left && self.is_expected_back && self.can_dial()
    }

    /// Whether it has no lane and no call waits for it.
    pub(crate) fn is_left_alone(&self) -> bool {
        !self.wanted && matches!(self.link, Link::Apart { .. })
    }

    /// Whether our side can dial. If not, the other side has to.
    pub(crate) fn can_dial(&self) -> bool {
        self.who.contact.is_some() && self.who.cookie.is_some()
    }

    /// How long to rest before the next dial, after the failures so far: 10 ms doubled with each, at most 1 s.
    pub(crate) fn rest(&self) -> Duration {
        Duration::from_millis((10u64 << self.evidence.tries.min(10)).min(1000))
    }

    /// Whether a HELLO of ours is out and less than `limit` old.
    pub(crate) fn has_greeted(&self, limit: Duration, now: Time) -> bool {
        matches!(&self.dial, Dial::Underway(race) if race.has_greeted(limit, now))
    }

    /// Whether the other side may lack something: a body that it has not acknowledged, or that it has not read off a lane.
    pub(crate) fn owes<M: Memory>(&self) -> bool
    where
        L: Lane<M>,
    {
        !self.path.all_acknowledged() || self.lane().is_some_and(|up| !up.lane.is_read())
    }
}

impl Inbox {
    /// Keeps a message, if there is room for it; `false`: there is none.
    pub(crate) fn put(&mut self, bytes: Vec<u8>) -> bool {
        let fits = self.messages.len() < MAX_CONTROLS && self.bytes + bytes.len() <= MAX_CONTROL_BYTES;
        if fits {
            self.bytes += bytes.len();
            self.messages.push_back(bytes);
        }
        fits
    }

    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let bytes = self.messages.pop_front()?;
        self.bytes -= bytes.len();
        Some(bytes)
    }
}
