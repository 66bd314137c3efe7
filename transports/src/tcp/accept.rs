//! The answering side of the handshake.
//!
//! Used by the node, which bounds how many there are and decides on each HELLO. Invariant: nothing but 88 bytes is
//! read before somebody has looked at the cookie.

use super::{HELLO_LEN, Hello, HelloAck, HelloError, Socket};
use crate::stream::ByteStream;
use std::io::{ErrorKind, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long either side of a handshake may take.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// A connection whose HELLO is awaited.
pub struct Halfway {
    socket: Socket,
    since: Instant,
    buf: [u8; HELLO_LEN],
    have: usize,
}

#[derive(Debug)]
pub enum Arrived {
    NotYet,
    Hello(Box<Hello>),
    /// Nothing that could be answered: to be closed.
    Foreign,
}

impl AsFd for Halfway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Halfway {
    pub fn new(stream: TcpStream, now: Instant) -> std::io::Result<Halfway> {
        Ok(Halfway { socket: Socket::new(stream)?, since: now, buf: [0; HELLO_LEN], have: 0 })
    }

    pub fn expired(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= HANDSHAKE_LIMIT
    }

    /// Whether the other side has given up.
    pub fn has_hung_up(&self) -> bool {
        self.socket.is_closed()
    }

    pub fn step(&mut self) -> Arrived {
        while self.have < HELLO_LEN {
            match self.socket.read(&mut self.buf[self.have..]) {
                Ok(0) => return Arrived::Foreign,
                Ok(n) => self.have += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Arrived::NotYet,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(_) => return Arrived::Foreign,
            }
        }
        match Hello::decode(&self.buf) {
            Ok(hello) => Arrived::Hello(Box::new(hello)),
            Err(HelloError::Foreign) => Arrived::Foreign,
            Err(HelloError::OtherVersion) => {
                self.send(&HelloAck::other_version());
                Arrived::Foreign
            }
        }
    }

    /// Answers; gives the connection, if the answer went out.
    pub fn answer(mut self, ack: &HelloAck) -> Option<Socket> {
        self.send(ack).then_some(self.socket)
    }

    /// A fresh connection has room for 48 bytes; one that has not is of no use.
    fn send(&mut self, ack: &HelloAck) -> bool {
        let bytes = ack.encode();
        self.socket.write_vectored(&[IoSlice::new(&bytes)]).is_ok_and(|n| n == bytes.len())
    }
}
