//! One client's connection, which never blocks. The server's loop alone calls this.
//!
//! Invariant: no request is looked at before the client has proved the key; at most one message each way is held for a client,
//! and the bytes that one read brings behind it; only a whole message counts as a sign of life.

use super::owner::Owner;
use super::room::Seat;
use crate::link::Link;
use crate::wire::{self, Answer, HEADER, Refusal, Request};
use nix::poll::PollFlags;
use std::fmt::{Display, Formatter, Result as Formatted};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Answering, KeyId, Progress, Protocol, Refused, Trust};

/// The most bytes of one read.
const ROOM: usize = 16 << 10;
/// How long a message may take, either way, from its first byte; the proof of the key, from the begin of the connection.
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
    /// The client has not proved the key.
    Refused(Refused),
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        f.write_str(match self {
            End::Client => "it has gone",
            End::Server(why) => why,
            End::Refused(why) => return why.fmt(f),
        })
    }
}

/// How far a connection is.
enum Stage {
    /// The client proves the key. `answered`: it was asked for its last word, so it has known the key, or repeats who has.
    Greeting { proof: Box<Answering>, answered: bool },
    /// It has proved this key.
    Proved(Link, KeyId),
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
    stage: Stage,
    /// Some bytes have come.
    heard: bool,
    /// It ends for this reason once the client has read why.
    closing: Option<Refused>,
    /// The time of the last whole message, or of the proof, or of the connection.
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
    pub(super) fn new(
        id: u64,
        (stream, from): (TcpStream, SocketAddr),
        trust: &Arc<Trust>,
        now: Instant,
    ) -> io::Result<Conn> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let to = stream.local_addr()?;
        // The owner is asked for at once, since the kernel does not know that of a closed connection.
        let owner = Owner::of(from, to);
        let proof = Box::new(Answering::begin(trust, Protocol::Naming, trust::is_near(from, to)));
        Ok(Conn {
            id,
            stream,
            from,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            stage: Stage::Greeting { proof, answered: false },
            heard: false,
            closing: None,
            since: now,
            begun: None,
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

    /// The key that the client has proved.
    pub(super) fn key(&self) -> Option<KeyId> {
        if let Stage::Proved(_, key) = self.stage { Some(key) } else { None }
    }

    /// What counts when there is no room for all.
    pub(super) fn seat(&self) -> Seat {
        let answered = matches!(self.stage, Stage::Greeting { answered: true, .. });
        Seat { owner: self.owner, proved: self.key().is_some(), answered, since: (self.since, self.id) }
    }

    /// Why it is refused, if it ends so before it has proved the key. One that has said nothing is none of the people that ask.
    pub(super) fn refusal(&self, end: &End) -> Option<String> {
        let Stage::Greeting { proof, .. } = &self.stage else { return None };
        let why = self.closing.or_else(|| proof.refused());
        self.heard.then(|| why.map_or_else(|| end.to_string(), |why| why.to_string()))
    }

    pub(super) fn from(&self) -> SocketAddr {
        self.from
    }

    pub(super) fn interest(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT }
    }

    /// The time when it is to be ended.
    pub(super) fn limit(&self) -> Instant {
        match self.begun {
            _ if self.key().is_none() => self.since + MESSAGE_LIMIT,
            Some(begun) => begun + MESSAGE_LIMIT,
            None => self.since + IDLE_LIMIT,
        }
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
                return self.linger(why);
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
            if !self.read(&mut room, now)? {
                return Ok(());
            }
        }
    }

    /// Reads once. Returns false if nothing has come.
    fn read(&mut self, room: &mut [u8], now: Instant) -> Result<bool, End> {
        let read = match &mut self.stage {
            // No more than the proof: what follows it may be a record.
            Stage::Greeting { proof, .. } => {
                let left = proof.wants().saturating_sub(self.input.len()).min(room.len());
                self.stream.read(&mut room[..left]).map(Some)
            }
            Stage::Proved(link, _) => link.read(&mut self.stream, room),
        };
        let came = match read {
            Ok(Some(0)) => return Err(End::Client),
            Ok(Some(n)) => &room[..n],
            Ok(None) => &[],
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                return Err(End::Server("its record was changed on the way"));
            }
            Err(_) => return Err(End::Client),
        };
        self.heard = true;
        self.begun.get_or_insert(now);
        self.input.extend_from_slice(came);
        Ok(true)
    }

    /// The client has been told why it is refused. What it says is dropped until it closes, since closing with something unread
    /// would take back what it was told.
    fn linger(&mut self, why: Refused) -> Result<(), End> {
        let mut room = [0; ROOM];
        for _ in 0..TURN {
            match self.stream.read(&mut room) {
                Ok(n) if n > 0 => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                _ => return Err(End::Refused(why)),
            }
        }
        Ok(())
    }

    /// Gives the answer that was to come later.
    pub(super) fn put(&mut self, answer: &Answer, now: Instant) -> Result<(), End> {
        self.waits = false;
        let Stage::Proved(link, _) = &mut self.stage else { return Ok(()) };
        self.output = link.seal(framed(answer)?);
        // Bytes behind the message were read with it.
        self.has_more = !self.input.is_empty() || link.has_content();
        self.flush(now)?;
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
        let link = match &mut self.stage {
            Stage::Greeting { proof, .. } if self.input.len() < proof.wants() => return Ok(false),
            Stage::Greeting { .. } => return self.take_proof(now).map(|()| true),
            Stage::Proved(link, _) => link,
        };
        let Some((header, rest)) = self.input.split_first_chunk::<HEADER>() else { return Ok(false) };
        let length = wire::body_length(header).map_err(|_| End::Server("its message has no good header"))?;
        let Some(body) = rest.get(..length) else { return Ok(false) };
        match wire::parse(body).map_or(Some(Answer::Refused(Refusal::Malformed)), answer) {
            Some(answer) => self.output = link.seal(framed(&answer)?),
            None => self.waits = true,
        }
        self.input.drain(..HEADER + length);
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        self.since = now;
        self.begun = Some(now);
        Ok(true)
    }

    /// Goes on with the handshake, for which as much is here as it wants.
    fn take_proof(&mut self, now: Instant) -> Result<(), End> {
        let Stage::Greeting { proof, answered } = &mut self.stage else { return Ok(()) };
        let progress = proof.hear(&std::mem::take(&mut self.input));
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Say(bytes)) => {
                *answered = proof.refused().is_none();
                self.output = bytes;
            }
            Ok(Progress::Done(bytes)) => {
                self.output = bytes;
                let before = std::mem::replace(&mut self.stage, Stage::Proved(Link::Plain, KeyId([0; 8])));
                let Stage::Greeting { proof, .. } = before else { return Ok(()) };
                let channel = proof.finish().ok_or(End::Refused(Refused::WrongProof))?;
                let key = channel.key;
                self.stage = Stage::Proved(channel.into(), key);
                (self.since, self.begun) = (now, None);
            }
            Err(refusal) if refusal.say.is_empty() => {
                self.closing = Some(refusal.why);
                return Err(End::Refused(refusal.why));
            }
            Err(refusal) => (self.output, self.closing) = (refusal.say, Some(refusal.why)),
        }
        Ok(())
    }
}

fn framed(answer: &Answer) -> Result<Vec<u8>, End> {
    wire::frame(answer).map_err(|_| End::Server("an answer was too long"))
}
