//! The answering side of a local handshake.
//!
//! Used by the node, which bounds how many there are and decides on each HELLO. Invariant: nothing is made for a
//! connection before somebody has looked at its cookie.

use super::hello::{LOCAL_ACK, LOCAL_HELLO, Own, Parts, READY, Tail, Theirs};
use super::lane::MEMORY;
use super::rights::Connection;
use super::segment::Segment;
use crate::tcp::{HANDSHAKE_LIMIT, HELLO_LEN, Hello, HelloAck, HelloError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// A connection that is not a lane yet.
pub struct Guest {
    connection: Connection,
    since: Instant,
    state: State,
}

enum State {
    Silent,
    /// It has said HELLO, and shown itself.
    Greeted(Tail, Vec<OwnedFd>),
    Answered(Segment, Theirs),
    Ready(Segment, Theirs, bool),
}

pub enum Arrived {
    NotYet,
    Hello(Box<Hello>),
    /// The dialling side has its end: [`Guest::into_parts`].
    Ready,
    /// Nothing that could be answered, or gone: to be closed.
    Foreign,
}

impl AsFd for Guest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Guest {
    pub fn new(connection: Connection, now: Instant) -> Guest {
        Guest { connection, since: now, state: State::Silent }
    }

    pub fn expired(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= HANDSHAKE_LIMIT
    }

    /// Whether the other side has given up.
    pub fn has_hung_up(&self) -> bool {
        !self.connection.is_open()
    }

    /// Takes it as far as it goes.
    pub fn step(&mut self) -> Arrived {
        let mut bytes = [0; LOCAL_HELLO];
        let (n, fds) = match self.connection.receive(&mut bytes) {
            Ok(got) => got,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Arrived::NotYet,
            Err(_) => return Arrived::Foreign,
        };
        match std::mem::replace(&mut self.state, State::Silent) {
            State::Silent if n == LOCAL_HELLO => self.greet(&bytes, fds).unwrap_or(Arrived::Foreign),
            State::Answered(memory, theirs) if n == 1 && bytes[0] & !1 == READY => {
                self.state = State::Ready(memory, theirs, bytes[0] & 1 != 0);
                Arrived::Ready
            }
            _ => Arrived::Foreign,
        }
    }

    fn greet(&mut self, bytes: &[u8; LOCAL_HELLO], fds: Vec<OwnedFd>) -> Option<Arrived> {
        let (hello, tail) = bytes.split_first_chunk::<HELLO_LEN>()?;
        let hello = match Hello::decode(hello) {
            Err(HelloError::OtherVersion) => {
                self.refuse(&HelloAck::other_version());
                return None;
            }
            hello => hello.ok()?,
        };
        let Some(tail) = Tail::decode(tail).ok()? else {
            self.refuse(&HelloAck::other_version());
            return None;
        };
        self.state = State::Greeted(tail, fds);
        Some(Arrived::Hello(Box::new(hello)))
    }

    /// Says no. One that does not take the answer is of no use anyway.
    pub fn refuse(&self, ack: &HelloAck) {
        let mut bytes = ack.encode();
        bytes.resize(LOCAL_ACK, 0);
        let _ = self.connection.send(&bytes, &[]);
    }

    /// Says yes, and gives the other side what it needs; `bit`: the lane's, on our board. READY comes next.
    pub fn answer(&mut self, ack: &HelloAck, own: &Own, bit: u32) -> io::Result<()> {
        let State::Greeted(tail, fds) = std::mem::replace(&mut self.state, State::Silent) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let [board, bell] = <[_; 2]>::try_from(fds).map_err(|_| ErrorKind::InvalidData)?;
        let theirs = Theirs::new(&self.connection, &tail, board, bell)?;
        let (memory, fd) = Segment::create(MEMORY)?;
        let mut bytes = ack.encode();
        Tail::own(bit, theirs.readable.is_some()).encode(&mut bytes);
        debug_assert_eq!(bytes.len(), LOCAL_ACK);
        let [ours, wakes] = own.fds();
        self.connection.send(&bytes, &[fd.as_fd(), ours, wakes])?;
        self.state = State::Answered(memory, theirs);
        Ok(())
    }

    /// What the lane is made of, after [`Arrived::Ready`].
    pub fn into_parts(self) -> Option<Parts> {
        let State::Ready(memory, theirs, read_by) = self.state else { return None };
        Some(Parts { connection: self.connection, memory, theirs, dialled: false, read_by })
    }
}
