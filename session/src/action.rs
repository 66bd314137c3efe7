//! What a session asks of whoever drives it.

use engine::{OpId, PeerId};
use wire::{Hello, HelloAck, Place, TransportId};

/// A dial at one place; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u32);

/// One who has come and has no lane yet; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitorId(pub u32);

/// A question whether one gets through to a host; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(pub u32);

/// Pairs are named by their numbers, which a driver may keep as long as no [`Action::Dropped`] or later one says otherwise.
#[derive(Debug)]
pub enum Action<L> {
    /// At which places does this transport dial the process of this pair? [`crate::Session::places`] is told.
    Resolve {
        pair: usize,
        transport: TransportId,
        entry: Vec<u8>,
        process: [u8; 16],
        same_host: Option<bool>,
        worked: Option<Place>,
    },
    /// Dial there. What comes of it is told by `dial_greeted`, `dial_answered`, `dial_failed`.
    Dial {
        attempt: AttemptId,
        pair: usize,
        place: Place,
        hello: Box<Hello>,
    },
    /// That dial is not wanted any more.
    Abandon {
        attempt: AttemptId,
    },
    /// Say yes to a visitor; when its lane is there, ask `visitor_ready`.
    Answer {
        visitor: VisitorId,
        pair: usize,
        ack: HelloAck,
    },
    /// Say yes: it becomes one more stream of this pair's lane.
    Join {
        visitor: VisitorId,
        pair: usize,
        number: u16,
        ack: HelloAck,
    },
    /// Say no, and close.
    Refuse {
        visitor: VisitorId,
        ack: HelloAck,
    },
    /// Close, without a word.
    Dismiss {
        visitor: VisitorId,
    },
    /// It has nothing to say before it is answered.
    Pause {
        visitor: VisitorId,
    },
    /// If it has not hung up meanwhile, tell so by `visitor_stands`.
    Ask {
        visitor: VisitorId,
        mute: bool,
    },
    /// Does a connection get through to the place of this entry's process that lies where its lane came from? `probed` is told.
    Probe {
        probe: ProbeId,
        transport: TransportId,
        entry: Vec<u8>,
        seen: Place,
    },
    /// A lane that no pair takes.
    Unused {
        lane: L,
    },
    /// A pair's lane carries nothing any more, as a write has shown: `lane_died` is to be told.
    Died {
        pair: usize,
    },
    /// A pair has a new lane.
    Attached {
        pair: usize,
    },
    /// A lane that a pair had: to be watched no more, and closed.
    Dropped {
        pair: usize,
        lane: L,
    },
    /// What a pair's lane waits for has changed: [`crate::Up::waiting`].
    Rearm {
        pair: usize,
    },
    /// The data of a message lies in the sender's memory, as (address, length) there.
    Get {
        peer: PeerId,
        op: OpId,
        pieces: Vec<(u64, u64)>,
        size: u64,
    },
    /// A message says what its types are.
    Note {
        op: OpId,
        note: Vec<u8>,
    },
    /// A peer asks what this process waits for; and one has answered that.
    Asked {
        peer: PeerId,
    },
    Told {
        peer: PeerId,
        bytes: Vec<u8>,
    },
    /// A process on this host has become known, or how it is reached.
    Neighbours,
}
