//! The way to a job: its leader is found by the job's name, and is given commands.
//!
//! Invariant: a command is sent again under the same number when its connection is lost, or others are under way, so it is done once.

use super::figures::Sample;
use super::words::silence;
use crate::key::KeyOption;
use crate::names;
use crate::signals;
use base::bytes::Take;
use base::ident::random;
use naming::{Kind, LookupError, Naming, OpenError, Record, State, StoreError};
use nix::sys::signal::Signal;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transports::control::{ControlStream, sleep};
use transports::registry::{Commanding, Heard, Unheard, command, host};
use trust::{FileError, Trust};
use wire::Contact;
use wire::control::{Addressee, Answer, Command, MAX_ANSWER, Outcome, Request};

/// How long to wait if the user does not say it: a hold and a move may take 10 s.
const TO_LOOK: Duration = Duration::from_secs(5);
const TO_CHANGE: Duration = Duration::from_secs(15);
/// The part of the time that is left for the leader's answer to come.
const MARGIN: Duration = Duration::from_millis(500);
/// How long to rest before a leader that has closed the connection is dialled again.
const REST: Duration = Duration::from_millis(100);

/// The longest that the command sleeps before it looks at the time.
const SLICE: Duration = Duration::from_millis(50);

/// Which job, and how it is found.
#[derive(clap::Args, Clone)]
pub struct Job {
    /// The name of the job
    #[arg(value_parser = job_name, allow_hyphen_values = true)]
    name: String,
    /// Where its name is, instead of MPI_CONNECT_NAMING or the user's private folder
    #[arg(long, value_name = "URL", global = true)]
    naming: Option<String>,
    #[command(flatten)]
    key: KeyOption,
    /// The run of the job, instead of MPI_CONNECT_RUN
    #[arg(long, value_name = "NAME", global = true)]
    run: Option<String>,
    /// How long to wait for the job's processes [default: 15 for a command that changes something, 5 to look]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, global = true)]
    timeout: Option<f64>,
}

/// The name of a job, as an argument.
fn job_name(text: &str) -> Result<String, String> {
    naming::check_name(text).map(|()| text.to_owned()).map_err(|e| e.to_string())
}

impl Job {
    /// The job of this name.
    pub fn named(name: &str, naming: Option<String>, key: KeyOption, run: Option<String>) -> Result<Job, CtlError> {
        let name = job_name(name).map_err(|why| CtlError::BadName(name.into(), why))?;
        Ok(Job { name, naming, key, run, timeout: None })
    }

    /// Where its name is.
    pub fn store(&self) -> Result<Box<dyn Naming>, CtlError> {
        let url = self.naming.clone().map_or_else(naming::default_url, Ok).map_err(CtlError::Open)?;
        let run = self.run.clone().map_or_else(naming::default_run, Ok).map_err(CtlError::Open)?;
        naming::open_trusting(&url, run.trim(), || self.key.trust_known()).map_err(CtlError::Open)
    }
}

/// The rank of a job of this size.
fn rank(job: &str, size: u32, rank: i64) -> Result<u32, CtlError> {
    let found = u32::try_from(rank).ok().filter(|rank| *rank < size);
    found.ok_or_else(|| CtlError::NoRank { job: job.into(), rank, size })
}

/// A number of seconds, as an argument.
pub fn seconds(text: &str) -> Result<f64, String> {
    let time = text.parse::<f64>().ok().filter(|s| (0.1..=3600.0).contains(s));
    time.ok_or_else(|| "a number of seconds is expected, from 0.1 to 3600".into())
}

/// Why nobody has a name.
#[derive(Debug)]
pub enum Absent {
    /// The folder of names does not exist.
    NoFolder,
    /// Its job is dead, and has left this record over.
    Dead(Box<Record>),
    /// It is that of a published port of MPI.
    Port,
    /// There are other names at most.
    NoName,
}

