//! The types of the engine's interface.

use crate::context::ContextId;
use crate::kept::Kept;
use base::protocol::frame::{MAX_PAYLOAD, OF_SENDER};
use base::protocol::message::{EAGER_BYTES, ENVELOPES};
use base::protocol::tag::{FIRST_PARTITIONED, LAST_OF_USER as USER_TAGS, USER_BITS};
use serde::{Deserialize, Serialize};

/// A peer: one remote process, as the engine knows it. Used again after [`crate::Engine::remove_peer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PeerId(pub u32);

/// A send or a receive, and the number of its user buffer in [`base::Memory`]. The number is not used again before 2^35
/// other operations have started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpId(pub u64);

/// The number by which the memory knows the buffer of a receive without an operation ([`crate::Engine::recv_now`]). No
/// operation has it.
pub const NOW: OpId = OpId(0);

impl OpId {
    /// The lowest bits of the number are the slot.
    pub(crate) const SLOT_BITS: u32 = 28;
    pub(crate) const SLOTS: usize = 1 << OpId::SLOT_BITS;
    /// The last number without its slot: the highest bit is that of [`OF_SENDER`].
    pub(crate) const LAST: u64 = (OF_SENDER - 1) >> OpId::SLOT_BITS;

    /// A small number that no other live operation has: an index for tables of operations.
    pub const fn slot(self) -> usize {
        self.0 as usize & (OpId::SLOTS - 1)
    }
}

/// A message that a matched probe (MPI_Mprobe) has taken out of matching. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId(pub u64);

/// An open inter-communicator, as this process numbers it. Used again after [`crate::Engine::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ctx(pub u32);

/// The limits of an engine. Sizes are in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The longest message that is sent eager to any peer, while credit for its bytes is left.
    pub eager_max: u64,
    /// The longest that may go to one for which [`crate::Engine::set_eager_max`] says so, if that is more. No longer one is taken from
    /// any peer.
    pub long_eager_max: u64,
    /// The messages that a sender may have sent and the receiver's user has not received. Both sides must have the
    /// same number.
    pub envelopes: u64,
    /// The eager data of such messages. Both sides must have the same number.
    pub eager_bytes: u64,
    /// The envelopes that a sender without credit gets when the receiver looks for a message and finds none.
    pub extra_envelopes: u64,
    /// The longest BULK frame, for peers without a number of their own ([`crate::Engine::set_chunk`]).
    pub chunk: u64,
    /// So many first bytes of a longer message follow its RTS at once, where [`crate::Engine::set_begins`] says so.
    #[serde(skip, default = "beginning")]
    pub beginning: u64,
    /// The fault that a test has put in.
    #[cfg(feature = "plant")]
    #[doc(hidden)]
    pub plant: Plant,
}

/// TCP on one host takes longer for them than for an RTS and its answer.
fn beginning() -> u64 {
    128 << 10
}

impl Default for Config {
    fn default() -> Self {
        Config {
            eager_max: 64 << 10,
            long_eager_max: 256 << 10,
            envelopes: ENVELOPES,
            eager_bytes: EAGER_BYTES,
            extra_envelopes: 256,
            chunk: MAX_PAYLOAD as u64,
            beginning: beginning(),
            #[cfg(feature = "plant")]
            plant: Plant::None,
        }
    }
}

impl Config {
    /// The longest message that may come eager.
    #[inline]
    pub(crate) fn most_eager(&self) -> u64 {
        self.eager_max.max(self.long_eager_max)
    }
}

/// Faults that a test puts in, to see that the tests find them.
#[cfg(feature = "plant")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plant {
    /// No fault.
    None,
    /// Of several messages that match, the newest is taken.
    Order,
    /// Tags are not compared.
    Match,
}

/// The source that a receive or a probe asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Every rank (MPI_ANY_SOURCE).
    #[default]
    Any,
    /// This rank of the remote group.
    Rank(u32),
}

/// The tag that a receive or a probe asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tag {
    /// Every tag of a user (MPI_ANY_TAG), and none of the library's own: see [`partitioned_tag`].
    #[default]
    Any,
    /// This tag.
    Is(i64),
}

