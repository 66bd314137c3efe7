//! The side that asks a relay: from the connection to its answer.
//!
//! Used to wait, to call and to take a call, and by a relay that passes a call on. Invariant: nothing behind the answer is read
//! with it, so the connection can be joined to another one.

use super::message::{ANSWER, Answer, Request};
use crate::ip::{Socket, is_connected, start_connect};
use crate::stream::handshake::{Message, Proving, say};
use crate::stream::link::Link;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use trust::{Protocol, Trust};

/// A relay that is being asked.
pub struct Asking {
    trust: Arc<Trust>,
    request: Request,
    state: State,
}

enum State {
    Connecting(Socket),
    Proving(Box<Proving<Socket>>),
    Asked(Box<Standing>),
    Over,
}

/// How far it is.
pub enum Asked {
    /// There is no answer yet.
    NotYet,
    /// The answer, and the connection that it has come on.
    Answered(Answer, Box<Standing>),
    /// There will be none.
    Failed(io::Error),
}

/// A connection on which a relay has answered.
pub struct Standing {
    link: Link<Socket>,
    heard: Message,
}

impl Standing {
    /// What the relay says next. `WouldBlock` if it has said nothing.
    pub fn hear(&mut self) -> io::Result<Answer> {
        let bytes = self.heard.read(&mut self.link, ANSWER)?;
        Answer::decode(&bytes).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// The connection, once it is joined to another one. `None` if more was said than belongs to the answer.
    pub(super) fn into_socket(self) -> Option<Socket> {
        self.link.into_stream()
    }

    /// Its descriptor, once it is joined to another one.
    pub fn into_fd(self) -> Option<OwnedFd> {
        Some(self.into_socket()?.into_fd())
    }
}

impl AsFd for Standing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl Asking {
    /// Begins to connect.
    pub fn begin(relay: SocketAddr, request: Request, trust: &Arc<Trust>) -> io::Result<Asking> {
        let state = State::Connecting(start_connect(relay)?);
        Ok(Asking { trust: trust.clone(), request, state })
    }

    /// The descriptor to be watched for reading, and whether for writing too.
    pub fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        match &self.state {
            State::Connecting(socket) => Some((socket.as_fd(), true)),
            State::Proving(proving) => Some((proving.stream().as_fd(), false)),
            State::Asked(standing) => Some((standing.as_fd(), false)),
            State::Over => None,
        }
    }

    /// Goes on as far as it can without waiting.
    pub fn step(&mut self) -> Asked {
        match self.go_on() {
            Ok((answer, standing)) => Asked::Answered(answer, standing),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Asked::NotYet,
            Err(e) => Asked::Failed(e),
        }
    }

    fn go_on(&mut self) -> io::Result<(Answer, Box<Standing>)> {
        if let State::Connecting(socket) = &self.state {
            is_connected(socket)?;
            if let State::Connecting(socket) = std::mem::replace(&mut self.state, State::Over) {
                let near = socket.is_near();
                self.state = State::Proving(Box::new(Proving::begin(socket, &self.trust, Protocol::Relay, near)?));
            }
        }
        if let State::Proving(proving) = &mut self.state {
            proving.prove()?.map_err(|why| io::Error::new(ErrorKind::PermissionDenied, why))?;
            if let State::Proving(proving) = std::mem::replace(&mut self.state, State::Over) {
                let mut link = proving.into_link();
                say(&mut link, &self.request.encode())?;
                self.state = State::Asked(Box::new(Standing { link, heard: Message::default() }));
            }
        }
        let State::Asked(standing) = &mut self.state else { return Err(ErrorKind::NotConnected.into()) };
        let answer = standing.hear()?;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Asked(standing) => Ok((answer, standing)),
            _ => Err(ErrorKind::NotConnected.into()),
        }
    }
}
