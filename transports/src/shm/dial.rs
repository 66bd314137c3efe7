//! The dialling side of a local handshake.
//!
//! Invariant: nothing is sent to a process of another user.

use super::hello::{Doorbells, MAX_MESSAGE, Parts, READY, READY_READS, TAIL, Tail, Theirs, in_parts};
use super::lane::{MEMORY, ShmLane};
use super::rights::Connection;
use crate::memory::Segment;
use crate::stream::handshake::refused;
use crate::transport::{Attempt, NewLane, Step};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use trust::{Dialling, Progress, Protocol, Trust};
use wire::{Hello, HelloAck, Status};

/// One process being dialled.
pub(super) struct Dial {
    connection: Connection,
    own: Doorbells,
    hello: Hello,
    process: [u8; 16],
    key: u32,
    trust: Arc<Trust>,
    proof: Proof,
    /// The tail and the descriptors of a good answer.
    got: Option<(Tail, Vec<OwnedFd>)>,
}

/// How far both sides have proved themselves.
enum Proof {
    /// The connection does not stand yet.
    Connecting,
    Greeted(Box<Dialling>),
    /// Both have, and the HELLO was sent.
    Proved,
    Over,
}

impl Dial {
    /// Begins to dial the process of this number; `key` is the pair's.
    pub(super) fn new(
        hello: Hello,
        process: [u8; 16],
        key: u32,
        own: &Doorbells,
        trust: &Arc<Trust>,
    ) -> io::Result<Dial> {
        let (connection, own, trust) = (Connection::new()?, own.clone(), trust.clone());
        Ok(Dial { connection, own, hello, process, key, trust, proof: Proof::Connecting, got: None })
    }

    fn talk(&mut self) -> io::Result<HelloAck> {
        if let Proof::Connecting = self.proof {
            self.connection.reach(&self.process)?;
            let (dialling, greeting) =
                Dialling::begin_to(&self.trust, Protocol::Jobs, true, Some(self.hello.dest.incarnation));
            self.connection.send(&greeting, &[])?;
            self.proof = Proof::Greeted(Box::new(dialling));
        }
        let mut bytes = [0; MAX_MESSAGE];
        while let Proof::Greeted(_) = self.proof {
            let (n, _) = self.connection.receive(&mut bytes)?;
            let Proof::Greeted(mut dialling) = std::mem::replace(&mut self.proof, Proof::Over) else { break };
            match in_parts(&bytes[..n], &mut *dialling, Dialling::wants, Dialling::hear)? {
                Ok(Progress::Done(confirmation)) => {
                    let channel = dialling.finish().filter(|channel| channel.process == self.process);
                    channel.ok_or(ErrorKind::InvalidData)?;
                    let mut bytes = confirmation;
                    bytes.extend_from_slice(&self.hello.encode());
                    Tail::own(self.key, false).encode(&mut bytes);
                    self.connection.send(&bytes, &self.own.fds())?;
                    self.proof = Proof::Proved;
                }
                Ok(Progress::Say(greeting)) => {
                    self.connection.send(&greeting, &[])?;
                    self.proof = Proof::Greeted(dialling);
                }
                Ok(Progress::More) => return Err(ErrorKind::InvalidData.into()),
                Err(why) => return refused(why),
            }
        }
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
        self.is_greeted().then(|| (self.connection.as_fd(), false))
    }

    fn step(&mut self) -> Step {
        match self.talk() {
            Ok(ack) => Step::Answered(ack),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Step::NotYet,
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => Step::Failed(io::Error::other("another user's")),
            Err(e) => Step::Failed(e),
        }
    }

    fn is_greeted(&self) -> bool {
        !matches!(self.proof, Proof::Connecting)
    }

    fn finish(self: Box<Self>, generation: u16) -> io::Result<NewLane> {
        let Dial { connection, hello, got, .. } = *self;
        let (tail, fds) = got.ok_or(ErrorKind::InvalidData)?;
        let [memory, doorbells, eventfd] = <[_; 3]>::try_from(fds).map_err(|_| ErrorKind::InvalidData)?;
        let theirs = Theirs::new(&connection, &tail, doorbells, eventfd)?;
        let memory = Segment::adopt(memory, MEMORY)?;
        let reads = if theirs.remote.is_some() { READY_READS } else { 0 };
        connection.send(&[READY | reads], &[])?;
        let parts = Parts { connection, memory, theirs, dialled: true, read_by: tail.reads };
        Ok(NewLane::new(ShmLane::new(parts, hello.source, hello.dest, generation)))
    }
}
