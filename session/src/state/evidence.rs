//! Evidence of life and death of a process, and the reasons why dials fail.

use base::Time;
use std::fmt;
use std::io::{self, ErrorKind};
use wire::{HelloAck, Place, Status};

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No process listens at the place.
    Refused,
    /// The kernel of its host has said to who passes on that the process has ended.
    Ended,
    /// Who passes on does not know the process, or there is nobody any more on its host who could, in these words.
    Unknown(String),
    /// Another process listens at the place.
    NoSuchProcess,
    /// The right process answers that it is no member of that group any more.
    NoMember,
    /// The process answers that the cookie is wrong.
    BadCookie,
    /// The process speaks this other version of the protocol.
    OtherVersion(u16),
    /// The other side keeps its own dial or lane, and has used generations up to this.
    Better(u16),
    /// The other side does not know us yet, and has no place for another stranger now.
    Later,
    /// The answer was not of this protocol, or the connection was closed before it.
    Foreign,
    /// One side does not trust the other, for this reason.
    Untrusted(String),
    /// No answer came in time.
    TimedOut,
    /// Any other error, in the system's words.
    System(String),
}

impl Refusal {
    pub(crate) fn of_error(e: &io::Error) -> Refusal {
        match e.kind() {
            ErrorKind::ConnectionRefused => Refusal::Refused,
            ErrorKind::NotFound if e.get_ref().is_some() => Refusal::Ended,
            ErrorKind::AddrNotAvailable if e.get_ref().is_some() => Refusal::Unknown(e.to_string()),
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => Refusal::Foreign,
            ErrorKind::TimedOut => Refusal::TimedOut,
            // What the system says has no reason of ours in it.
            ErrorKind::PermissionDenied if e.get_ref().is_some() => Refusal::Untrusted(e.to_string()),
            _ => Refusal::System(e.to_string()),
        }
    }

    /// The refusal in an answer; `None` if the dial was accepted. `process` is the process that should answer, if it is
    /// known.
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

    /// Whether the process itself says that it has left, or that it is another one.
    pub(crate) fn is_its_own(&self) -> bool {
        matches!(self, Refusal::NoMember | Refusal::BadCookie)
    }

    /// Whether a place is tried again while other places are still silent: a link may have come back.
    pub(crate) fn may_pass(&self) -> bool {
        use Refusal::{Ended, Foreign, Refused, System, TimedOut, Unknown};
        matches!(self, Refused | Ended | Unknown(_) | Foreign | TimedOut | System(_))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Refused => f.write_str("refused"),
            Refusal::Ended => f.write_str("it has ended, as its host says"),
            Refusal::NoSuchProcess => f.write_str("another process answers"),
            Refusal::NoMember => f.write_str("it has left that group"),
            Refusal::BadCookie => f.write_str("cookie not accepted"),
            Refusal::OtherVersion(v) => write!(f, "another version of the protocol, {v}"),
            Refusal::Better(_) => f.write_str("dialling itself"),
            Refusal::Later => f.write_str("held, or without a place yet for those that it does not know"),
            Refusal::Foreign => f.write_str("another protocol is spoken there"),
            Refusal::TimedOut => f.write_str("no answer in time"),
            Refusal::Unknown(e) | Refusal::Untrusted(e) | Refusal::System(e) => f.write_str(e),
        }
    }
}

/// How strongly failed dials say that a process is gone; the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// They say nothing.
    None,
    /// The process had dialled us, has closed its connection, and does not dial again, though it would if it lived; or its connection by who
    /// passes on was closed, and that one knows it no more.
    Absent,
    /// The host that the process came from refuses: the process is gone, or a firewall stops us.
    Refused,
    /// The process is gone.
    Certain,
}

/// What was observed of a process. Its fields are one thing, since only all of them together say whether the process lives.
#[derive(Default)]
pub(crate) struct Evidence {
    /// Failed dials, and lanes that brought nothing, in a row.
    pub tries: u32,
    /// Why the last dial failed, for people.
    pub trouble: String,
    /// Since when an address that is known to be of its host refuses, or the process itself says that it has left.
    pub refused: Option<Time>,
    /// The version of the protocol that it speaks, if that is not ours.
    pub other_version: Option<u16>,
    /// Why one side does not trust the other, if that is so.
    pub untrusted: Option<String>,
    /// No process listens at its place for processes of this host.
    pub not_on_host: bool,
    /// It has had a lane.
    pub met: bool,
    /// It has had a lane of a transport that reaches this host alone.
    pub met_on_host: bool,
    /// Our side was held since it was last met: it may have opened other listeners meanwhile, and closed all that we know.
    pub is_old: bool,
    /// The place at which it last answered a dial of ours.
    pub worked: Option<Place>,
    /// The other end of its last lane of a transport that reaches other hosts.
    pub seen_at: Option<Place>,
    /// Lanes in a row that were lost to malformed input, while no first-class body got through.
    pub nonsense: u8,
    /// How many first-class bodies had got through at the last such loss.
    pub got_through: u64,
    /// The greatest generation that the other side has named in a refusal.
    pub seen_generation: u16,
    /// It has said that it goes away, and comes back by itself.
    pub away: bool,
    /// Since when it was missed first after that.
    pub away_since: Option<Time>,
    /// It has a port open, so a refusal at each of its addresses says that it is gone, until it has had a lane.
    pub at_port: bool,
}