/// The tag of the `count`-th partitioned operation, from 0, that two processes have made with the user's `tag`, in the
/// order of their init calls.
///
/// Tags of users are 0 to 2^31-1. Negative tags are the library's own: -1 to -256 are those of [`base::protocol::tag`],
/// and those below are of partitioned operations. `count` is taken modulo 2^31.
pub const fn partitioned_tag(tag: u32, count: u32) -> i64 {
    FIRST_PARTITIONED - ((count as i64 & USER_TAGS) << USER_BITS | (tag as i64 & USER_TAGS))
}

/// The tag that the user gave, from the tag of an envelope: the reverse of [`partitioned_tag`]. Other tags are returned
/// unchanged.
pub const fn user_tag(tag: i64) -> i64 {
    if tag <= FIRST_PARTITIONED { FIRST_PARTITIONED.wrapping_sub(tag) & USER_TAGS } else { tag }
}

/// The mode of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Complete as soon as the user buffer may be used again.
    Standard,
    /// Complete only when matched (MPI_Ssend).
    Synchronous,
    /// In this many partitions of equal size. Each may leave once [`crate::Engine::ready`] was called for it.
    Partitioned(u32),
}

/// Why nothing more comes from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gone {
    /// Its process is dead.
    Dead,
    /// It said BYE: it has finalized.
    Finished,
}

impl Gone {
    /// How operations fail that need the peer.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Gone::Dead => Fault::PeerDead,
            Gone::Finished => Fault::PeerFinished,
        }
    }
}

/// The envelope of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The rank of the sender in the remote group.
    pub source: u32,
    /// The tag: the user's, or one of the library's own ([`user_tag`]).
    pub tag: i64,
    /// Bytes, packed.
    pub size: u64,
}

/// Why an operation cannot complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The other process is dead.
    PeerDead,
    /// The other process has finalized.
    PeerFinished,
    /// The inter-communicator was closed, by this process or by the other.
    Revoked,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The send is complete.
    Sent,
    /// The receive is complete. `size` is what was put in the buffer.
    Received(Envelope),
    /// The message was longer than the buffer, which is full (MPI_ERR_TRUNCATE).
    ///
    /// The fields of an [`Envelope`] are repeated, since an envelope and a number would make all outcomes larger.
    Truncated {
        /// The rank of the sender in the remote group.
        source: u32,
        /// The tag.
        tag: i64,
        /// Bytes that were put in the buffer.
        size: u64,
        /// Bytes of the whole message.
        whole: u64,
    },
    /// The message is in the buffer, except for numbers that the types of this machine cannot hold. Only the conversion
    /// between machines has this outcome, never the engine.
    OutOfRange(Envelope),
    /// Something else is wrong with the message. Only checks of messages have this outcome, never the engine.
    Wrong {
        /// The rank of the sender in the remote group.
        source: u32,
        /// The tag.
        tag: i64,
        /// Bytes that were put in the buffer.
        size: u64,
        /// The number under which the check keeps its text.
        why: u64,
    },
    /// The receive was cancelled before it had a message.
    Cancelled,
    /// The operation failed.
    Failed(Fault),
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A message. `size` is that of the whole message.
    Found(Envelope),
    /// No message yet.
    None,
    /// No message is here, and none can come.
    Failed(Fault),
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A send to this peer with this tag has not left: credit is used up, or the path is backlogged.
    Room(PeerId, i64),
    /// A send to this peer with this tag is not matched yet.
    Matched(PeerId, i64),
    /// The peer has not got all data of a send.
    Taken(PeerId),
    /// A receive has no message yet.
    Message(Ctx, Source, Tag),
    /// A receive from this peer has a part of its data: bytes so far, and bytes in all.
    Data(PeerId, u64, u64),
    /// Not all partitions of a send are ready.
    Partitions,
}

