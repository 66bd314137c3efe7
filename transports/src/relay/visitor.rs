//! The relay's side of a connection: from its begin to what is asked, and the answers.
//!
//! Invariant: nothing but the bytes of a proof is read before the other side has proved the key, and nothing behind its request
//! with it.

use super::message::{Answer, REQUEST, Request};
use crate::ip::Socket;
use crate::stream::handshake::{Message, say};
use crate::stream::link::Link;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use trust::{Answering, Progress, Protocol, Refused, Trust};

/// An accepted connection.
pub struct Visitor {
    link: Link<Socket>,
    /// Until both sides have proved themselves.
    proof: Option<Answering>,
    heard: Message,
    process: [u8; 16],
}

/// What a connection has brought.
pub enum Visit {
    /// Nothing that is whole yet.
    NotYet,
    /// What is asked for, by a process that has proved itself.
    Asks(Request),
    /// It is to be dropped; the reason, if it is worth telling.
    Over(Option<Refused>),
}

impl Visitor {
    /// A connection that was just accepted.
    pub fn new(accepted: OwnedFd, trust: &Arc<Trust>) -> io::Result<Visitor> {
        let socket = Socket::of(accepted)?;
        let proof = Some(Answering::begin(trust, Protocol::Relay, socket.is_near()));
        Ok(Visitor { link: Link::plain(socket), proof, heard: Message::default(), process: [0; 16] })
    }

    /// The process number that it has proved; zeros before.
    pub fn process(&self) -> [u8; 16] {
        self.process
    }

    /// Whether it has known the key, or repeats who has.
    pub fn is_answered(&self) -> bool {
        self.proof.as_ref().is_none_or(Answering::is_answered)
    }

    /// Reads what is there, until it has asked.
    pub fn step(&mut self) -> Visit {
        match self.hear() {
            Ok(visit) => visit,
            Err(e) if e.kind() == ErrorKind::WouldBlock => Visit::NotYet,
            Err(_) => Visit::Over(self.proof.as_ref().and_then(Answering::refused)),
        }
    }

    fn hear(&mut self) -> io::Result<Visit> {
        while let Some(proof) = &mut self.proof {
            let bytes = self.heard.read(self.link.stream_mut(), proof.wants())?;
            match proof.hear(&bytes) {
                Ok(Progress::More) => (),
                Ok(Progress::Say(bytes)) => say(self.link.stream_mut(), &bytes)?,
                Ok(Progress::Done(_)) => {
                    let channel = self.proof.take().and_then(Answering::finish).ok_or(ErrorKind::InvalidData)?;
                    self.process = channel.process;
                    self.link.protect(channel);
                }
                Err(refusal) => {
                    // An error means that the other side has gone already.
                    let _ = say(self.link.stream_mut(), &refusal.say);
                    return Ok(Visit::Over(Some(refusal.why)));
                }
            }
        }
        let bytes = self.heard.read(&mut self.link, REQUEST)?;
        Ok(Request::decode(&bytes).map_or(Visit::Over(None), Visit::Asks))
    }

    /// Answers, or tells news. An error if it does not read what it is told.
    pub fn say(&mut self, answer: Answer) -> io::Result<()> {
        say(&mut self.link, &answer.encode())
    }

    /// Whether it has closed the connection, or has said what it must not.
    pub fn has_left(&self) -> bool {
        !matches!(self.link.stream().look(), Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
    }

    /// The descriptor of the connection, to be joined to another one.
    pub fn into_fd(self) -> Option<OwnedFd> {
        Some(self.link.into_stream()?.into_fd())
    }
}

impl AsFd for Visitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
