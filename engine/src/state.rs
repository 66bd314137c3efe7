//! The engine's state: what it knows of peers, inter-communicators and operations. Private to the engine; everything
//! here is plain serialisable data, and user memory appears by number only.

use crate::Config;
use crate::arrived::Arrived;
use crate::context::{Closed, ContextId};
use crate::credit::{Granting, Spending};
use crate::intervals::Intervals;
use crate::matching::{Posted, Unexpected};
use crate::parts::Parts;
use crate::types::{Ctx, Envelope, Gone, Outcome, PeerId, Source, Tag};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub group: u64,
    pub gone: Option<Gone>,
    pub backlogged: bool,
    /// The inter-communicator that its last message was for.
    pub latest: Ctx,
    /// Most bytes of one BULK frame.
    pub chunk: u64,
    /// Into so many pieces data may be described to it; 0: it cannot read our memory.
    pub grips: usize,
    /// We can read its memory.
    pub pull: bool,
    pub spending: Spending,
    pub granting: Granting,
    /// It belongs to no inter-communicator, ever: it has nothing to send but CONTROL.
    pub only_control: bool,
    /// Contexts of which it has been told that they are closed.
    pub told_closed: Closed,
    /// Sends that have not left, in the order of the calls. Some may have ended meanwhile.
    pub waiting: VecDeque<u64>,
    /// Sends of which ranges are asked for; they take turns. Some may have ended meanwhile.
    pub bulk: VecDeque<u64>,
    /// Whether the peer is in `Engine::turns`.
    pub in_turn: bool,
}

impl Peer {
    pub fn new(group: u64, cfg: &Config) -> Self {
        Peer {
            group,
            gone: None,
            backlogged: false,
            latest: Ctx(0),
            chunk: cfg.chunk,
            grips: 0,
            pull: false,
            spending: Spending::new(cfg),
            granting: Granting::new(cfg),
            only_control: false,
            told_closed: Closed::default(),
            waiting: VecDeque::new(),
            bulk: VecDeque::new(),
            in_turn: false,
        }
    }
}

/// What the pairs of one group share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Group {
    pub open: BTreeMap<ContextId, Ctx>,
    /// Contexts that were open once. The rest is yet to come.
    pub closed: Closed,
    /// Messages for contexts to come; credit bounds them.
    pub early: BTreeMap<ContextId, VecDeque<Arrived>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Context {
    pub group: u64,
    pub context: ContextId,
    pub rank: u32,
    pub peers: Vec<PeerId>,
    /// Remote ranks that have closed this.
    pub revoked: BTreeSet<u32>,
    pub unexpected: Unexpected,
    pub posted: Posted,
}

/// A message that only the receive of its claimant gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claimed {
    pub ctx: Ctx,
    pub message: Arrived,
}

/// Where a send goes. Its inter-communicator stands, until the send is matched.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct To {
    pub peer: PeerId,
    pub ctx: Ctx,
    pub tag: i64,
    pub size: u64,
    pub sync: bool,
    /// The peer has been told where the data lies, and may read it.
    pub described: bool,
}

/// A send that was matched: `ranges` are asked for, ready, and not yet put out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sending {
    pub peer: PeerId,
    pub size: u64,
    pub receiver_op: u64,
    pub ranges: Intervals,
    /// It is in `Peer::bulk`.
    pub queued: bool,
}

/// A receive that takes its data; `envelope.size` is what will be put in the buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pulling {
    pub peer: PeerId,
    /// The inter-communicator that it was posted in, as long as the sender has not been told of the match: it reads.
    pub reads: Option<Ctx>,
    pub sender_op: u64,
    pub got: Intervals,
    pub envelope: Envelope,
    /// All of the message.
    pub whole: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum State {
    /// A number that was given out, and nothing more.
    Reserved,
    /// A send in `Peer::waiting`.
    Queued(To),
    /// A send whose envelope has left, with its data.
    Awaiting(To),
    /// A send whose envelope has left (RTS).
    Announced(To),
    /// A send whose envelope has left with a description of its data: its inter-communicator is closed, but the peer may be
    /// reading.
    Exposed {
        peer: PeerId,
        context: ContextId,
        size: u64,
    },
    Sending(Box<Sending>),
    /// A partitioned send of which the peer has all it wants, and not all partitions are ready.
    Delivered,
    /// A receive in `Context::posted`, at this place if it has one.
    Posted {
        ctx: Ctx,
        source: Source,
        tag: Tag,
        place: u32,
    },
    Pulling(Box<Pulling>),
    Over(Outcome),
}

impl State {
    /// A send whose envelope has left.
    pub fn is_out(&self) -> bool {
        matches!(self, State::Awaiting(_) | State::Announced(_) | State::Exposed { .. } | State::Sending(_))
    }

    /// The peer without which it cannot end.
    pub fn needs(&self) -> Option<PeerId> {
        match self {
            State::Queued(to) | State::Awaiting(to) | State::Announced(to) => Some(to.peer),
            State::Exposed { peer, .. } => Some(*peer),
            State::Sending(sending) => Some(sending.peer),
            State::Pulling(pulling) => Some(pulling.peer),
            State::Reserved | State::Delivered | State::Posted { .. } | State::Over(_) => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Op {
    pub state: State,
    /// Nobody will ask for the outcome.
    pub forgotten: bool,
    pub more: Option<Box<More>>,
}

/// What few sends have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct More {
    /// Of a partitioned send.
    pub parts: Option<Parts>,
    /// Travels with the message; empty: there is none.
    pub note: Vec<u8>,
}

impl Op {
    pub fn new(state: State) -> Op {
        Op { state, forgotten: false, more: None }
    }

    pub fn parts(&self) -> Option<&Parts> {
        self.more.as_ref()?.parts.as_ref()
    }
}
