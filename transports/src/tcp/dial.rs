//! The dialling side: one attempt at one address, and a race of attempts at all addresses of a contact.
//!
//! Used by the node, which steps a race when a descriptor of it has news or time has passed. Invariant: an address
//! that answers wrongly rules out itself only, since a private address may mean another host here than there.

use super::{HANDSHAKE_LIMIT, HELLO_ACK_LEN, Hello, HelloAck, Socket, Status, is_connected, start_connect};
use crate::stream::ByteStream;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// An address that has not answered after this long gets company; after less where several are silent already.
const STAGGER: Duration = Duration::from_millis(50);
const STAGGER_MANY: Duration = Duration::from_millis(10);
const MANY: usize = 4;
/// While others are awaited, one that was refused is tried again after this long: a link may have come back.
const AGAIN: Duration = Duration::from_secs(1);

/// Why an attempt failed.
#[derive(Debug)]
pub enum Refusal {
    /// Nobody listens there.
    Refused,
    /// Somebody else listens there.
    NoSuchProcess,
    /// The right process itself says that it has no such member.
    NoMember,
    BadCookie,
    OtherVersion,
    /// The other side's own dial stands; its lane's generation.
    Better(u16),
    /// Answered with something that is not this protocol, or hung up.
    Foreign,
    TimedOut,
    Io(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Refused => f.write_str("refused"),
            Refusal::NoSuchProcess => f.write_str("another process answers"),
            Refusal::NoMember => f.write_str("it has left that group"),
            Refusal::BadCookie => f.write_str("cookie not accepted"),
            Refusal::OtherVersion => f.write_str("speaks another version"),
            Refusal::Better(_) => f.write_str("is dialling itself"),
            Refusal::Foreign => f.write_str("does not speak this protocol"),
            Refusal::TimedOut => f.write_str("no answer in time"),
            Refusal::Io(e) => write!(f, "{e}"),
        }
    }
}

#[derive(Debug)]
pub enum Step {
    NotYet,
    Good(HelloAck),
    Failed(Refusal),
}

/// One address being dialled.
pub struct Attempt {
    pub address: SocketAddr,
    socket: Socket,
    since: Instant,
    greeted: Option<Instant>,
    buf: [u8; HELLO_ACK_LEN],
    have: usize,
}

impl Attempt {
    fn start(address: SocketAddr, now: Instant) -> io::Result<Attempt> {
        let socket = start_connect(address)?;
        Ok(Attempt { address, socket, since: now, greeted: None, buf: [0; HELLO_ACK_LEN], have: 0 })
    }

    fn step(&mut self, hello: &Hello, process: Option<[u8; 16]>, now: Instant) -> Step {
        match self.talk(hello, now) {
            Ok(ack) => match ack.status {
                Status::Good if process.is_none_or(|p| p == ack.process) => Step::Good(ack),
                Status::NoSuchProcess if process == Some(ack.process) => Step::Failed(Refusal::NoMember),
                Status::BadCookie if process.is_none_or(|p| p == ack.process) => Step::Failed(Refusal::BadCookie),
                Status::Good | Status::NoSuchProcess | Status::BadCookie => Step::Failed(Refusal::NoSuchProcess),
                Status::OtherVersion => Step::Failed(Refusal::OtherVersion),
                Status::BetterConnection => Step::Failed(Refusal::Better(ack.generation)),
            },
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock if now.duration_since(self.since) < HANDSHAKE_LIMIT => Step::NotYet,
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Step::Failed(Refusal::TimedOut),
                ErrorKind::ConnectionRefused => Step::Failed(Refusal::Refused),
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    Step::Failed(Refusal::Foreign)
                }
                _ => Step::Failed(Refusal::Io(e)),
            },
        }
    }

    fn talk(&mut self, hello: &Hello, now: Instant) -> io::Result<HelloAck> {
        if self.greeted.is_none() {
            is_connected(&self.socket)?;
            let bytes = hello.encode();
            if self.socket.write_vectored(&[IoSlice::new(&bytes)])? != bytes.len() {
                return Err(ErrorKind::InvalidData.into());
            }
            self.greeted = Some(now);
        }
        while self.have < HELLO_ACK_LEN {
            match self.socket.read(&mut self.buf[self.have..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => return Err(e),
            }
        }
        HelloAck::decode(&self.buf).map_err(|_| ErrorKind::InvalidData.into())
    }
}

