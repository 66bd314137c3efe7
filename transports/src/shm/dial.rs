//! The dialling side of a local handshake.
//!
//! Used by the node, which steps an attempt when its descriptor has news or time has passed. Invariant: nothing is told
//! to a process of another user.

use super::hello::{LOCAL_ACK, LOCAL_HELLO, Own, Parts, READY, Tail, Theirs};
use super::lane::MEMORY;
use super::rights::Connection;
use super::segment::Segment;
use crate::tcp::{HELLO_ACK_LEN, Hello, HelloAck, Status};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Whoever has not answered after so long is dialled another way.
const LIMIT: Duration = Duration::from_secs(1);

pub enum Step {
    NotYet,
    /// Now there are parts for a lane: [`Attempt::into_parts`].
    Good(HelloAck),
    /// The other side's own dial stands; its lane's generation.
    Better(u16),
    Failed(Failure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens under that number: the process is gone, or uses no shared memory.
    Nobody,
    /// It answers, but not as it should.
    Refused(&'static str),
    System(io::ErrorKind),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Nobody => f.write_str("nobody is there"),
            Failure::Refused(why) => f.write_str(why),
            Failure::System(kind) => write!(f, "{kind}"),
        }
    }
}

/// One process being dialled.
pub struct Attempt {
    connection: Connection,
    hello: Hello,
    process: [u8; 16],
    bit: u32,
    since: Instant,
    greeted: Option<Instant>,
    got: Option<(Segment, Theirs, bool)>,
}

impl Attempt {
    /// `process`: whom; `bit`: the lane's, on our board.
    pub fn new(hello: Hello, process: [u8; 16], bit: u32, now: Instant) -> io::Result<Attempt> {
        Ok(Attempt { connection: Connection::new()?, hello, process, bit, since: now, greeted: None, got: None })
    }

    /// To be watched for reading, once it is connected.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.greeted.map(|_| self.connection.as_fd())
    }

    pub fn into_hello(self) -> Hello {
        self.hello
    }

    pub fn greeted_within(&self, limit: Duration, now: Instant) -> bool {
        self.greeted.is_some_and(|t| now.duration_since(t) < limit)
    }

    /// Takes it as far as it goes.
    pub fn step(&mut self, own: &Own, now: Instant) -> Step {
        match self.talk(own, now) {
            Ok(step) => step,
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock if now.duration_since(self.since) < LIMIT => Step::NotYet,
                ErrorKind::WouldBlock => Step::Failed(Failure::Refused("no answer in time")),
                ErrorKind::ConnectionRefused => Step::Failed(Failure::Nobody),
                ErrorKind::PermissionDenied => Step::Failed(Failure::Refused("another user's")),
                ErrorKind::InvalidData => Step::Failed(Failure::Refused("it does not speak this protocol")),
                kind => Step::Failed(Failure::System(kind)),
            },
        }
    }

    fn talk(&mut self, own: &Own, now: Instant) -> io::Result<Step> {
        if self.greeted.is_none() {
            self.connection.reach(&self.process)?;
            let mut bytes = self.hello.encode();
            Tail::own(self.bit, false).encode(&mut bytes);
            debug_assert_eq!(bytes.len(), LOCAL_HELLO);
            self.connection.send(&bytes, &own.fds())?;
            self.greeted = Some(now);
        }
        let mut bytes = [0; LOCAL_ACK];
        let (n, fds) = self.connection.receive(&mut bytes)?;
        let (ack, tail) = bytes.split_first_chunk::<HELLO_ACK_LEN>().expect("longer than that");
        let ack = HelloAck::decode(ack).map_err(|_| ErrorKind::InvalidData)?;
        if n == LOCAL_ACK && ack.status == Status::OtherVersion {
            return Ok(Step::Failed(Failure::Refused("speaks another version")));
        }
        if n != LOCAL_ACK || ack.process != self.process {
            return Err(ErrorKind::InvalidData.into());
        }
        match ack.status {
            Status::Good => (),
            Status::BetterConnection => return Ok(Step::Better(ack.generation)),
            Status::BadCookie => return Ok(Step::Failed(Failure::Refused("cookie not accepted"))),
            Status::NoSuchProcess => return Ok(Step::Failed(Failure::Refused("it has left that group"))),
            Status::OtherVersion => return Ok(Step::Failed(Failure::Refused("speaks another version"))),
            Status::Later => {
                return Ok(Step::Failed(Failure::Refused("has no place for those whom it does not know yet")));
            }
        }
        let tail = Tail::decode(tail).ok().flatten().ok_or(ErrorKind::InvalidData)?;
        let [memory, board, bell] = <[_; 3]>::try_from(fds).map_err(|_| ErrorKind::InvalidData)?;
        let theirs = Theirs::new(&self.connection, &tail, board, bell)?;
        let memory = Segment::adopt(memory, MEMORY)?;
        self.connection.send(&[READY | u8::from(theirs.readable.is_some())], &[])?;
        self.got = Some((memory, theirs, tail.reads));
        Ok(Step::Good(ack))
    }

    /// What the lane is made of, after [`Step::Good`].
    pub fn into_parts(self) -> Option<Parts> {
        let (memory, theirs, read_by) = self.got?;
        Some(Parts { connection: self.connection, memory, theirs, dialled: true, read_by })
    }
}