/// Why a command cannot be given.
#[derive(Debug)]
pub enum CtlError {
    Open(OpenError),
    Lookup(LookupError),
    Store(StoreError),
    Key(FileError),
    /// No job can have this name, for this reason.
    BadName(String, String),
    /// Nobody has this name, at this place.
    Nobody {
        name: String,
        place: String,
        why: Absent,
    },
    /// The record of the name leads to no process.
    NoContact(String),
    /// The job has so many ranks, and not this one.
    NoRank {
        job: String,
        rank: i64,
        size: u32,
    },
    /// The leader cannot be reached.
    Unheard(String, Box<Record>, Unheard),
    /// It has closed the connection, or has not answered in time.
    Lost(String, io::Error),
    /// What it may have got of the command, after so many seconds.
    NotAnswering(String, Got, f64),
    /// It leads no such job any more.
    NoSuchJob(String),
    /// It had got the command, and has ended since.
    Ended(String),
    /// Its name is not there any more.
    Over(String),
    Busy(String),
    OtherRelease(String),
    Terminal(io::Error),
    /// A signal has come.
    Interrupted(Signal),
}

impl CtlError {
    /// Whether the leader may have ended.
    pub fn is_end(&self) -> bool {
        match self {
            CtlError::Unheard(_, _, why) => why.is_dead(),
            CtlError::Ended(_) | CtlError::NoSuchJob(_) => true,
            _ => false,
        }
    }

    /// Whether the leader is there as far as is known, and has not answered in time.
    pub fn is_silence(&self) -> bool {
        matches!(self, CtlError::NotAnswering(..))
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            CtlError::Key(e) if e.is_setting() => 2,
            CtlError::Open(e) if e.is_setting() => 2,
            CtlError::BadName(..) | CtlError::NoRank { .. } => 2,
            CtlError::Interrupted(signal) => signals::status(*signal),
            _ => 1,
        }
    }
}

impl fmt::Display for CtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CtlError::Open(e) => e.fmt(f),
            CtlError::Lookup(e) => e.fmt(f),
            CtlError::Store(e) => e.fmt(f),
            CtlError::Key(e) => e.fmt(f),
            CtlError::BadName(name, why) => write!(f, "'{name}' is no name of a job: {why}"),
            CtlError::Nobody { name, place, why } => {
                write!(f, "no job '{name}' in {place}: ")?;
                match why {
                    Absent::NoFolder => f.write_str("there is no such folder yet"),
                    Absent::Dead(left) => {
                        write!(f, "its name is left over from process {} on {}, which is dead", left.pid, left.host)
                    }
                    Absent::Port => f.write_str(
                        "that is a published port: couplings made by MPI's own ports have no commands, and are not shown",
                    ),
                    Absent::NoName => f.write_str("`mpi-connect names` shows those that are there"),
                }
            }
            CtlError::NoContact(name) => {
                write!(f, "the record of '{name}' leads to no process: its library is older than this command")
            }
            CtlError::NoRank { job, rank, size: 1 } => write!(f, "'{job}' has no rank {rank}: its only one is 0"),
            CtlError::NoRank { job, rank, size } => {
                write!(f, "'{job}' has no rank {rank}: its ranks are 0 to {}", size.saturating_sub(1))
            }
            CtlError::Unheard(name, record, why) => {
                let (pid, host) = (record.pid, &record.host);
                write!(f, "the leader of '{name}', process {pid} on {host}, cannot be given commands: {why}")?;
                match why {
                    Unheard::Refused => f.write_str(
                        ", as seen from here: it has just ended, or it listens on loopback alone, in another network \
                         namespace or on another host",
                    ),
                    _ => Ok(()),
                }
            }
            CtlError::Lost(name, e) => match e.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => write!(
                    f,
                    "the leader of '{name}' has closed the connection ({e}): its library may be older than this command"
                ),
                _ => write!(f, "the leader of '{name}' cannot be reached: {e}"),
            },
            CtlError::NotAnswering(name, got, seconds) => {
                f.write_str(&silence(name, seconds))?;
                f.write_str(match got {
                    Got::Look => "; nobody else can pass the command on",
                    Got::Nothing => {
                        "; nobody else can pass the command on, so nothing is done, nor when it goes on: give it again then"
                    }
                    Got::Command => {
                        "; it may have got the command: if it has begun it, it goes on with it, and otherwise nothing is done. \
                         `lanes` shows which, when it answers"
                    }
                })
            }
            CtlError::NoSuchJob(name) => write!(f, "'{name}' has just ended"),
            CtlError::Over(name) => write!(f, "'{name}' has ended: these are its last figures"),
            CtlError::Ended(name) => {
                write!(f, "the leader of '{name}' has got the command, and has ended before it told the outcome")
            }
            CtlError::Busy(name) => {
                write!(f, "commands of other operators to '{name}' are under way; nothing was changed: try again")
            }
            CtlError::OtherRelease(name) => {
                write!(f, "'{name}' is of another release of mpi-connect than this command")
            }
            CtlError::Interrupted(signal) => write!(f, "ended by {signal}"),
            CtlError::Terminal(e) => write!(f, "no screen: {e}; --once writes a text"),
        }
    }
}

