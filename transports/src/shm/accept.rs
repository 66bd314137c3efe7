//! The answering side of a local handshake.
//!
//! Invariant: no memory is made for a connection before its cookie has been checked.

use super::hello::{Doorbells, MAX_HELLO, Parts, READY, READY_READS, TAIL, Tail, Theirs};
use super::lane::{MEMORY, ShmLane};
use super::rights::Connection;
use super::segment::Segment;
use crate::transport::{self, NewLane, Said};
use base::ProcId;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::hello::{HELLO_LEN, HelloError};
use wire::{Hello, HelloAck, Place};

/// An accepted connection that is no lane yet.
pub(super) struct Accept {
    connection: Connection,
    own: Doorbells,
    state: State,
}

enum State {
    /// HELLO has not come.
    Silent,
    /// HELLO has come, with its tail and descriptors.
    Greeted(Tail, Vec<OwnedFd>),
    /// A good answer has been sent; READY has not come.
    Answered(Segment, Theirs),
    /// READY has come, and said whether the other side can read our memory.
    Ready(Segment, Theirs, bool),
}

impl Accept {
    pub(super) fn new(connection: Connection, own: &Doorbells) -> Accept {
        Accept { connection, own: own.clone(), state: State::Silent }
    }

    /// Looks at the beginning of a message that has more bytes than a HELLO of this version may have.
    fn greet_too_long(&mut self, bytes: &[u8]) -> Said {
        if Hello::decode(bytes) == Err(HelloError::OtherVersion) {
            transport::Incoming::refuse(self, &HelloAck::other_version());
        }
        Said::Foreign
    }

    fn greet(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Said {
        // Another version may have a HELLO of another length.
        if Hello::decode(bytes) == Err(HelloError::OtherVersion) {
            transport::Incoming::refuse(self, &HelloAck::other_version());
            return Said::Foreign;
        }
        if bytes.len() < HELLO_LEN + TAIL {
            return Said::Foreign;
        }
        let (hello, tail) = bytes.split_at(bytes.len() - TAIL);
        match (Hello::decode(hello), Tail::decode(tail)) {
            (Ok(hello), Ok(Some(tail))) => {
                self.state = State::Greeted(tail, fds);
                Said::Hello(Box::new(hello))
            }
            (Ok(_), Ok(None)) => {
                transport::Incoming::refuse(self, &HelloAck::other_version());
                Said::Foreign
            }
            _ => Said::Foreign,
        }
    }
}

impl transport::Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    fn step(&mut self) -> Said {
        let mut bytes = [0; MAX_HELLO];
        let (n, fds) = match self.connection.receive(&mut bytes) {
            Ok(got) => got,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Said::Nothing,
            Err(_) if matches!(self.state, State::Silent) => return self.greet_too_long(&bytes),
            Err(_) => return Said::Foreign,
        };
        match std::mem::replace(&mut self.state, State::Silent) {
            State::Silent => self.greet(&bytes[..n], fds),
            State::Answered(memory, theirs) if n == 1 && bytes[0] & !READY_READS == READY => {
                self.state = State::Ready(memory, theirs, bytes[0] & READY_READS != 0);
                Said::Ready
            }
            _ => Said::Foreign,
        }
    }

    fn has_hung_up(&self) -> bool {
        !self.connection.is_open()
    }

    fn from(&self) -> Option<Place> {
        None
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let mut bytes = ack.encode();
        bytes.resize(bytes.len() + TAIL, 0);
        let _ = self.connection.send(&bytes, &[]);
    }

    /// The lane cannot be made at once: the other side says READY when it has mapped the memory.
    fn answer(&mut self, ack: &HelloAck, key: u32) -> io::Result<bool> {
        let State::Greeted(tail, fds) = std::mem::replace(&mut self.state, State::Silent) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let [doorbells, eventfd] = <[_; 2]>::try_from(fds).map_err(|_| ErrorKind::InvalidData)?;
        let theirs = Theirs::new(&self.connection, &tail, doorbells, eventfd)?;
        let (memory, fd) = Segment::create(MEMORY)?;
        let mut bytes = ack.encode();
        Tail::own(key, theirs.readable.is_some()).encode(&mut bytes);
        let [ours, wakes] = self.own.fds();
        self.connection.send(&bytes, &[fd.as_fd(), ours, wakes])?;
        self.state = State::Answered(memory, theirs);
        Ok(false)
    }

    fn finish(self: Box<Self>, local: ProcId, remote: ProcId, generation: u16) -> io::Result<NewLane> {
        let State::Ready(memory, theirs, read_by) = self.state else { return Err(ErrorKind::InvalidInput.into()) };
        let parts = Parts { connection: self.connection, memory, theirs, dialled: false, read_by };
        Ok(NewLane::new(ShmLane::new(parts, local, remote, generation)))
    }
}
