//! The relay's side of a connection: from its begin to what is asked, and the answers.
//!
//! Invariant: nothing but the bytes of a proof is read before the other side has proved the key, and nothing behind its request
//! with it.

use super::message::{Answer, REQUEST, Request};
use crate::ip::Socket;
use crate::stream::handshake::{Admitting, Message, say};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use trust::{Protocol, Refused, Trust};

/// An accepted connection.
pub struct Visitor {
    admitting: Admitting<Socket>,
    heard: Message,
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
        let near = socket.is_near();
        let admitting = Admitting::begin(socket, trust, Protocol::Relay, near);
        Ok(Visitor { admitting, heard: Message::default() })
    }

    /// The process number that it has proved; zeros before.
    pub fn process(&self) -> [u8; 16] {
        self.admitting.process().unwrap_or_default()
    }

    /// Whether it has known the key, or repeats who has.
    pub fn is_answered(&self) -> bool {
        self.admitting.is_answered()
    }

    /// Reads what is there, until it has asked.
    pub fn step(&mut self) -> Visit {
        match self.hear() {
            Ok(visit) => visit,
            Err(e) if e.kind() == ErrorKind::WouldBlock => Visit::NotYet,
            Err(_) => Visit::Over(self.admitting.refused()),
        }
    }

    fn hear(&mut self) -> io::Result<Visit> {
        if let Err(why) = self.admitting.admit()? {
            return Ok(Visit::Over(Some(why)));
        }
        let bytes = self.heard.read(self.admitting.link_mut(), REQUEST)?;
        Ok(Request::decode(&bytes).map_or(Visit::Over(None), Visit::Asks))
    }

    /// Answers, or tells news. An error if it does not read what it is told.
    pub fn say(&mut self, answer: Answer) -> io::Result<()> {
        say(self.admitting.link_mut(), &answer.encode())
    }

    /// Whether it has closed the connection, or has said what it must not.
    pub fn has_left(&self) -> bool {
        !matches!(self.admitting.stream().look(), Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
    }

    /// The descriptor of the connection, to be joined to another one.
    pub fn into_fd(self) -> Option<OwnedFd> {
        Some(self.admitting.into_link().into_stream()?.into_fd())
    }
}

impl AsFd for Visitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.admitting.stream().as_fd()
    }
}
