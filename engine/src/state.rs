//! The engine's state: peers, inter-communicators and operations. All of it is plain serialisable data. User memory
//! appears by number only.

use crate::Config;
use crate::announce::Announce;
use crate::arrived::Arrived;
use crate::context::{Closed, ContextId};
use crate::credit::{Granting, Spending};
use crate::intervals::Intervals;
use crate::kept::{Limits, Line};
use crate::matching::{Posted, Unexpected, fits};
use crate::members::Members;
use crate::parts::Parts;
use crate::slots::BySlot;
use crate::types::{Ctx, Envelope, Gone, NOW, Outcome, Output, PeerId, Source, Tag};
use crate::wire::Head;
use base::protocol::message::READ_FROM;
use base::{Memory, Sorted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why sends to a peer do not leave at once: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold(u8);

impl Hold {
    /// The path is backlogged.
    pub const BACKLOGGED: u8 = 1;
    /// Some sends are not sent again, after a restart.
    pub const SKIPPING: u8 = 2;
    /// It was told BYE.
    pub const LEFT: u8 = 4;

    pub fn has(self, why: u8) -> bool {
        self.0 & why != 0
    }

    pub fn is_free(self) -> bool {
        self.0 == 0
    }

    pub fn set(&mut self, why: u8, on: bool) {
        self.0 = if on { self.0 | why } else { self.0 & !why };
    }

    pub fn is_sound(self) -> bool {
        self.0 <= Hold::BACKLOGGED | Hold::SKIPPING | Hold::LEFT
    }
}

/// After a beginning that its receiver had no use for, so many long messages go without.
const PAUSE: u8 = 8;
/// After a long message, so many receives that have room for another one are posted at once, though they could do without an operation.
pub(crate) const EXPECTED: u8 = 8;

/// The beginnings of messages that go to one peer and come from it, see [`crate::beginning`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    /// Its lane is such that there are some.
    pub is_of_use: bool,
    /// So many messages more go without.
    pub pause: u8,
    /// So many receives more are posted that could take one.
    pub expected: u8,
    /// The receives that take them: the sender's operation and ours. Some of them may have ended.
    pub taken: Vec<(u64, u64)>,
}

/// What is known of one remote process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub group: u64,
    pub gone: Option<Gone>,
    /// Why sends to it do not leave at once.
    pub hold: Hold,
    /// The inter-communicator that its last message was for.
    pub latest: Ctx,
    /// The longest BULK frame, in bytes.
    pub chunk: u64,
    /// The most pieces of data that may be described to the peer. 0 if it cannot read our memory.
    pub max_segments: usize,
    /// We can read its memory.
    pub pull: bool,
    /// How much longer than [`Config::eager_max`] a message may be that is sent to it eager. It follows from the lane.
    #[serde(skip)]
    pub more_eager: u64,
    /// The longest message that is sent to it eager if it has sent one since the last of [`READ_FROM`] bytes and more.
    #[serde(skip)]
    pub eager_alone: u64,
    /// How many messages had come from it when the last one of that length left.
    #[serde(skip)]
    pub answered: u64,
    /// Which messages are announced to it though they could go eager. Begun anew with each lane.
    #[serde(skip)]
    pub announce: Announce,
    /// A thread of it polls its lanes, see [`crate::Engine::set_polls`].
    #[serde(skip)]
    pub polls: bool,
    /// The sizes that this process reads sooner from its memory, see [`crate::Engine::set_read_sooner`].
    #[serde(skip)]
    pub read_sooner: u8,
    #[serde(skip)]
    pub beginning: Beginning,
    /// A DONE has come since the last RTS.
    #[serde(skip)]
    pub is_answering: bool,
    /// The last announced message that was the first one behind a DONE: the program could hardly have had a receive for it.
    #[serde(skip)]
    pub prompt: Option<u64>,
    pub spending: Spending,
    pub granting: Granting,
    /// It will be in no inter-communicator: it may send only CONTROL and BYE.
    pub only_control: bool,
    /// Contexts of which it has been told that they are closed.
    pub told_closed: Closed,
    /// Sends that have not left, in the order of the calls. Some of them may have ended.
    pub waiting: VecDeque<u64>,
    /// Sends of which ranges are asked for. They take turns. Some of them may have ended.
    pub bulk: VecDeque<u64>,
    /// Whether the peer is in `Engine::turns`.
    pub in_turn: bool,
    /// Messages that were sent to it, and that came from it, before credit began to count them.
    pub numbered: (u64, u64),
    /// What is still to be done of a restart.
    pub resume: Option<Box<Resuming>>,
    /// Bytes of messages that went, and came, by rendezvous: figures for people, which no snapshot needs.
    #[serde(skip)]
    pub announced: (u64, u64),
    /// Envelopes and bytes that had arrived when the peer was gone, and credit began anew.
    #[serde(skip)]
    pub arrived_before: (u64, u64),
}

