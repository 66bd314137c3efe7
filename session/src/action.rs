//! The actions that a session asks its driver to take.

use base::ProcId;
use engine::{ContextId, Kept, OpId, PeerId};
use wire::{Hello, HelloAck, Place, TransportId};

/// The number of one attempt to dial one place. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u32);

/// The number of an accepted connection that has no lane yet. It is never used again while the connection is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncomingId(pub u32);

/// The number of one probe: a test whether a connection to another host gets through. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(pub u32);

/// What the session asks its driver to do. `L` is the type of the lanes.
///
/// A pair is named by its number. The driver may keep the number until [`Action::Dropped`] or a later action about the pair
/// says otherwise.
#[derive(Debug)]
pub enum Action<L> {
    /// Ask the transport at which places it dials the process of this pair, and report them to [`crate::Session::places`].
    Resolve {
        /// The pair's number.
        pair: usize,
        /// The transport to ask.
        transport: TransportId,
        /// The transport's entry in the contact record; empty if the record has none.
        entry: Vec<u8>,
        /// The process number in the contact record; zeros if it is not known.
        process: [u8; 16],
        /// Whether the process runs on this host; `None` if the host of either is not known.
        same_host: Option<bool>,
        /// The place at which this transport last reached the process.
        worked: Option<Place>,
    },
    /// Dial a place. The driver reports progress to [`crate::Session::dial_greeted`], [`crate::Session::dial_answered`] or
    /// [`crate::Session::dial_failed`].
    Dial {
        /// The attempt's number, for the reports.
        attempt: AttemptId,
        /// The number of the pair that is to get a lane.
        pair: usize,
        /// Where to dial, and by which transport.
        place: Place,
        /// The HELLO to send first.
        hello: Box<Hello>,
    },
    /// Give up an attempt: its result is not needed any more.
    Abandon {
        /// The attempt's number.
        attempt: AttemptId,
    },
    /// Accept an incoming connection. When its lane can be made, the driver calls [`crate::Session::incoming_ready`].
    Answer {
        /// The connection's number.
        incoming: IncomingId,
        /// The number of the pair that is to get a lane.
        pair: usize,
        /// The HELLO-ACK to send.
        ack: HelloAck,
    },
    /// Accept an incoming connection as one more stripe of the pair's lane.
    Join {
        /// The connection's number.
        incoming: IncomingId,
        /// The number of the pair whose lane gets the stripe.
        pair: usize,
        /// The stripe's number, from 1.
        number: u16,
        /// The HELLO-ACK to send.
        ack: HelloAck,
    },
    /// Refuse an incoming connection: send the answer, then close.
    Refuse {
        /// The connection's number.
        incoming: IncomingId,
        /// The HELLO-ACK to send, with the reason.
        ack: HelloAck,
    },
    /// Close an incoming connection without an answer.
    Dismiss {
        /// The connection's number.
        incoming: IncomingId,
    },
    /// Stop reading an incoming connection until it is asked or answered. The other side has nothing to say before.
    Pause {
        /// The connection's number.
        incoming: IncomingId,
    },
    /// Look whether an incoming connection was closed by the other side. If it is still open, the driver calls
    /// [`crate::Session::incoming_stands`], otherwise [`crate::Session::incoming_left`].
    Ask {
        /// The connection's number.
        incoming: IncomingId,
        /// To be handed back to [`crate::Session::incoming_stands`]: the pair's lane was asked and did not answer.
        mute: bool,
    },
    /// Test whether a connection gets through to a process whose lane came from `seen`, and report to
    /// [`crate::Session::probed`]. The place to probe is the one of the process's entry that is on the host of `seen`.
    Probe {
        /// The probe's number.
        probe: ProbeId,
        /// The transport that makes the connection.
        transport: TransportId,
        /// The transport's entry in the contact record of the process.
        entry: Vec<u8>,
        /// Where the other end of the process's lane is.
        seen: Place,
    },
    /// Close a lane that no pair takes.
    Unused {
        /// The lane.
        lane: L,
    },
    /// Report the death of a pair's lane to [`crate::Session::lane_died`]: a write has failed, and no event may follow.
    Died {
        /// The pair's number.
        pair: usize,
    },
    /// A pair has a new lane: watch it.
    Attached {
        /// The pair's number.
        pair: usize,
    },
    /// A pair has left its lane for another one. Of the lane that it has left only what comes is read, until it is dropped:
    /// end the pulls that go over it.
    Left {
        /// The pair's number.
        pair: usize,
    },
    /// A pair has lost its lane, or a lane that it has left is read to its end: stop watching it, and close it.
    Dropped {
        /// The pair's number.
        pair: usize,
        /// The lane.
        lane: L,
        /// The pair had left it: [`Action::Left`] came before.
        left: bool,
    },
    /// Watch a pair's lane anew, since [`crate::Up::waiting`] has changed.
    Rearm {
        /// The pair's number.
        pair: usize,
    },
    /// Pull the data of a message out of the sender's memory.
    Get {
        /// The sender.
        peer: PeerId,
        /// The receive.
        op: OpId,
        /// Where the data lies: address in the sender's process, and length in bytes.
        pieces: Vec<(u64, u64)>,
        /// The size of the data in bytes.
        size: u64,
    },
    /// Put data of a send into the receiver's memory, as [`engine::Output::Put`] says, and answer for it.
    Put {
        /// The receiver.
        peer: PeerId,
        /// The send.
        op: OpId,
        /// The receive.
        receiver_op: u64,
        /// Where the data begins in the packed message, in bytes.
        offset: u64,
        /// Where it goes: address in the receiver's process, and length in bytes.
        pieces: Vec<(u64, u64)>,
    },
    /// Compare the types of a message with those of its receive.
    Note {
        /// The receive.
        op: OpId,
        /// The types as the sender describes them.
        note: Vec<u8>,
    },
    /// Write a message to the image of a checkpoint, before the program has it.
    Log {
        /// The pair that it came from.
        pair: usize,
        /// The message.
        kept: Box<Kept>,
    },
    /// A receive from any source has got a message, which a restarted process is to get too.
    Chosen {
        /// The pair that the message came from.
        pair: usize,
        /// The inter-communicator.
        context: ContextId,
        /// The receive's number among those from any source.
        ordinal: u64,
        /// The rank of the sender.
        source: u32,
        /// The number of the message.
        number: u64,
    },
    /// Another process has told something of checkpoints.
    OfCheckpoints {
        /// Our process.
        local: ProcId,
        /// The other one.
        remote: ProcId,
        /// What it has told, which may hold anything.
        bytes: Vec<u8>,
        /// It may be another process than it says: then it is told again once it is known.
        is_stranger: bool,
    },
    /// Tell a peer what this process waits for: the peer has asked.
    Asked {
        /// The peer that asked.
        peer: PeerId,
    },
    /// A peer has told what it waits for.
    Told {
        /// The peer that answered.
        peer: PeerId,
        /// Its text, which may hold anything.
        bytes: Vec<u8>,
    },
}