/// What the engine asks its caller to do, or tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Send a message: the body of a MSG frame.
    Message {
        /// To this peer.
        peer: PeerId,
        /// The whole body.
        bytes: Vec<u8>,
    },
    /// As [`Output::Message`]. The peer has much left of what this gives, so it may go with the next message to it, if there is one soon.
    Credit {
        /// To this peer.
        peer: PeerId,
        /// The whole body.
        bytes: Vec<u8>,
    },
    /// Send a BULK frame.
    Bulk {
        /// To this peer.
        peer: PeerId,
        /// The peer's receive.
        receiver_op: u64,
        /// Our send, and the user buffer that has the data.
        op: OpId,
        /// Where the data begins in the packed message, in bytes.
        offset: u64,
        /// Bytes of data.
        len: u64,
    },
    /// Read the first `size` bytes of a message from the peer's memory into the buffer of `op`.
    ///
    /// The caller reads in parts. Before each it asks [`crate::Engine::bulk_wanted`], since the data may be no longer
    /// wanted. After each it calls [`crate::Engine::on_bulk`], or [`crate::Engine::ask_for_rest`] if it cannot read.
    Get {
        /// From this peer.
        peer: PeerId,
        /// The peer's send.
        sender_op: u64,
        /// Our receive.
        op: OpId,
        /// The pieces that hold the data, in packed order: address and length of each.
        pieces: Vec<(u64, u64)>,
        /// Bytes to read.
        size: u64,
    },
    /// A receive has matched a message with a note. It comes before the outcome of the receive.
    Noted {
        /// The sender.
        peer: PeerId,
        /// The receive.
        op: OpId,
        /// The note, as the sender gave it.
        note: Vec<u8>,
    },
    /// A message has come whole while messages are logged ([`crate::Engine::log`]).
    Logged {
        /// The sender.
        peer: PeerId,
        /// The message.
        kept: Box<Kept>,
    },
    /// As [`Output::Logged`]; the message is in the buffer of a receive ([`crate::Engine::whole`]), before the program has
    /// it.
    Whole {
        /// The sender.
        peer: PeerId,
        /// The receive.
        op: OpId,
    },
    /// A receive from any source has got a message, while messages are logged or such receives are limited.
    Chosen {
        /// The sender.
        peer: PeerId,
        /// The receive.
        op: OpId,
        /// The inter-communicator.
        context: ContextId,
        /// The receive's number among those from any source.
        ordinal: u64,
        /// The rank of the sender.
        source: u32,
        /// The number of the message.
        number: u64,
    },
    /// The peer asks whether this process is alive and what it waits for. The answer is [`crate::Engine::tell`].
    Asked {
        /// The peer that asks.
        peer: PeerId,
    },
    /// The answer to [`crate::Engine::ask`].
    Told {
        /// The peer that answers.
        peer: PeerId,
        /// Its answer, at most [`crate::MAX_TOLD`] bytes.
        bytes: Vec<u8>,
    },
    /// A CONTROL message came.
    Control {
        /// The sender.
        peer: PeerId,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Write data of our send to the peer's memory, as it has asked.
    ///
    /// The caller writes in parts, and before each it asks [`crate::Engine::may_put`]. In the end, and also if it cannot write, it calls
    /// [`crate::Engine::put_over`] once: the peer waits for that.
    Put {
        /// To this peer.
        peer: PeerId,
        /// Our send, and the user buffer that has the data.
        op: OpId,
        /// The peer's receive.
        receiver_op: u64,
        /// Where the data begins in the packed message, in bytes.
        offset: u64,
        /// The pieces of the peer's memory, in packed order: address and length of each.
        pieces: Vec<(u64, u64)>,
    },
}

impl Output {
    /// The peer that the output is about.
    pub(crate) fn peer(&self) -> PeerId {
        match self {
            Output::Message { peer, .. }
            | Output::Credit { peer, .. }
            | Output::Bulk { peer, .. }
            | Output::Get { peer, .. }
            | Output::Noted { peer, .. }
            | Output::Logged { peer, .. }
            | Output::Whole { peer, .. }
            | Output::Chosen { peer, .. }
            | Output::Asked { peer }
            | Output::Told { peer, .. }
            | Output::Control { peer, .. }
            | Output::Put { peer, .. } => *peer,
        }
    }
}