impl Peer {
    pub fn new(group: u64, cfg: &Config) -> Self {
        Peer {
            group,
            gone: None,
            hold: Hold::default(),
            latest: Ctx(0),
            chunk: cfg.chunk,
            max_segments: 0,
            pull: false,
            more_eager: 0,
            eager_alone: 0,
            answered: 0,
            announce: Announce::default(),
            beginning: Beginning::default(),
            polls: false,
            is_answering: false,
            prompt: None,
            read_sooner: 0,
            spending: Spending::new(cfg),
            granting: Granting::new(cfg),
            only_control: false,
            told_closed: Closed::default(),
            waiting: VecDeque::new(),
            bulk: VecDeque::new(),
            in_turn: false,
            numbered: (0, 0),
            resume: None,
            announced: (0, 0),
            arrived_before: (0, 0),
        }
    }

    /// Whether the next message of this length is announced though it could go eager.
    #[inline]
    pub fn is_announced(&self, bytes: u64) -> bool {
        self.polls && self.max_segments > 0 && self.announce.is_due(bytes)
    }

    /// Whether what is sent now overtakes neither outputs that were not fetched yet, nor sends that wait.
    #[inline(always)]
    pub fn is_free(&self, out: &VecDeque<Output>) -> bool {
        out.is_empty() && self.hold.is_free() && self.waiting.is_empty()
    }

    /// Whether a message of this length is short enough for EAGER, and there is credit for it.
    #[inline]
    pub fn may_go_eager(&self, cfg: &Config, bytes: u64) -> bool {
        let is_short = bytes <= cfg.eager_max + self.more_eager || self.may_go_alone(bytes);
        is_short && self.spending.has_room(bytes)
    }

    /// Whether a message of this length is short enough for EAGER as one that follows no other. Where several follow each other, bulk is sooner.
    #[cold]
    fn may_go_alone(&self, bytes: u64) -> bool {
        bytes <= self.eager_alone && self.granting.arrived().0 != self.answered
    }

    /// How many first bytes of the next announced message, of this length, follow its RTS. They do if the peer has sent a message since the last
    /// long one: where several follow each other, the lane is not idle.
    pub fn begins(&mut self, cfg: &Config, bytes: u64) -> u64 {
        if !self.beginning.is_of_use || bytes <= cfg.beginning || self.granting.arrived().0 == self.answered {
            return 0;
        }
        let is_paused = self.beginning.pause > 0;
        self.beginning.pause = self.beginning.pause.saturating_sub(1);
        if is_paused { 0 } else { cfg.beginning }
    }

    /// The receiver has asked for this range first, of a message whose beginning was sent.
    pub fn heard_of_beginning(&mut self, offset: u64) {
        if offset == 0 {
            self.beginning.pause = PAUSE;
        }
    }

    /// An envelope leaves: of an eager message, or of one that is announced.
    #[inline]
    pub fn leaves(&mut self, bytes: u64, eager: bool) {
        self.announce.count(bytes);
        if bytes >= READ_FROM {
            self.answered = self.granting.arrived().0;
        }
        self.spending.spend(if eager { bytes } else { 0 });
        self.announced.0 += if eager { 0 } else { bytes };
    }
}

/// What the peers of one group share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Group {
    pub open: Sorted<ContextId, Ctx>,
    /// Contexts that were open once. All others are still to come.
    pub closed: Closed,
    /// Messages for contexts that are not open yet. Credit bounds them.
    pub early: BTreeMap<ContextId, VecDeque<Arrived>>,
}

/// An open inter-communicator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Context {
    pub group: u64,
    pub context: ContextId,
    pub rank: u32,
    pub members: Members,
    /// Remote ranks that have closed it.
    pub revoked: BTreeSet<u32>,
    pub unexpected: Unexpected,
    pub posted: Posted,
}