/// What a leader that has not answered may have got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// A command that changes nothing.
    Look,
    /// Nothing of a command that changes something.
    Nothing,
    /// All of it.
    Command,
}

/// A job's leader.
pub struct Client {
    name: String,
    record: Record,
    contact: Contact,
    store: Box<dyn Naming>,
    trust: Arc<Trust>,
    timeout: Option<Duration>,
}

impl Client {
    /// Finds the job.
    pub fn new(job: &Job) -> Result<Client, CtlError> {
        let trust = job.key.trust_known().map_err(CtlError::Key)?;
        let timeout = job.timeout.map(Duration::from_secs_f64);
        Client::find(job.store()?, &job.name, trust, timeout)
    }

    /// Another job, found where this one was, which is waited for no longer than `most`.
    pub fn other(&self, job: &Job, name: &str, most: Duration) -> Result<Client, CtlError> {
        let timeout = self.timeout.map_or(most, |timeout| timeout.min(most));
        Client::find(job.store()?, name, self.trust.clone(), Some(timeout))
    }

    fn find(
        store: Box<dyn Naming>,
        name: &str,
        trust: Arc<Trust>,
        timeout: Option<Duration>,
    ) -> Result<Client, CtlError> {
        let record = match find(store.as_ref(), name)? {
            Some(record) => record,
            None => {
                let port = store.lookup(Kind::Port, name).map_err(CtlError::Lookup)?.map(|_| Absent::Port);
                let dead = || Ok(left_over(store.as_ref(), name)?.map(|left| Absent::Dead(Box::new(left))));
                let missing = || if names::is_missing(store.as_ref()) { Absent::NoFolder } else { Absent::NoName };
                let why = port.map_or_else(dead, |port| Ok(Some(port)))?.unwrap_or_else(missing);
                return Err(CtlError::Nobody { name: name.into(), place: store.describe(), why });
            }
        };
        let contact = Contact::decode(&mut Take(&record.leader)).map_err(|_| CtlError::NoContact(name.into()))?;
        Ok(Client { name: name.into(), record, contact, store, trust, timeout })
    }

    /// How its leader is reached.
    pub fn contact(&self) -> &Contact {
        &self.contact
    }

    /// What both sides prove.
    pub fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// By which the job was found.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// This rank of the job.
    pub fn rank(&self, number: i64) -> Result<u32, CtlError> {
        rank(&self.name, self.record.size, number)
    }