/// What became of a race.
pub enum Outcome {
    NotYet,
    Won {
        address: SocketAddr,
        socket: Socket,
        ack: HelloAck,
    },
    /// Every address has failed.
    Lost,
}

/// All addresses of one contact, the first that answers well wins.
pub struct Race {
    hello: Hello,
    process: Option<[u8; 16]>,
    /// Not yet tried, the next one last.
    waiting: Vec<SocketAddr>,
    running: Vec<Attempt>,
    last_start: Option<Instant>,
    /// What the addresses that lost said.
    pub failed: Vec<(SocketAddr, Refusal)>,
    /// Those of them that are worth another try, and since when they have failed.
    again: Vec<(SocketAddr, Instant)>,
}

impl Race {
    /// `process`: who must answer.
    pub fn new(hello: Hello, process: Option<[u8; 16]>, addresses: &[SocketAddr]) -> Race {
        let waiting = addresses.iter().rev().copied().collect();
        let (running, failed, again) = (Vec::new(), Vec::new(), Vec::new());
        Race { hello, process, waiting, running, last_start: None, failed, again }
    }

    /// The descriptors to watch, and whether for writing.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.running.iter().map(|a| (a.socket.as_fd(), a.greeted.is_none()))
    }

    /// Whether a HELLO of ours is out, sent less than `limit` ago.
    pub fn greeted_within(&self, limit: Duration, now: Instant) -> bool {
        self.running.iter().any(|a| a.greeted.is_some_and(|t| now.duration_since(t) < limit))
    }

    /// Takes every attempt as far as it goes; `closing` sees each socket that was watched and is about to be closed.
    pub fn step(&mut self, now: Instant, mut closing: impl FnMut(BorrowedFd<'_>)) -> Outcome {
        loop {
            let mut i = 0;
            while i < self.running.len() {
                match self.running[i].step(&self.hello, self.process, now) {
                    Step::NotYet => i += 1,
                    Step::Good(ack) => {
                        let Attempt { address, socket, .. } = self.running.swap_remove(i);
                        return Outcome::Won { address, socket, ack };
                    }
                    Step::Failed(why) => {
                        let a = self.running.swap_remove(i);
                        closing(a.socket.as_fd());
                        self.fail(a.address, why, now);
                        // The next address need not wait.
                        self.last_start = None;
                    }
                }
            }
            let stagger = if self.running.len() < MANY { STAGGER } else { STAGGER_MANY };
            if self.last_start.is_some_and(|t| now.duration_since(t) < stagger) {
                return Outcome::NotYet;
            }
            self.try_again(now);
            let Some(address) = self.waiting.pop() else {
                return if self.running.is_empty() { Outcome::Lost } else { Outcome::NotYet };
            };
            match Attempt::start(address, now) {
                Ok(a) => {
                    self.running.push(a);
                    self.last_start = Some(now);
                    // A loopback connect is often through at once.
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => self.fail(address, Refusal::Refused, now),
                Err(e) => self.fail(address, Refusal::Io(e), now),
            }
        }
    }

    fn fail(&mut self, address: SocketAddr, why: Refusal, now: Instant) {
        if matches!(why, Refusal::Refused | Refusal::Foreign | Refusal::TimedOut | Refusal::Io(_)) {
            self.again.push((address, now));
        }
        self.failed.push((address, why));
    }

    /// As long as somebody may still answer, the others are not given up.
    fn try_again(&mut self, now: Instant) {
        if self.running.is_empty() {
            return;
        }
        let (failed, waiting) = (&mut self.failed, &mut self.waiting);
        self.again.retain(|(address, since)| {
            let rests = now.duration_since(*since) < AGAIN;
            if !rests {
                failed.retain(|(a, _)| a != address);
                waiting.insert(0, *address);
            }
            rests
        });
    }

    /// How it stands with each address, for people.
    pub fn describe(&self) -> String {
        let failed = self.failed.iter().map(|(a, why)| format!("{a} {why}"));
        let running = self.running.iter().map(|a| format!("{} no answer yet", a.address));
        let waiting = self.waiting.iter().map(|a| format!("{a} not tried yet"));
        failed.chain(running).chain(waiting).collect::<Vec<_>>().join(", ")
    }
}
