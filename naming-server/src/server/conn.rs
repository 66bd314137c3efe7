//! One client's connection, which never blocks. The server's loop alone calls this.
//!
//! Invariant: at most one message each way is held for a client, and the bytes that one read brings behind it; only a whole
//! message counts as a sign of life.

use super::owner::Owner;
use crate::wire::{self, Answer, HEADER, HELLO, Refusal, Request, Welcome};
use nix::poll::PollFlags;
use std::fmt::{Display, Formatter, Result as Formatted};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The most bytes of one read.
const ROOM: usize = 16 << 10;
/// How long a message may take, either way, from its first byte; the first message, from the begin of the connection.
const MESSAGE_LIMIT: Duration = Duration::from_secs(5);
/// How long a client may send nothing.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The most messages of one client in a round.
const TURN: usize = 32;

/// Why a connection is over.
pub(super) enum End {
    /// The client has closed it, or its process has died.
    Client,
    /// The server ends it: the client is too slow, too quiet, or malformed.
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

/// The connection of one client.
pub(super) struct Conn {
    /// A number that no other client has had.
    pub id: u64,
    stream: TcpStream,
    from: SocketAddr,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    greeted: bool,
    /// Some bytes have come.
    heard: bool,
    /// Nothing more is read, and it ends when the output is written, for this reason.
    closing: Option<&'static str>,
    /// The time of the last whole message, or of the connection.
    pub since: Instant,
    /// The time when the message under way began.
    begun: Option<Instant>,
    /// The user or host that it is counted for.
    pub owner: Owner,
    /// It has claimed or renewed a name.
    pub has_claimed: bool,
    /// It has asked for changes.
    pub watches: bool,
    /// There may be more to do for it after the other clients had their turn.
    pub has_more: bool,
    /// The answer to its last message is still to come: see [`Conn::put`].
    waits: bool,
}

impl Conn {
    pub(super) fn new(id: u64, stream: TcpStream, from: SocketAddr, now: Instant) -> io::Result<Conn> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // The owner is asked for at once, since the kernel does not know that of a closed connection.
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
            watches: false,
            has_more: false,
            waits: false,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it ends because it is of another version, or speaks another protocol.
    pub(super) fn is_stranger(&self) -> bool {
        self.closing.is_some() || !self.greeted && self.heard
    }

    pub(super) fn from(&self) -> SocketAddr {
        self.from
    }

    pub(super) fn interest(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT }
    }

    /// The time when it is to be ended.
    pub(super) fn limit(&self) -> Instant {
        self.begun.map_or(self.since + IDLE_LIMIT, |begun| begun + MESSAGE_LIMIT)
    }

    /// Reads requests and writes answers as far as that goes without waiting. Without an `answer` nothing more is read until
    /// [`Conn::put`] gives one.
    pub(super) fn go_on(&mut self, now: Instant, mut answer: impl FnMut(Request) -> Option<Answer>) -> Result<(), End> {
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
            if self.waits {
                return Ok(());
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

    /// Gives the answer that was to come later.
    pub(super) fn put(&mut self, answer: &Answer, now: Instant) -> Result<(), End> {
        self.waits = false;
        self.output = framed(answer)?;
        self.flush(now)?;
        // Bytes behind the message were read with it.
        self.has_more = !self.input.is_empty();
        Ok(())
    }

    /// Writes output. Returns whether all is written.
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

    /// Answers one whole message of the input. Returns whether there was one.
    fn take_message(&mut self, now: Instant, answer: &mut impl FnMut(Request) -> Option<Answer>) -> Result<bool, End> {
        let used = if self.greeted {
            let Some((header, rest)) = self.input.split_first_chunk::<HEADER>() else { return Ok(false) };
            let length = wire::body_length(header).map_err(|_| End::Server("its message has no good header"))?;
            let Some(body) = rest.get(..length) else { return Ok(false) };
            match wire::parse(body).map_or(Some(Answer::Refused(Refusal::Malformed)), answer) {
                Some(answer) => self.output = framed(&answer)?,
                None => self.waits = true,
            }
            HEADER + length
        } else {
            let Some((head, rest)) = self.input.split_first_chunk::<HELLO>() else { return Ok(false) };
            let proof = wire::proof_length(head).map_err(|_| End::Server("it does not speak this protocol"))?;
            if rest.len() < proof {
                return Ok(false);
            }
            let welcome = wire::judge_hello(head);
            self.output = wire::welcome(welcome, &[]);
            match welcome {
                Welcome::Good => self.greeted = true,
                Welcome::OtherVersion(_) => self.closing = Some("it is of another version"),
                _ => self.closing = Some("it asks for what is not known here"),
            }
            // Of another version nothing more is read. What has come is dropped, so that closing does not take back the answer.
            if matches!(welcome, Welcome::OtherVersion(_)) { self.input.len() } else { HELLO + proof }
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

fn framed(answer: &Answer) -> Result<Vec<u8>, End> {
    wire::frame(answer).map_err(|_| End::Server("an answer was too long"))
}
