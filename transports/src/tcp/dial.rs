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
/// The kernel asks a silent address again at ever longer intervals. After so long another attempt goes beside the first, and
/// is made anew as often, so that a link that comes back is found within a second.
const SCOUT: Duration = Duration::from_secs(2);

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
    /// It speaks this version of the protocol.
    OtherVersion(u16),
    /// The other side's own dial stands; its lane's generation.
    Better(u16),
    /// It knows nothing of us yet, and has no place for more such.
    Later,
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
            Refusal::OtherVersion(v) => write!(f, "speaks version {v} of the protocol"),
            Refusal::Better(_) => f.write_str("is dialling itself"),
            Refusal::Later => f.write_str("has no place for those whom it does not know yet"),
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

    /// Whether the host has not said anything since it was last told something.
    fn is_unheard(&self) -> bool {
        self.greeted.is_none() || self.socket.under_way() > 0
    }

    fn step(&mut self, hello: &Hello, process: Option<[u8; 16]>, now: Instant) -> Step {
        match self.talk(hello, now) {
            Ok(ack) => match ack.status {
                Status::Good if process.is_none_or(|p| p == ack.process) => Step::Good(ack),
                Status::NoSuchProcess if process == Some(ack.process) => Step::Failed(Refusal::NoMember),
                Status::BadCookie if process.is_none_or(|p| p == ack.process) => Step::Failed(Refusal::BadCookie),
                Status::Good | Status::NoSuchProcess | Status::BadCookie => Step::Failed(Refusal::NoSuchProcess),
                Status::OtherVersion => Step::Failed(Refusal::OtherVersion(ack.generation)),
                Status::BetterConnection => Step::Failed(Refusal::Better(ack.generation)),
                Status::Later => Step::Failed(Refusal::Later),
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
    last_scout: Option<Instant>,
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
        Race { hello, process, waiting, running, last_start: None, last_scout: None, failed, again }
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
                        let a = self.running.remove(i);
                        closing(a.socket.as_fd());
                        if matches!(why, Refusal::TimedOut) && self.is_heard_at(a.address) {
                            continue;
                        }
                        // What holds for one attempt at an address holds for the other.
                        self.end_all_at(a.address, &mut closing);
                        self.fail(a.address, why, now);
                        // The next address need not wait.
                        self.last_start = None;
                        i = 0;
                    }
                }
            }
            self.scout(now, &mut closing);
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

    fn is_heard_at(&self, address: SocketAddr) -> bool {
        self.running.iter().any(|a| a.address == address && !a.is_unheard())
    }

    fn end_all_at(&mut self, address: SocketAddr, closing: &mut impl FnMut(BorrowedFd<'_>)) {
        self.running.retain(|a| {
            let stays = a.address != address;
            if !stays {
                closing(a.socket.as_fd());
            }
            stays
        });
    }

    /// Sends another attempt to each address that has been silent for a while, in the place of the last one.
    fn scout(&mut self, now: Instant, closing: &mut impl FnMut(BorrowedFd<'_>)) {
        let is_old = |a: &Attempt| now.duration_since(a.since) >= SCOUT && a.is_unheard();
        if self.last_scout.is_some_and(|t| now.duration_since(t) < STAGGER) {
            return;
        }
        let mut at = 0;
        while at < self.running.len() {
            let address = self.running[at].address;
            let is_first = self.running[..at].iter().all(|a| a.address != address);
            if is_first && is_old(&self.running[at]) {
                let last = (at + 1..self.running.len()).find(|&k| self.running[k].address == address);
                if last.is_none_or(|k| is_old(&self.running[k])) {
                    last.into_iter().for_each(|k| closing(self.running.remove(k).socket.as_fd()));
                    // The first stands for the address: what comes of it is told.
                    self.running.extend(Attempt::start(address, now));
                    self.last_scout = Some(now);
                    return;
                }
            }
            at += 1;
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
        let first = |k: usize| self.running[..k].iter().all(|a| a.address != self.running[k].address);
        let running = (0..self.running.len()).filter(|&k| first(k)).map(|k| &self.running[k]);
        let running = running.map(|a| format!("{} no answer yet", a.address));
        let waiting = self.waiting.iter().map(|a| format!("{a} not tried yet"));
        base::log::list(failed.chain(running).chain(waiting), "it has told no address at which it listens")
    }
}