impl Context {
    /// Whether a message of this peer, of which it says that rank `source` has sent it in `context`, is for this one.
    #[inline(always)]
    pub fn is_meant(&self, (peer, p): (PeerId, &Peer), context: ContextId, source: u32) -> bool {
        self.is_of(p, context) && (self.members.is(source, peer) && p.gone.is_none())
    }

    /// Whether it is the inter-communicator that this peer's messages call so.
    #[inline(always)]
    pub fn is_of(&self, p: &Peer, context: ContextId) -> bool {
        self.context == context && self.group == p.group
    }
}

/// A message that a matched probe has taken: only a receive of this claim gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claimed {
    pub ctx: Ctx,
    pub message: Arrived,
}

/// Where a send goes. Its inter-communicator is open until the send is matched.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct To {
    pub peer: PeerId,
    pub ctx: Ctx,
    pub tag: i64,
    pub size: u64,
    pub sync: bool,
    /// The peer has been told where the data lies, and may read it.
    pub described: bool,
    /// The peer has asked that we write some of it to its memory.
    #[serde(skip)]
    pub is_put: bool,
    /// Its beginning has followed its RTS.
    #[serde(skip)]
    pub begun: bool,
}

/// A send that was matched. `ranges` are asked for, ready, and not yet put out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sending {
    pub peer: PeerId,
    /// The inter-communicator, which may be closed, and the tag.
    pub at: Option<(ContextId, i64)>,
    pub size: u64,
    pub receiver_op: u64,
    pub ranges: Intervals,
    /// Whether it is in `Peer::bulk`.
    pub queued: bool,
}

/// A receive whose data is on its way. `envelope.size` is what will be put in the buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pulling {
    pub peer: PeerId,
    /// The inter-communicator that it was posted in, while the receiver reads the data and the sender does not know of
    /// the match.
    pub reads: Option<Ctx>,
    pub sender_op: u64,
    pub got: Intervals,
    pub envelope: Envelope,
    /// Bytes of the whole message.
    pub whole: u64,
    /// Somebody reads the sender's memory now ([`Engine::begin_read`](crate::Engine::begin_read)).
    #[serde(skip)]
    pub is_read: bool,
    /// Its message was here before it.
    #[serde(skip)]
    pub is_late: bool,
    /// So many first bytes come without having been asked for. 0: none.
    #[serde(skip)]
    pub begun: u64,
    /// The range that the sender was asked to write to our memory (RTR), and may be writing now.
    #[serde(skip)]
    pub put: Option<(u64, u64)>,
}

/// The state of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum State {
    /// Its number was given out, and it has not started.
    Reserved,
    /// A send that has not left: it is in `Peer::waiting`, unless it waits for its partitions.
    Queued(To),
    /// A synchronous eager send that has left. DONE completes it.
    Awaiting(To),
    /// A send whose envelope has left (RTS).
    Announced(To),
    /// A send whose RTS has told where its data lies. Its inter-communicator is closed, but the peer may be reading.
    Exposed {
        peer: PeerId,
        context: ContextId,
        size: u64,
        /// As [`To::is_put`].
        #[serde(skip)]
        is_put: bool,
    },
    /// A send that was matched, and whose data the receiver asks for.
    Sending(Box<Sending>),
    /// A partitioned send of which the peer has all that it wants, while not all partitions are ready.
    Delivered,
    /// A receive in `Context::posted`, at this place if it has one.
    Posted { ctx: Ctx, source: Source, tag: Tag, place: u32 },
    /// A receive that was matched, and whose data is on its way.
    Pulling(Box<Pulling>),
    /// The operation is complete.
    Over(Outcome),
}

impl State {
    /// Whether it is a send whose envelope has left, and which is not over.
    pub fn is_out(&self) -> bool {
        matches!(self, State::Awaiting(_) | State::Announced(_) | State::Exposed { .. } | State::Sending(_))
    }

    /// Sets another state in the place of one in which there is nothing to be dropped.
    #[inline(always)]
    pub fn replace(&mut self, other: State) {
        debug_assert!(!matches!(self, State::Sending(_) | State::Pulling(_)));
        std::mem::forget(std::mem::replace(self, other));
    }

    /// The peer without which the operation cannot end.
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

/// A send or a receive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Op {
    pub state: State,
    /// Its outcome will not be asked for.
    pub forgotten: bool,
    pub more: Option<Box<More>>,
}

/// What few sends have. It is boxed, to keep [`Op`] small.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct More {
    /// The partitions of a partitioned send.
    pub parts: Option<Parts>,
    /// The note that travels with the message. Empty if there is none.
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

