//! The answering side of a local handshake.
//!
//! Invariant: no memory is made for a connection before the other side has proved the key and its cookie has been checked.

use super::hello::{Doorbells, MAX_MESSAGE, Parts, READY, READY_READS, TAIL, Tail, Theirs, in_parts};
use super::lane::{MEMORY, ShmLane};
use super::rights::Connection;
use crate::memory::Segment;
use crate::stream::handshake::{Proved, is_proved, tell_of_refusal};
use crate::transport::{self, NewLane, Said};
use base::ProcId;
use base::protocol::greeting::CONFIRMATION;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use trust::{Answering, Progress, Protocol, Trust};
use wire::hello::{HELLO_LEN, HelloError};
use wire::{Hello, HelloAck, Place};

/// An accepted connection that is no lane yet.
pub(super) struct Accept {
    connection: Connection,
    own: Doorbells,
    trust: Arc<Trust>,
    /// The other side has proved itself.
    proved: bool,
    state: State,
}

enum State {
    /// Neither side has proved itself.
    Silent(Answering),
    /// Nothing more is expected.
    Over,
    /// HELLO has come, with its tail and descriptors.
    Greeted(Tail, Vec<OwnedFd>),
    /// A good answer has been sent; READY has not come.
    Answered(Segment, Theirs),
    /// READY has come, and said whether the other side can read our memory.
    Ready(Segment, Theirs, bool),
}

impl Accept {
    pub(super) fn new(connection: Connection, own: &Doorbells, trust: &Arc<Trust>) -> Accept {
        let state = State::Silent(Answering::begin(trust, Protocol::Jobs, true));
        Accept { connection, own: own.clone(), trust: trust.clone(), proved: false, state }
    }

    /// The other side has closed the connection, or sent what cannot be read.
    fn left(&self) -> Said {
        // It had its second try, or did not want it.
        if let State::Silent(answering) = &self.state
            && let Some(why) = answering.refused()
        {
            tell_of_refusal(&"this host", why);
        }
        Said::Foreign
    }

    /// One message of the proof. The last brings the HELLO too.
    fn prove(&mut self, mut answering: Answering, bytes: &[u8], fds: Vec<OwnedFd>) -> Said {
        let (proof, rest) = match answering.wants() {
            CONFIRMATION => bytes.split_at(CONFIRMATION.min(bytes.len())),
            _ => (bytes, &[][..]),
        };
        match in_parts(proof, &mut answering, Answering::wants, Answering::hear) {
            Ok(Ok(Progress::Say(answer))) if self.connection.send(&answer, &[]).is_ok() => {
                self.state = State::Silent(answering);
                Said::Nothing
            }
            Ok(Ok(Progress::Done(_))) => {
                let Some(channel) = answering.finish() else { return Said::Foreign };
                self.proved = true;
                self.greet(Proved::of(&channel), rest, fds)
            }
            Ok(Err(refusal)) => {
                tell_of_refusal(&"this host", refusal.why);
                let _ = self.connection.send(&refusal.say, &[]);
                Said::Foreign
            }
            _ => Said::Foreign,
        }
    }

    fn greet(&mut self, proved: Proved, bytes: &[u8], fds: Vec<OwnedFd>) -> Said {
        if bytes.len() != HELLO_LEN + TAIL {
            return Said::Foreign;
        }
        let (hello, tail) = bytes.split_at(HELLO_LEN);
        match (Hello::decode(hello), Tail::decode(tail)) {
            (Ok(hello), Ok(Some(tail))) if is_proved(&self.trust, proved, &hello) => {
                self.state = State::Greeted(tail, fds);
                Said::Hello(Box::new(hello))
            }
            (Ok(_), Ok(None)) | (Err(HelloError::OtherVersion), _) => {
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
        loop {
            let mut bytes = [0; MAX_MESSAGE];
            let (n, fds) = match self.connection.receive(&mut bytes) {
                Ok(got) => got,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Said::Nothing,
                Err(_) => return self.left(),
            };
            let said = match std::mem::replace(&mut self.state, State::Over) {
                State::Silent(answering) if n == 0 => {
                    self.state = State::Silent(answering);
                    return self.left();
                }
                State::Silent(answering) => self.prove(answering, &bytes[..n], fds),
                State::Answered(memory, theirs) if n == 1 && bytes[0] & !READY_READS == READY => {
                    self.state = State::Ready(memory, theirs, bytes[0] & READY_READS != 0);
                    Said::Ready
                }
                _ => Said::Foreign,
            };
            match said {
                Said::Nothing => (),
                said => return said,
            }
        }
    }

    fn is_answered(&self) -> bool {
        match &self.state {
            State::Silent(answering) => answering.is_answered(),
            _ => self.proved,
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
        let State::Greeted(tail, fds) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let [doorbells, eventfd] = <[_; 2]>::try_from(fds).map_err(|_| ErrorKind::InvalidData)?;
        let theirs = Theirs::new(&self.connection, &tail, doorbells, eventfd)?;
        let (memory, fd) = Segment::create(MEMORY)?;
        let mut bytes = ack.encode();
        Tail::own(key, theirs.remote.is_some()).encode(&mut bytes);
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