    /// This rank of another job. One that is not found may be joined all the same: its processes say what they know.
    pub fn rank_of(&self, job: &str, number: i64) -> Result<u32, CtlError> {
        let size = find(self.store.as_ref(), job)?.map_or(u32::MAX, |record| record.size);
        rank(job, size, number)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The figures of all processes.
    pub fn lanes(&self) -> Result<Sample, CtlError> {
        let (_, outcomes) = self.give(Command::Lanes)?;
        Ok(Sample::new(&self.name, outcomes))
    }

    /// Gives a command to all processes. Returns whether it had been given before, and each outcome.
    pub fn give(&self, command: Command) -> Result<(bool, Vec<Outcome>), CtlError> {
        let changes = command.changes();
        let timeout = self.timeout.unwrap_or(if changes { TO_CHANGE } else { TO_LOOK });
        let request = Request {
            id: random(),
            serial: 0,
            limit: timeout.saturating_sub(MARGIN).max(timeout / 2).as_millis() as u32,
            to: Addressee::Named(self.name.clone()),
            command,
            members: Vec::new(),
        };
        let (body, until) = (request.encode(), Instant::now() + timeout);
        let mut was_given = false;
        loop {
            let last = match self.try_once(&body, until, &mut was_given) {
                // Those that are under way end, or it has a turn in the place of who has more.
                Ok(Answer::Busy) => CtlError::Busy(self.name.clone()),
                Ok(answer) => return self.read(answer),
                Err(Tried::ForGood(CtlError::Unheard(name, _, why))) if was_given && why.is_dead() => {
                    return Err(CtlError::Ended(name));
                }
                Err(Tried::ForGood(e)) => return Err(e),
                Err(Tried::InVain) => {
                    let got = if was_given { Got::Command } else { Got::Nothing };
                    let got = if changes { got } else { Got::Look };
                    return Err(CtlError::NotAnswering(self.name.clone(), got, timeout.as_secs_f64()));
                }
                Err(Tried::Again(e)) => e,
            };
            if Instant::now() + REST >= until {
                return Err(last);
            }
            std::thread::sleep(REST);
        }
    }

    fn read(&self, answer: Answer) -> Result<(bool, Vec<Outcome>), CtlError> {
        match answer {
            Answer::Outcomes { repeated, outcomes } => Ok((repeated, outcomes)),
            Answer::NoSuchJob => Err(CtlError::NoSuchJob(self.name.clone())),
            Answer::Busy => Err(CtlError::Busy(self.name.clone())),
            Answer::Malformed => Err(CtlError::OtherRelease(self.name.clone())),
        }
    }

    /// `was_given`: set once the leader may have got the command.
    fn try_once(&self, body: &[u8], until: Instant, was_given: &mut bool) -> Result<Answer, Tried> {
        let mut dial: Commanding = command(&self.contact, host(), &self.trust);
        let mut stream: ControlStream = loop {
            match dial.step() {
                Heard::Proved(stream) => break stream,
                Heard::Unheard(Unheard::Unreachable(e)) if e.kind() != io::ErrorKind::TimedOut => {
                    return Err(Tried::Again(CtlError::Lost(self.name.clone(), e)));
                }
                Heard::Unheard(why) => {
                    let (name, record) = (self.name.clone(), Box::new(self.record.clone()));
                    return Err(Tried::ForGood(CtlError::Unheard(name, record, why)));
                }
                Heard::NotYet if Instant::now() >= until => return Err(Tried::InVain),
                Heard::NotYet => {
                    dial.awaited().into_iter().for_each(|dialled| sleep(&mut [dialled], SLICE));
                }
            }
        };
        stream.say(body);
        *was_given = true;
        loop {
            match stream.flush().and_then(|_| stream.hear(MAX_ANSWER)) {
                Ok(Some(body)) => {
                    let answer = Answer::decode(&body);
                    return answer.map_err(|_| Tried::ForGood(CtlError::OtherRelease(self.name.clone())));
                }
                Ok(None) if Instant::now() >= until => return Err(Tried::InVain),
                Ok(None) => sleep(&mut [stream.awaited()], SLICE),
                // It serves too many others, or it has ended.
                Err(e) => return Err(Tried::Again(CtlError::Lost(self.name.clone(), e))),
            }
        }
    }
}

/// Why a command was not given.
enum Tried {
    Again(CtlError),
    ForGood(CtlError),
    /// The time is over.
    InVain,
}

/// The record of a job or, if it has given its name back, that of one of its couplings.
fn find(store: &dyn Naming, name: &str) -> Result<Option<Record>, CtlError> {
    if let Some(record) = store.lookup(Kind::Job, name).map_err(CtlError::Lookup)? {
        return Ok(Some(record));
    }
    let is_its = |record: &Record| record.kind() == Kind::Coupling && record.name == name && record.run == store.run();
    let all = store.list().map_err(CtlError::Store)?;
    let halves = all.into_iter().filter(|(record, state)| *state == State::Live && is_its(record));
    for (half, _) in halves {
        if let Some(record) = store.lookup_key(&half.key()).map_err(CtlError::Lookup)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// What a dead job of this name has left over.
fn left_over(store: &dyn Naming, name: &str) -> Result<Option<Record>, CtlError> {
    let all = store.list().map_err(CtlError::Store)?;
    let is_its = |record: &Record| record.kind() == Kind::Job && record.name == name && record.run == store.run();
    let mut dead = all.into_iter().filter(|(record, state)| *state == State::LeftOver && is_its(record));
    Ok(dead.next().map(|(record, _)| record))
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
