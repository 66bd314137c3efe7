//! What an operator, or another process of the job, asks: see [`super`].

use super::{Report, flag, list, put_list, put_rank, put_text, rank, text, whole};
use crate::Contact;
use base::bytes::{Malformed, Put, Take};
use base::protocol::control::MAX_NAME;
use base::protocol::operator::{self as numbers, MAX_REQUEST, MAX_WORD};

/// The number of a command.
pub type Id = [u8; 16];
/// What the leader of a job draws, and tells its members alone: whoever says it is one of them.
pub type JobSecret = [u8; 16];

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The number of the command: it is done once, however often it comes.
    pub id: Id,
    /// The order in which the leader gives commands that change something; 0 of an operator.
    pub serial: u64,
    /// Milliseconds within which the answer is wanted.
    pub limit: u32,
    /// Who is addressed.
    pub to: Addressee,
    /// What is to be done.
    pub command: Command,
    /// The processes to which the addressee passes the command on.
    pub members: Vec<Member>,
}

/// Who is addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addressee {
    /// The leader of the job of this name.
    Named(String),
    /// A process of a job: the incarnation of its group, and its rank. For files, and the figures at the end.
    Member(u64, u32),
    /// The same, by another process of its job, which says the secret: for all other commands.
    Passed(u64, u32, JobSecret),
}

/// A process to which a command is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its rank in the group.
    pub rank: u32,
    /// How it is reached.
    pub contact: Contact,
}

/// What is to be done. Transports are named as in `MPI_CONNECT_LANES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Report all figures.
    Lanes,
    /// Move pairs to a transport.
    Switch {
        /// The transport.
        transport: String,
        /// Pairs with this other job alone; `None`: all.
        peer: Option<String>,
        /// Pairs of this rank of the job alone.
        rank: Option<u32>,
        /// Pairs with this rank of the other job alone.
        peer_rank: Option<u32>,
    },
    /// Leave no connection to other jobs.
    Hold,
    /// Connect again.
    Resume,
    /// Use this transport no more, and unload it.
    StopUsing(String),
    /// Use this transport again.
    Use(String),
    /// Wait no longer for processes of this other job that were held: they are judged as if they had not been.
    GiveUp(String),
    /// The figures of a process that has begun to finalize: its rank, and its report. For the leader.
    Sum(u32, Box<Report>),
    /// The process of this rank has ended its part in MPI_Finalize; and its last figures. For the leader.
    Left(u32, Option<Box<Report>>),
    /// The connection is to carry files.
    Files,
}

impl Command {
    /// Whether it changes how the job is connected.
    pub fn changes(&self) -> bool {
        !matches!(self, Command::Lanes | Command::Sum(..) | Command::Left(..) | Command::Files)
    }

    /// Whether nothing is left of an earlier command once this one is done.
    pub fn replaces(&self, earlier: &Command) -> bool {
        use Command::{GiveUp, Hold, Resume, StopUsing, Switch, Use};
        match (self, earlier) {
            (Hold | Resume, Hold | Resume) => true,
            (StopUsing(this) | Use(this), StopUsing(that) | Use(that)) => this == that,
            (GiveUp(this), GiveUp(that)) => this == that,
            (
                Switch { peer, rank, peer_rank, .. },
                Switch { peer: of_peer, rank: of_rank, peer_rank: of_peer_rank, .. },
            ) => (peer, rank, peer_rank) == (of_peer, of_rank, of_peer_rank),
            _ => false,
        }
    }
}

