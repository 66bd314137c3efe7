//! What was seen of a process, good and bad, and why dials fail.

use base::Time;
use std::fmt;
use std::io::{self, ErrorKind};
use wire::{HelloAck, Place, Status};

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody listens there.
    Refused,
    /// Somebody else listens there.
    NoSuchProcess,
    /// The right process itself says that it has no such member.
    NoMember,
    BadCookie,
    /// It speaks this version of the protocol.
    OtherVersion(u16),
    /// The other side's own dial stands; its lane's generation.
    Better(u16),
    /// It knows nothing of us yet, and has no place for more such.
    Later,
    /// Answered with something that is not this protocol, or hung up.
    Foreign,
    TimedOut,
    /// What else the system said.
    System(String),
}

impl Refusal {
    pub(crate) fn of_error(e: &io::Error) -> Refusal {
        match e.kind() {
            ErrorKind::ConnectionRefused => Refusal::Refused,
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => Refusal::Foreign,
            ErrorKind::TimedOut => Refusal::TimedOut,
            _ => Refusal::System(e.to_string()),
        }
    }

    /// What an answer says, where `process` must answer; `None`: yes.
    pub(crate) fn of_answer(ack: &HelloAck, process: Option<[u8; 16]>) -> Option<Refusal> {
        Some(match ack.status {
            Status::Good if process.is_none_or(|p| p == ack.process) => return None,
            Status::NoSuchProcess if process == Some(ack.process) => Refusal::NoMember,
            Status::BadCookie if process.is_none_or(|p| p == ack.process) => Refusal::BadCookie,
            Status::Good | Status::NoSuchProcess | Status::BadCookie => Refusal::NoSuchProcess,
            Status::OtherVersion => Refusal::OtherVersion(ack.generation),
            Status::BetterConnection => Refusal::Better(ack.generation),
            Status::Later => Refusal::Later,
        })
    }

    /// Whether it is worth another try while others are awaited: a link may have come back.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Refusal::Refused | Refusal::Foreign | Refusal::TimedOut | Refusal::System(_))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Refused => f.write_str("refused"),
            Refusal::NoSuchProcess => f.write_str("another process answers"),
            Refusal::NoMember => f.write_str("it has left that group"),
            Refusal::BadCookie => f.write_str("cookie not accepted"),
            Refusal::OtherVersion(v) => write!(f, "speaks version {v} of the protocol"),
            Refusal::Better(_) => f.write_str("is dialling itself"),
            Refusal::Later => f.write_str("has no place for those whom it does not know yet"),
            Refusal::Foreign => f.write_str("does not speak this protocol"),
            Refusal::TimedOut => f.write_str("no answer in time"),
            Refusal::System(e) => f.write_str(e),
        }
    }
}

/// What a failed dial says about whether the process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    None,
    /// It had come to us, has closed the connection, and does not come again, though it would if it lived.
    Absent,
    /// It has come from there, and is refused there: it is gone, or a firewall lets nobody in.
    Refused,
    Certain,
}

/// What was seen of a process, good and bad. One thing, since only together it says whether the process lives.
#[derive(Default)]
pub(crate) struct Evidence {
    /// Failed dials, and lanes that brought nothing, in a row.
    pub tries: u32,
    /// Why the last dial came to nothing.
    pub trouble: String,
    /// Since when an address that is known to be its host's refuses, or it says itself that it is not there.
    pub refused: Option<Time>,
    /// It speaks this version of the protocol, which is not ours.
    pub other_version: Option<u16>,
    /// Nobody listens where processes of this host come to it.
    pub not_on_host: bool,
    /// It has had a lane; and one of a transport for this host alone.
    pub met: bool,
    pub met_on_host: bool,
    /// Where it answered last.
    pub worked: Option<Place>,
    /// Where its last lane from another host, or that might be, ended.
    pub seen_at: Option<Place>,
    /// Lanes lost to malformed input, one after the other, with nothing got through since; and how much had.
    pub nonsense: u8,
    pub got_through: u64,
    /// The other side has used generations up to this.
    pub seen_generation: u16,
    /// It has a port open. Until it is met, a refusal at each of its addresses says that it is not there.
    pub at_port: bool,
}
