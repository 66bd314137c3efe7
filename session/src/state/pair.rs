//! One process of ours and one of theirs: who that is, the path between them, the lane under it now, and how the next one
//! comes about. Data and small questions only; other files act on it.

use crate::action::VisitorId;
use crate::path::Path;
use crate::state::evidence::Evidence;
use crate::state::life::Life;
use crate::state::race::Race;
use crate::state::talk::Talk;
use base::{Memory, ProcId, Time};
use engine::{Gone, PeerId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Contact, Place, TransportId};

/// Control messages of one leader that nobody has asked for yet: how many, and bytes in all, which is one offer of the
/// largest group and a little.
const MAX_CONTROLS: usize = 1024;
const MAX_CONTROL_BYTES: usize = 65 << 20;

/// The path to another leader. Numbers of pairs are used again, so it also says which of their tenants is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathRef {
    pub(crate) slot: usize,
    pub(crate) serial: u64,
}

/// A lane that carries what is sent.
pub struct Up<L> {
    pub lane: L,
    pub generation: u16,
    pub transport: TransportId,
    /// How often something was found on it, lately.
    pub brought: u32,
    /// Bits of its descriptors that have no room for what is to be written.
    pub waiting: u16,
    pub(crate) life: Life,
}

/// A lane that a handshake has made.
pub struct NewLane<L> {
    pub lane: L,
    pub generation: u16,
    /// Sequence up to which the other side has what was sent on this path.
    pub received: u64,
    pub transport: TransportId,
    /// Where its other end is; `None`: on this host.
    pub at: Option<Place>,
    pub dialled: bool,
}

/// How two processes are connected.
// There is one for each pair, in place: nobody gains from another hop.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Link<L> {
    /// By no lane. `lost`: they were.
    Apart {
        lost: Option<Lost>,
    },
    Up(Up<L>),
    /// The other side is dead, or has nothing to do with us any more; a lane may still carry the last words.
    Gone {
        how: Gone,
        last: Option<Up<L>>,
    },
}

/// Since when a lane is lost, and whether the other side has closed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub since: Time,
    pub hung_up: bool,
}

/// What our side does about the next lane. It may be dialled beside the old one.
pub(crate) enum Dial {
    Idle,
    Underway(Box<Race>),
    /// Until the next try.
    Resting(Time),
}

/// Which process the other side is.
pub(crate) enum Identity {
    Unknown,
    /// As it says itself, until a contact record tells; since when it has been here.
    Claimed {
        process: [u8; 16],
        came: Time,
    },
    /// By its contact record or, where the name of a port tells none, by who answered there.
    Known([u8; 16]),
}

/// What is known of the other side.
pub(crate) struct Who {
    /// Its group's.
    pub cookie: Option<[u8; 16]>,
    pub contact: Option<Contact>,
    pub identity: Identity,
}

/// One who came to a port of ours.
#[derive(Default)]
pub(crate) struct Caller {
    /// Bytes that its offer still lacks; `None`: there is no offer.
    pub offer_missing: Option<usize>,
}

/// CONTROL that nobody has asked for yet.
#[derive(Default)]
pub(crate) struct Inbox {
    pub messages: VecDeque<Vec<u8>>,
    pub bytes: usize,
}

/// Questions about what somebody waits for.
#[derive(Default)]
pub struct Asks {
    /// What the other side said last of what it waits for, and when.
    pub told: Option<(String, Time)>,
    /// When it was last told so.
    pub answered_at: Option<Time>,
    /// It is told again once it has acknowledged so many bodies.
    pub answer_needs: u64,
}

