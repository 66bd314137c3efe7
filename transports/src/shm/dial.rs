//! The dialling side of a local handshake.
//!
//! Invariant: nothing is sent to a process of another user.

use super::hello::{Doorbells, MAX_ACK, Parts, READY, READY_READS, TAIL, Tail, Theirs};
use super::lane::{MEMORY, ShmLane};
use super::rights::Connection;
use super::segment::Segment;
use crate::transport::{Attempt, NewLane, Step};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::{Hello, HelloAck, Status};

/// One process being dialled.
pub(super) struct Dial {
    connection: Connection,
    own: Doorbells,
    hello: Hello,
    process: [u8; 16],
    key: u32,
    greeted: bool,
    /// The tail and the descriptors of a good answer.
    got: Option<(Tail, Vec<OwnedFd>)>,
}

impl Dial {
    /// Begins to dial the process of this number; `key` is the pair's.
    pub(super) fn new(hello: Hello, process: [u8; 16], key: u32, own: &Doorbells) -> io::Result<Dial> {
        let (connection, own) = (Connection::new()?, own.clone());
        Ok(Dial { connection, own, hello, process, key, greeted: false, got: None })
    }

    fn talk(&mut self) -> io::Result<HelloAck> {
        if !self.greeted {
            self.connection.reach(&self.process)?;
            let mut bytes = self.hello.encode();
            Tail::own(self.key, false).encode(&mut bytes);
            self.connection.send(&bytes, &self.own.fds())?;
            self.greeted = true;
        }
        let mut bytes = [0; MAX_ACK];
        let (n, fds) = self.connection.receive(&mut bytes)?;
        let (ack, tail) = bytes[..n].split_at(n.saturating_sub(TAIL));
        let ack = HelloAck::decode(ack).map_err(|_| ErrorKind::InvalidData)?;
        if ack.status == Status::Good {
            let tail = Tail::decode(tail).ok().flatten().ok_or(ErrorKind::InvalidData)?;
            self.got = Some((tail, fds));
        }
        Ok(ack)
    }
}

impl Attempt for Dial {
    /// `None` before it is connected: the other side's backlog is full, and no descriptor tells when it is not.
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.greeted.then(|| (self.connection.as_fd(), false))
    }

    fn step(&mut self) -> Step {
        match self.talk() {
            Ok(ack) => Step::Answered(ack),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Step::NotYet,
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Step::Failed(io::Error::other("another user's")),
            Err(e) => Step::Failed(e),
        }
    }

    fn is_greeted(&self) -> bool {
        self.greeted
    }

    fn finish(self: Box<Self>, generation: u16) -> io::Result<NewLane> {
        let Dial { connection, hello, got, .. } = *self;
        let (tail, fds) = got.ok_or(ErrorKind::InvalidData)?;
        let [memory, doorbells, eventfd] = <[_; 3]>::try_from(fds).map_err(|_| ErrorKind::InvalidData)?;
        let theirs = Theirs::new(&connection, &tail, doorbells, eventfd)?;
        let memory = Segment::adopt(memory, MEMORY)?;
        let reads = if theirs.readable.is_some() { READY_READS } else { 0 };
        connection.send(&[READY | reads], &[])?;
        let parts = Parts { connection, memory, theirs, dialled: true, read_by: tail.reads };
        Ok(NewLane::new(ShmLane::new(parts, hello.source, hello.dest, generation)))
    }
}
