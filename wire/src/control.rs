//! An operator's commands to the processes of a job, and their answers, as bytes (docs/protocol.md, "Control").
//!
//! The command, the nodes and the tree between them use this. Invariants: decoding is strict, takes memory for bytes that are
//! there and for no number alone, and refuses what is beyond the limits; encoding cuts texts and lists to these limits.

use crate::Contact;
use base::bytes::{Malformed, Put, Take};
use base::protocol::control::MAX_NAME;
use base::protocol::operator::{self as numbers, MAX_JOBS, MAX_LINES, MAX_WAITS, MAX_WORD, MAX_WORDS, NONE};

pub use base::protocol::operator::{MAX_ANSWER, MAX_REQUEST};

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
    /// The figures of a process that finalizes: its rank, and its report. For the leader.
    Sum(u32, Box<Report>),
    /// The connection is to carry files.
    Files,
}

impl Command {
    /// Whether it changes how the job is connected.
    pub fn changes(&self) -> bool {
        !matches!(self, Command::Lanes | Command::Sum(..) | Command::Files)
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

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What became of the command at each process.
    Outcomes {
        /// It had been given before, and this is what became of it then.
        repeated: bool,
        /// By rank.
        outcomes: Vec<Outcome>,
    },
    /// The process leads no job of that name, or is not the process that was addressed.
    NoSuchJob,
    /// Another command that changes something is under way.
    Busy,
    /// The request cannot be read.
    Malformed,
}

/// What became of a command at one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its rank in the group.
    pub rank: u32,
    /// What became of the command.
    pub what: What,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It is done; the text says how, or is empty.
    Done(String),
    /// The figures.
    Report(Box<Report>),
    /// It is not done, for this reason.
    Refused(String),
    /// The process has not answered in time.
    NotAnswering,
    /// There is no such process any more, for this reason.
    Dead(String),
    /// A later command came first.
    Overtaken,
    /// It has begun, and goes on.
    UnderWay,
    /// The process has no pair of those that were meant.
    NoPair,
}

/// The figures of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of the process on its host.
    pub pid: u32,
    /// The name of its host.
    pub host: String,
    /// Microseconds since it began to use the library.
    pub at: u64,
    /// Microseconds that its calls have waited for other jobs.
    pub waited: u64,
    /// Whether it is held, or about to be.
    pub held: bool,
    /// The calls that wait.
    pub waits: Vec<Wait>,
    /// The other jobs.
    pub jobs: Vec<Job>,
    /// The pairs with the most traffic.
    pub pairs: Vec<Pair>,
    /// How many pairs are left off.
    pub left_off: u32,
}

/// A call that waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Microseconds since it began to wait.
    pub since: u64,
    /// The MPI function.
    pub call: String,
    /// What it waits for, in words.
    pub what: String,
    /// The processes for which it waits: the incarnation of the job, and the rank.
    pub peers: Vec<(u64, u32)>,
}

/// Another job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Its incarnation.
    pub incarnation: u64,
    /// Microseconds that calls have waited for it.
    pub waited: u64,
    /// Its name.
    pub name: String,
    /// What was carried by each transport.
    pub carried: Vec<Carried>,
}

/// What one transport has carried between two jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// The transport.
    pub transport: String,
    /// Pairs that use it now.
    pub pairs: u32,
    /// From this process.
    pub sent: Flow,
    /// To this process.
    pub received: Flow,
}

/// A pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pair {
    /// The incarnation of the other job.
    pub incarnation: u64,
    /// The rank there.
    pub rank: u32,
    /// Messages that no receive has matched.
    pub unexpected: u32,
    /// Receives that wait for a message from it.
    pub posted: u32,
    /// Receives that wait for a message from anyone, in inter-communicators of which it is the first process.
    pub from_any: u32,
    /// The round trip in microseconds.
    pub round_trip: Option<u32>,
    /// Microseconds that calls have waited for it alone.
    pub waited: u64,
    /// From this process.
    pub sent: Flow,
    /// To this process.
    pub received: Flow,
    /// The transport; empty: not connected.
    pub transport: String,
    /// Why it is not connected, or no better transport is used.
    pub why: String,
}

/// Messages of one direction, and the bytes of their data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Messages.
    pub messages: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

/// The length of the message that begins so, without these bytes.
pub fn length(head: [u8; numbers::message::BYTES], most: usize) -> Result<usize, Malformed> {
    let len = u32::from_le_bytes(head) as usize;
    if len > most { Err(Malformed) } else { Ok(len) }
}

/// A body with its length in front, as it is sent.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers::message::BYTES + body.len());
    out.put_bytes(body);
    out
}

// ---- texts and lists

/// Appends a text, or the beginning of it.
fn put_text(out: &mut Vec<u8>, text: &str, most: usize) {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    out.put_bytes(&text.as_bytes()[..end.unwrap_or(0)]);
}