impl Request {
    /// The body of the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.id);
        out.put_u64(self.serial);
        out.put_u32(self.limit);
        match &self.to {
            Addressee::Named(name) => {
                out.put_u8(numbers::NAMED);
                put_text(&mut out, name, MAX_NAME);
            }
            Addressee::Member(incarnation, rank) => {
                out.put_u8(numbers::MEMBER);
                out.put_u64(*incarnation);
                out.put_u32(*rank);
            }
            Addressee::Passed(incarnation, rank, secret) => {
                out.put_u8(numbers::PASSED);
                out.put_u64(*incarnation);
                out.put_u32(*rank);
                out.extend_from_slice(secret);
            }
        }
        self.command.encode(&mut out);
        put_list(&mut out, &self.members, usize::MAX, |out, member| {
            out.put_u32(member.rank);
            member.contact.encode(out);
        });
        out
    }

    /// The request of this body.
    pub fn decode(body: &[u8]) -> Result<Request, Malformed> {
        whole(body, |from| {
            let (id, serial, limit) = (from.array()?, from.u64()?, from.u32()?);
            let to = match from.u8()? {
                numbers::NAMED => Addressee::Named(text(from, MAX_NAME)?),
                numbers::MEMBER => Addressee::Member(from.u64()?, from.u32()?),
                numbers::PASSED => Addressee::Passed(from.u64()?, from.u32()?, from.array()?),
                _ => return Err(Malformed),
            };
            let command = Command::decode(from)?;
            let member = |from: &mut Take<'_>| Ok(Member { rank: from.u32()?, contact: Contact::decode(from)? });
            Ok(Request { id, serial, limit, to, command, members: list(from, MAX_REQUEST, member)? })
        })
    }
}

impl Command {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Command::Lanes => out.put_u8(numbers::LANES),
            Command::Switch { transport, peer, rank, peer_rank } => {
                out.put_u8(numbers::SWITCH);
                put_text(out, transport, MAX_WORD);
                put_text(out, peer.as_deref().unwrap_or_default(), MAX_NAME);
                put_rank(out, *rank);
                put_rank(out, *peer_rank);
            }
            Command::Hold => out.put_u8(numbers::HOLD),
            Command::Resume => out.put_u8(numbers::RESUME),
            Command::StopUsing(transport) => {
                out.put_u8(numbers::STOP_USING);
                put_text(out, transport, MAX_WORD);
            }
            Command::Use(transport) => {
                out.put_u8(numbers::USE);
                put_text(out, transport, MAX_WORD);
            }
            Command::GiveUp(job) => {
                out.put_u8(numbers::GIVE_UP);
                put_text(out, job, MAX_NAME);
            }
            Command::Sum(rank, report) => {
                out.put_u8(numbers::SUM);
                out.put_u32(*rank);
                report.encode(out);
            }
            Command::Left(rank, report) => {
                out.put_u8(numbers::LEFT);
                out.put_u32(*rank);
                out.put_u8(report.is_some().into());
                if let Some(report) = report {
                    report.encode(out);
                }
            }
            Command::Files => out.put_u8(numbers::FILES),
        }
    }

    fn decode(from: &mut Take<'_>) -> Result<Command, Malformed> {
        Ok(match from.u8()? {
            numbers::LANES => Command::Lanes,
            numbers::SWITCH => Command::Switch {
                transport: text(from, MAX_WORD)?,
                peer: Some(text(from, MAX_NAME)?).filter(|name| !name.is_empty()),
                rank: rank(from)?,
                peer_rank: rank(from)?,
            },
            numbers::HOLD => Command::Hold,
            numbers::RESUME => Command::Resume,
            numbers::STOP_USING => Command::StopUsing(text(from, MAX_WORD)?),
            numbers::USE => Command::Use(text(from, MAX_WORD)?),
            numbers::GIVE_UP => Command::GiveUp(text(from, MAX_NAME)?),
            numbers::FILES => Command::Files,
            numbers::SUM => Command::Sum(from.u32()?, Box::new(Report::decode(from)?)),
            numbers::LEFT => {
                let (rank, has_report) = (from.u32()?, flag(from)?);
                Command::Left(rank, has_report.then(|| Report::decode(from).map(Box::new)).transpose()?)
            }
            _ => return Err(Malformed),
        })
    }
}