/// The state of one peer. Its parts are one thing, since each event of a connection meets several of them.
pub struct Pair<L> {
    /// Never used twice; 0: nobody.
    pub(crate) serial: u64,
    pub(crate) peer: PeerId,
    pub(crate) path: Path,
    pub(crate) link: Link<L>,
    /// Lanes that are being left for the one in use.
    pub(crate) leaving: Vec<Up<L>>,
    pub(crate) dial: Dial,
    /// The visitor whose HELLO we have answered, and that is to say the last word: no need to dial.
    pub(crate) answered: Option<VisitorId>,
    pub(crate) who: Who,
    pub(crate) evidence: Evidence,
    pub(crate) caller: Option<Caller>,
    pub(crate) inbox: Inbox,
    /// What our leader has to say to that one.
    pub(crate) talk: Option<Box<Talk>>,
    pub asks: Asks,
    /// Open inter-communicators that it is part of.
    pub(crate) inters: usize,
    /// Somebody waits for it, so it is to be connected though there is nothing to send.
    pub(crate) wanted: bool,
    pub(crate) bye_said: bool,
    pub(crate) backlogged: bool,
    /// Something may be ready to be written.
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
            answered: None,
            who: Who { cookie: None, contact: None, identity: Identity::Unknown },
            evidence: Evidence::default(),
            caller: None,
            inbox: Inbox::default(),
            talk: None,
            asks: Asks::default(),
            inters: 0,
            wanted: false,
            bye_said: false,
            backlogged: false,
            dirty: false,
        }
    }

    /// What stands in a slot whose pair has ended: nobody, and nobody finds it.
    pub(crate) fn nobody(peer: PeerId) -> Pair<L> {
        let no = ProcId { incarnation: 0, rank: 0 };
        Pair { link: Link::Gone { how: Gone::Finished, last: None }, ..Pair::new(Path::new(no, no), peer, 0) }
    }

    pub fn local(&self) -> ProcId {
        self.path.local()
    }

    pub fn remote(&self) -> ProcId {
        self.path.remote()
    }

    pub fn peer(&self) -> PeerId {
        self.peer
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    pub fn lane(&self) -> Option<&Up<L>> {
        match &self.link {
            Link::Up(up) | Link::Gone { last: Some(up), .. } => Some(up),
            _ => None,
        }
    }

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

    pub fn gone(&self) -> Option<Gone> {
        match self.link {
            Link::Gone { how, .. } => Some(how),
            _ => None,
        }
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

    /// Which process it is, as far as one knows.
    pub(crate) fn process(&self) -> Option<[u8; 16]> {
        match self.who.identity {
            Identity::Unknown => None,
            Identity::Claimed { process, .. } | Identity::Known(process) => Some(process),
        }
    }

    /// Which process it is, if it is known for sure.
    pub fn known_process(&self) -> Option<[u8; 16]> {
        match self.who.identity {
            Identity::Known(process) => Some(process),
            _ => None,
        }
    }

    pub fn contact(&self) -> Option<&Contact> {
        self.who.contact.as_ref()
    }

    /// Whether it is only what it says of itself.
    pub fn is_stranger(&self) -> bool {
        matches!(self.who.identity, Identity::Claimed { .. })
    }

    pub(crate) fn know_process(&mut self, process: [u8; 16]) {
        if self.known_process().is_none() {
            self.who.identity = Identity::Known(process);
        }
    }

    /// Whether it should have a lane.
    pub(crate) fn needs_lane(&self) -> bool {
        self.gone().is_none() && (self.wanted || self.lost().is_some() || !self.path.all_acknowledged())
    }

    /// Whether nobody dials it, and it has not come.
    pub(crate) fn is_left_alone(&self) -> bool {
        !self.wanted && matches!(self.link, Link::Apart { .. })
    }

    /// Whether we know where it is. If not, it has to come to us.
    pub(crate) fn can_dial(&self) -> bool {
        self.who.contact.is_some() && self.who.cookie.is_some()
    }

    /// How long to rest after so many failures.
    pub(crate) fn rest(&self) -> Duration {
        Duration::from_millis((10u64 << self.evidence.tries.min(10)).min(1000))
    }

    /// Whether our HELLO is out, sent less than `limit` ago.
    pub(crate) fn has_greeted(&self, limit: Duration, now: Time) -> bool {
        matches!(&self.dial, Dial::Underway(race) if race.has_greeted(limit, now))
    }

    /// Whether there is something that its library may not have: not acknowledged, or on a lane and not read.
    pub(crate) fn owes<M: Memory>(&self) -> bool
    where
        L: Lane<M>,
    {
        !self.path.all_acknowledged() || self.lane().is_some_and(|up| !up.lane.is_read())
    }
}

impl Inbox {
    /// Whether there was room for it.
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