fn flag(from: &mut Take<'_>) -> Result<bool, Malformed> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn text(from: &mut Take<'_>, most: usize) -> Result<String, Malformed> {
    std::str::from_utf8(from.bytes(most)?).map(str::to_owned).map_err(|_| Malformed)
}

/// Appends how many there are, at most so many, and each.
fn put_list<T>(out: &mut Vec<u8>, all: &[T], most: usize, put: impl Fn(&mut Vec<u8>, &T)) {
    let all = &all[..all.len().min(most)];
    out.put_u32(all.len() as u32);
    all.iter().for_each(|one| put(out, one));
}

fn list<T>(
    from: &mut Take<'_>,
    most: usize,
    read: impl Fn(&mut Take<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let n = from.u32()? as usize;
    if n > most {
        return Err(Malformed);
    }
    // It grows with what is there.
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(read(from)?);
    }
    Ok(all)
}

fn put_rank(out: &mut Vec<u8>, rank: Option<u32>) {
    out.put_u32(rank.unwrap_or(NONE));
}

fn rank(from: &mut Take<'_>) -> Result<Option<u32>, Malformed> {
    Ok(Some(from.u32()?).filter(|rank| *rank != NONE))
}

fn whole<T>(bytes: &[u8], read: impl Fn(&mut Take<'_>) -> Result<T, Malformed>) -> Result<T, Malformed> {
    let mut from = Take(bytes);
    let value = read(&mut from)?;
    from.end()?;
    Ok(value)
}

// ---- requests

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
            _ => return Err(Malformed),
        })
    }
}

// ---- answers

impl Answer {
    /// The body of the answer. If it is too long, the lists of pairs are left off, the longest first.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Answer::Outcomes { repeated, outcomes } => {
                out.put_u8(numbers::OUTCOMES);
                out.put_u8((*repeated).into());
                put_list(&mut out, outcomes, usize::MAX, |out, outcome| outcome.encode(out));
                if out.len() > MAX_ANSWER {
                    return self.shorter().encode();
                }
            }
            Answer::NoSuchJob => out.put_u8(numbers::NO_SUCH_JOB),
            Answer::Busy => out.put_u8(numbers::BUSY),
            Answer::Malformed => out.put_u8(numbers::MALFORMED),
        }
        out
    }

    /// With half of the pairs in each report or, where no report has any, with half of the jobs and no texts.
    fn shorter(&self) -> Answer {
        let Answer::Outcomes { repeated, outcomes } = self else { return self.clone() };
        let mut outcomes = outcomes.clone();
        let mut reports: Vec<&mut Report> = outcomes
            .iter_mut()
            .filter_map(|outcome| match &mut outcome.what {
                What::Report(report) => Some(&mut **report),
                _ => None,
            })
            .collect();
        let have_pairs = reports.iter().any(|report| !report.pairs.is_empty());
        for report in &mut reports {
            let most = report.pairs.len() / 2;
            report.left_off += (report.pairs.len() - most) as u32;
            report.pairs.truncate(most);
            if !have_pairs {
                report.waits.clear();
                report.jobs.truncate(report.jobs.len() / 2);
            }
        }
        if !have_pairs && reports.iter().all(|report| report.jobs.is_empty()) {
            // No job has so many processes; an answer has room for a million.
            outcomes.truncate(outcomes.len() / 2);
        }
        Answer::Outcomes { repeated: *repeated, outcomes }
    }

    /// The answer of this body.
    pub fn decode(body: &[u8]) -> Result<Answer, Malformed> {
        whole(body, |from| {
            Ok(match from.u8()? {
                numbers::OUTCOMES => {
                    Answer::Outcomes { repeated: flag(from)?, outcomes: list(from, MAX_ANSWER, Outcome::decode)? }
                }
                numbers::NO_SUCH_JOB => Answer::NoSuchJob,
                numbers::BUSY => Answer::Busy,
                numbers::MALFORMED => Answer::Malformed,
                _ => return Err(Malformed),
            })
        })
    }
}

impl Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.rank);
        match &self.what {
            What::Done(how) => {
                out.put_u8(numbers::DONE);
                put_text(out, how, MAX_WORDS);
            }
            What::Report(report) => {
                out.put_u8(numbers::REPORT);
                report.encode(out);
            }
            What::Refused(why) => {
                out.put_u8(numbers::REFUSED);
                put_text(out, why, MAX_WORDS);
            }
            What::NotAnswering => out.put_u8(numbers::NOT_ANSWERING),
            What::Dead(why) => {
                out.put_u8(numbers::DEAD);
                put_text(out, why, MAX_WORDS);
            }
            What::Overtaken => out.put_u8(numbers::OVERTAKEN),
            What::UnderWay => out.put_u8(numbers::UNDER_WAY),
            What::NoPair => out.put_u8(numbers::NO_PAIR),
        }
    }

    fn decode(from: &mut Take<'_>) -> Result<Outcome, Malformed> {
        let rank = from.u32()?;
        let what = match from.u8()? {
            numbers::DONE => What::Done(text(from, MAX_WORDS)?),
            numbers::REPORT => What::Report(Box::new(Report::decode(from)?)),
            numbers::REFUSED => What::Refused(text(from, MAX_WORDS)?),
            numbers::NOT_ANSWERING => What::NotAnswering,
            numbers::DEAD => What::Dead(text(from, MAX_WORDS)?),
            numbers::OVERTAKEN => What::Overtaken,
            numbers::UNDER_WAY => What::UnderWay,
            numbers::NO_PAIR => What::NoPair,
            _ => return Err(Malformed),
        };
        Ok(Outcome { rank, what })
    }
}