/// A receive without an operation: see [`Engine::recv_now`](crate::Engine::recv_now).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub ctx: Ctx,
    pub source: Source,
    pub tag: Tag,
    pub capacity: u64,
    pub state: NowState,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NowState {
    Waiting,
    /// It has matched a message that is no EAGER.
    Missed,
    Over(Outcome),
}

impl Now {
    /// Its number and its capacity, if it matches a message.
    #[inline(always)]
    pub fn take(now: &Option<Now>, ctx: Ctx, source: u32, tag: i64) -> Option<(u64, u64)> {
        let now = now.as_ref()?;
        now.takes(ctx, source, tag).then_some((NOW.0, now.capacity))
    }

    /// Whether it waits, and matches a message.
    #[inline(always)]
    pub fn takes(&self, ctx: Ctx, source: u32, tag: i64) -> bool {
        matches!(self.state, NowState::Waiting) && self.ctx == ctx && fits(self.source, self.tag, source, tag)
    }
}

/// What a receive has got of the next message of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub peer: PeerId,
    pub op: u64,
    pub bytes: u64,
    /// Of the message.
    pub head: Head,
    pub size: u64,
}

impl Ahead {
    /// Writes the data of a peer's message to the buffer of its receive, but for what that has got.
    #[inline(always)]
    pub fn write_rest<M: Memory>(ahead: &mut Option<Ahead>, mem: &mut M, (peer, op): (PeerId, u64), data: &[u8]) {
        match ahead {
            None => mem.write(op, 0, data),
            Some(_) => Ahead::write_after(ahead, mem, (peer, op), data),
        }
    }

    #[inline(never)]
    fn write_after<M: Memory>(ahead: &mut Option<Ahead>, mem: &mut M, (peer, op): (PeerId, u64), data: &[u8]) {
        let got = ahead.take_if(|a| a.peer == peer).filter(|a| a.op == op).map_or(0, |a| a.bytes);
        mem.write(op, got, data.get(got as usize..).unwrap_or_default());
    }
}

/// Which message a receive has got.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Got {
    pub peer: PeerId,
    pub number: u64,
    pub context: ContextId,
}

/// What is noted of operations while cuts may be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tracking {
    /// Receives that have a message. Those whose outcome was fetched are left out at the next cut.
    pub got: BySlot<Got>,
    /// The messages of sends that have left without being complete.
    pub left: BySlot<u64>,
    /// The number of the message that came last.
    pub number: u64,
    /// Messages that come are put out as [`Output::Logged`].
    pub is_logging: bool,
    /// Receives from any source.
    pub wild: Wild,
}

/// What is noted of receives from any source, by group and context of their inter-communicator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Wild {
    /// How many were posted.
    pub posted: BTreeMap<(u64, ContextId), u64>,
    /// Those whose outcome was not fetched, with their numbers from 0. Others are left out at the next cut.
    pub ops: BySlot<((u64, ContextId), u64)>,
    /// What they may get after a restart, as long as the record of what they got lasts.
    pub limits: BTreeMap<(u64, ContextId), Limits>,
}

/// What is still to be done of a restart, at one peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Resuming {
    /// The number of the program's next send, and that of the last one which may have reached the peer already.
    pub skipping: Option<(u64, u64)>,
    /// Those of them that have not reached it.
    pub lacking: BTreeSet<u64>,
    /// The highest number of a message that has come, or was late.
    pub arrived: u64,
    /// What comes, and is expected before messages with higher numbers: late ones that the peer's image has, then early ones that
    /// are sent again. And what the own image has.
    pub line: Line,
    /// Late messages that have come.
    pub came: Vec<(ContextId, Arrived)>,
}

impl Resuming {
    /// Whether messages are still to come that have older numbers.
    pub fn is_expecting(&self) -> bool {
        !self.line.wanted.is_empty() || !self.line.lacking.is_empty()
    }

    /// Whether nothing is left to be done.
    pub fn is_over(&self) -> bool {
        let all_given = self.line.kept.is_empty() && self.came.is_empty();
        self.skipping.is_none() && !self.is_expecting() && all_given
    }

    /// The number of the message that comes next. `None`: the one after the highest.
    pub fn next_number(&mut self) -> Option<u64> {
        self.line.wanted.pop_front().or_else(|| self.line.lacking.pop_first())
    }
}
