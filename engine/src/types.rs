//! The words of the engine's interface.

use base::protocol::message::{EAGER_BYTES, ENVELOPES};
use base::protocol::tag::{FIRST_PARTITIONED, LAST_OF_USER as USER_TAGS, USER_BITS};
use serde::{Deserialize, Serialize};

/// The index of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PeerId(pub u32);

/// A send or a receive. Also the number of its user buffer. Not used again before 2^36 others; no two that live at the same
/// time have the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpId(pub u64);

impl OpId {
    /// The lowest bits are the slot.
    pub(crate) const SLOT_BITS: u32 = 28;
    pub(crate) const SLOTS: usize = 1 << OpId::SLOT_BITS;

    /// A small number that is its own as long as the operation lives: for tables by operation.
    pub const fn slot(self) -> usize {
        self.0 as usize & (OpId::SLOTS - 1)
    }
}

/// A message that was taken out of matching by a matched probe. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId(pub u64);

/// A local slot of an open inter-communicator; used again after close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ctx(pub u32);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Up to this size a message goes whole, if credit allows.
    pub eager_max: u64,
    /// What a sender may have under way and unreceived. Both sides must agree on these two.
    pub envelopes: u64,
    pub eager_bytes: u64,
    /// What a look that finds nothing gives a sender at its end.
    pub extra_envelopes: u64,
    /// Most bytes of one BULK frame, unless a peer is given another number: see [`crate::Engine::set_chunk`].
    pub chunk: u64,
    #[cfg(feature = "plant")]
    #[doc(hidden)]
    pub plant: Plant,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            eager_max: 16 << 10,
            envelopes: ENVELOPES,
            eager_bytes: EAGER_BYTES,
            extra_envelopes: 256,
            chunk: 256 << 10,
            #[cfg(feature = "plant")]
            plant: Plant::None,
        }
    }
}

/// Faults that tests put in, to see that they are found.
#[cfg(feature = "plant")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plant {
    None,
    /// Of several messages that match, the newest is taken.
    Order,
    /// Tags are not compared.
    Match,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Any,
    Rank(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tag {
    /// Any that is not negative: see [`partitioned_tag`].
    Any,
    Is(i64),
}

/// The one rule for tags: those of the user are 0 to 2^31-1; negative ones are the library's own, and [`Tag::Any`] matches
/// none of them. -1 to -256 are for the creation of communicators; below that, each partitioned operation has one that
/// says which of them it is: the `count`-th (modulo 2^31) with the user's `tag` between two processes, in the order of
/// their init calls.
pub const fn partitioned_tag(tag: u32, count: u32) -> i64 {
    FIRST_PARTITIONED - ((count as i64 & USER_TAGS) << USER_BITS | (tag as i64 & USER_TAGS))
}

/// The tag that the user gave, of any tag in an envelope that the user sees.
pub const fn user_tag(tag: i64) -> i64 {
    if tag <= FIRST_PARTITIONED { FIRST_PARTITIONED.wrapping_sub(tag) & USER_TAGS } else { tag }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    Standard,
    /// Complete only when matched.
    Synchronous,
    /// In so many partitions of equal size, of which each may leave once [`crate::Engine::ready`] has been told of it.
    Partitioned(u32),
}

/// Why nothing more comes from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gone {
    Dead,
    /// It said BYE.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub source: u32,
    pub tag: i64,
    pub size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    PeerDead,
    PeerFinished,
    /// The inter-communicator was closed, here or there.
    Revoked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Sent,
    /// `size` is what was put in the buffer.
    Received(Envelope),
    /// The message was longer than the buffer, which is full: `size` is what was put in it, `whole` is all of the message.
    /// As large as the others: an envelope within would be more.
    Truncated {
        source: u32,
        tag: i64,
        size: u64,
        whole: u64,
    },
    /// The message is in the buffer, but for numbers that no value of their type here can hold. Said by those who convert
    /// between machines, never by the engine.
    OutOfRange(Envelope),
    /// Something is wrong with the message that takes more words: number `why` of those who say it. Not said by the engine.
    Wrong {
        source: u32,
        tag: i64,
        size: u64,
        why: u64,
    },
    /// The receive was taken back before it had a message.
    Cancelled,
    Failed(Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `size` is that of the message.
    Found(Envelope),
    None,
    Failed(Fault),
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A send with this tag that is still here: the peer has no room for it, or its path is backlogged.
    Room(PeerId, i64),
    /// A send with this tag that the peer has not matched.
    Matched(PeerId, i64),
    /// A send whose data is on its way.
    Taken(PeerId),
    /// A receive without a message.
    Message(Ctx, Source, Tag),
    /// A receive that has so much of its message.
    Data(PeerId, u64, u64),
    /// A send of which not all partitions are ready.
    Partitions,
}

/// What the engine wants done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// First class: the whole body of a MSG.
    Message { peer: PeerId, bytes: Vec<u8> },
    /// Second class, from user buffer `op.0`.
    Bulk { peer: PeerId, receiver_op: u64, op: OpId, offset: u64, len: u64 },
    /// The first `size` bytes of the message of `op`, a receive, lie in the memory of the peer's process: in these pieces,
    /// (address, length) each. Whoever reads them asks [`crate::Engine::bulk_wanted`] before each part, since it may be
    /// wanted no more, and says [`crate::Engine::on_bulk`] after it, or [`crate::Engine::pull_failed`].
    Get { peer: PeerId, sender_op: u64, op: OpId, pieces: Vec<(u64, u64)>, size: u64 },
    /// A message with a note has met the receive `op`; comes before the outcome can be asked for.
    Noted { peer: PeerId, op: OpId, note: Vec<u8> },
    /// The peer asks whether this process is alive and what it waits for: see [`crate::Engine::tell`].
    Asked { peer: PeerId },
    /// What the peer has told, when asked.
    Told { peer: PeerId, bytes: Vec<u8> },
    /// A CONTROL message came.
    Control { peer: PeerId, bytes: Vec<u8> },
}

impl Output {
    pub(crate) fn peer(&self) -> PeerId {
        match self {
            Output::Message { peer, .. }
            | Output::Bulk { peer, .. }
            | Output::Get { peer, .. }
            | Output::Noted { peer, .. }
            | Output::Asked { peer }
            | Output::Told { peer, .. }
            | Output::Control { peer, .. } => *peer,
        }
    }
}