// ---- reports

impl Report {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u64(self.at);
        out.put_u64(self.waited);
        out.put_u8(self.held.into());
        put_text(out, &self.host, MAX_NAME);
        put_list(out, &self.waits, MAX_WAITS, |out, wait| wait.encode(out));
        put_list(out, &self.jobs, MAX_JOBS, |out, job| job.encode(out));
        put_list(out, &self.pairs, MAX_LINES, |out, pair| pair.encode(out));
        out.put_u32(self.left_off.saturating_add(self.pairs.len().saturating_sub(MAX_LINES) as u32));
    }

    fn decode(from: &mut Take<'_>) -> Result<Report, Malformed> {
        Ok(Report {
            pid: from.u32()?,
            at: from.u64()?,
            waited: from.u64()?,
            held: flag(from)?,
            host: text(from, MAX_NAME)?,
            waits: list(from, MAX_WAITS, Wait::decode)?,
            jobs: list(from, MAX_JOBS, Job::decode)?,
            pairs: list(from, MAX_LINES, Pair::decode)?,
            left_off: from.u32()?,
        })
    }
}

impl Wait {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.since);
        put_text(out, &self.call, MAX_WORDS);
        put_text(out, &self.what, MAX_WORDS);
        put_list(out, &self.peers, MAX_WAITS, |out, (incarnation, rank)| {
            out.put_u64(*incarnation);
            out.put_u32(*rank);
        });
    }

    fn decode(from: &mut Take<'_>) -> Result<Wait, Malformed> {
        Ok(Wait {
            since: from.u64()?,
            call: text(from, MAX_WORDS)?,
            what: text(from, MAX_WORDS)?,
            peers: list(from, MAX_WAITS, |from| Ok((from.u64()?, from.u32()?)))?,
        })
    }
}

impl Job {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.incarnation);
        out.put_u64(self.waited);
        put_text(out, &self.name, MAX_NAME);
        put_list(out, &self.carried, MAX_WORD, |out, carried| {
            put_text(out, &carried.transport, MAX_WORD);
            out.put_u32(carried.pairs);
            carried.sent.encode(out);
            carried.received.encode(out);
        });
    }

    fn decode(from: &mut Take<'_>) -> Result<Job, Malformed> {
        let carried = |from: &mut Take<'_>| {
            Ok(Carried {
                transport: text(from, MAX_WORD)?,
                pairs: from.u32()?,
                sent: Flow::decode(from)?,
                received: Flow::decode(from)?,
            })
        };
        Ok(Job {
            incarnation: from.u64()?,
            waited: from.u64()?,
            name: text(from, MAX_NAME)?,
            carried: list(from, MAX_WORD, carried)?,
        })
    }
}

impl Pair {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.incarnation);
        out.put_u32(self.rank);
        out.put_u32(self.unexpected);
        out.put_u32(self.posted);
        out.put_u32(self.from_any);
        out.put_u32(self.round_trip.unwrap_or(NONE));
        out.put_u64(self.waited);
        self.sent.encode(out);
        self.received.encode(out);
        put_text(out, &self.transport, MAX_WORD);
        put_text(out, &self.why, MAX_WORDS);
    }

    fn decode(from: &mut Take<'_>) -> Result<Pair, Malformed> {
        Ok(Pair {
            incarnation: from.u64()?,
            rank: from.u32()?,
            unexpected: from.u32()?,
            posted: from.u32()?,
            from_any: from.u32()?,
            round_trip: rank(from)?,
            waited: from.u64()?,
            sent: Flow::decode(from)?,
            received: Flow::decode(from)?,
            transport: text(from, MAX_WORD)?,
            why: text(from, MAX_WORDS)?,
        })
    }
}

impl Flow {
    fn encode(self, out: &mut Vec<u8>) {
        out.put_u64(self.messages);
        out.put_u64(self.bytes);
    }

    fn decode(from: &mut Take<'_>) -> Result<Flow, Malformed> {
        Ok(Flow { messages: from.u64()?, bytes: from.u64()? })
    }
}

#[cfg(test)]
mod tests;
