//! One client's connection: its bytes in and out, never blocking. The server's loop alone calls this.
//!
//! Invariant: what is kept of a client is at most one message each way, and what one reading brings behind it; only whole
//! messages count as a sign of life.

use super::owner::Owner;
use crate::wire::{self, Answer, HEADER, HELLO, Refusal, Request, Welcome};
use nix::poll::PollFlags;
use std::fmt::{Display, Formatter, Result as Formatted};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How much is read at once.
const ROOM: usize = 16 << 10;
/// How long a message may take, either way, from its beginning or, before the first, from the connection's.
const MESSAGE_LIMIT: Duration = Duration::from_secs(5);
/// How long a client may say nothing.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// How many messages of one client are dealt with before others have their turn.
const TURN: usize = 32;

/// Why a connection is over.
pub enum End {
    /// By the client: closed, or its process has died.
    Client,
    /// By us: too slow, too quiet, or speaking nonsense.
    Server(&'static str),
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        f.write_str(match self {
            End::Client => "it has gone",
            End::Server(why) => why,
        })
    }
}

pub struct Conn {
    pub id: u64,
    stream: TcpStream,
    from: SocketAddr,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    greeted: bool,
    /// It has said anything at all.
    heard: bool,
    /// Nothing more is read: it ends when the output is written.
    closing: Option<&'static str>,
    /// When the last whole message came, or the connection.
    pub since: Instant,
    /// When what is under way began.
    begun: Option<Instant>,
    pub owner: Owner,
    /// Names were claimed or renewed by it.
    pub has_claimed: bool,
    /// Others have their turn first; there is more here.
    pub has_more: bool,
}

impl Conn {
    pub fn new(id: u64, stream: TcpStream, from: SocketAddr, now: Instant) -> io::Result<Conn> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // Now, since of one that is closed already the kernel does not tell.
        let owner = Owner::of(from, stream.local_addr()?);
        Ok(Conn {
            id,
            stream,
            from,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            greeted: false,
            heard: false,
            closing: None,
            since: now,
            begun: Some(now),
            owner,
            has_claimed: false,
            has_more: false,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it ends since it could not be understood: another version, or nobody of ours.
    pub fn is_stranger(&self) -> bool {
        self.closing.is_some() || !self.greeted && self.heard
    }

    pub fn from(&self) -> SocketAddr {
        self.from
    }

    pub fn interest(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT }
    }

    /// When its time is over.
    pub fn limit(&self) -> Instant {
        self.begun.map_or(self.since + IDLE_LIMIT, |begun| begun + MESSAGE_LIMIT)
    }

    /// Moves on as far as it goes without waiting.
    pub fn go_on(&mut self, now: Instant, mut answer: impl FnMut(Request) -> Answer) -> Result<(), End> {
        let mut room = [0; ROOM];
        let mut turn = TURN;
        self.has_more = false;
        loop {
            if !self.flush(now)? {
                return Ok(());
            }
            if let Some(why) = self.closing {
                return Err(End::Server(why));
            }
            if turn == 0 {
                self.has_more = true;
                return Ok(());
            }
            if self.take_message(now, &mut answer)? {
                turn -= 1;
                continue;
            }
            match self.stream.read(&mut room) {
                Ok(0) => return Err(End::Client),
                Ok(n) => {
                    self.heard = true;
                    self.begun.get_or_insert(now);
                    self.input.extend_from_slice(&room[..n]);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Client),
            }
        }
    }

    /// Whether all output is gone.
    fn flush(&mut self, now: Instant) -> Result<bool, End> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Client),
            }
        }
        if self.written > 0 {
            (self.output, self.written) = (Vec::new(), 0);
            // The next message may have begun to come.
            self.begun = (!self.input.is_empty()).then_some(now);
        }
        Ok(true)
    }

    /// Deals with one whole message of the input, if there is one.
    fn take_message(&mut self, now: Instant, answer: &mut impl FnMut(Request) -> Answer) -> Result<bool, End> {
        let used = if self.greeted {
            let Some((header, rest)) = self.input.split_first_chunk::<HEADER>() else { return Ok(false) };
            let length = wire::body_length(header).map_err(|_| End::Server("its message has no good header"))?;
            let Some(body) = rest.get(..length) else { return Ok(false) };
            let answer = wire::parse(body).map_or(Answer::Refused(Refusal::Malformed), answer);
            self.output = wire::frame(&answer).map_err(|_| End::Server("an answer was too long"))?;
            HEADER + length
        } else {
            let Some((hello, _)) = self.input.split_first_chunk::<HELLO>() else { return Ok(false) };
            let welcome = wire::judge_hello(hello).map_err(|_| End::Server("it does not speak this protocol"))?;
            self.output = wire::welcome(welcome);
            match welcome {
                Welcome::Good => self.greeted = true,
                Welcome::OtherVersion(_) => self.closing = Some("it is of another version"),
                _ => self.closing = Some("it asks for what is not known here"),
            }
            HELLO
        };
        self.input.drain(..used);
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        self.since = now;
        self.begun = Some(now);
        Ok(true)
    }
}
