//! The dialling side of the handshake, at one address; and probes.
//!
//! Used by the transports whose handshake goes over IP. Invariant: nothing blocks.

use super::{Socket, is_connected, start_connect};
use crate::stream::handshake::Dialled;
use crate::stream::link::Link;
use crate::transport::{Attempt, NewLane, Probe, Step};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::{Hello, HelloAck};

/// One address being dialled.
pub(crate) struct Dial {
    pub(crate) address: SocketAddr,
    pub(crate) trust: Arc<Trust>,
    state: State,
}

enum State {
    /// The connection does not stand yet.
    Connecting(Socket, Hello),
    Greeted(Box<Dialled<Socket>>),
    Over,
}

impl Dial {
    pub(crate) fn start(address: SocketAddr, trust: &Arc<Trust>, hello: Hello) -> io::Result<Dial> {
        let socket = start_connect(address)?;
        Ok(Dial { address, trust: trust.clone(), state: State::Connecting(socket, hello) })
    }

    /// Sends the greeting once the connection stands, goes through the handshake, and returns the answer to the HELLO.
    /// `WouldBlock` if it has not come yet.
    fn talk(&mut self) -> io::Result<HelloAck> {
        if let State::Connecting(socket, _) = &self.state {
            is_connected(socket)?;
            if let State::Connecting(socket, hello) = std::mem::replace(&mut self.state, State::Over) {
                let near = socket.is_near();
                self.state = State::Greeted(Box::new(Dialled::begin(socket, &self.trust, near, hello)?));
            }
        }
        match &mut self.state {
            State::Greeted(dialled) => dialled.talk(),
            State::Connecting(..) | State::Over => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// The descriptor to be watched for reading, and whether for writing too.
    pub(crate) fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.socket()?.as_fd(), !self.has_greeted()))
    }

    /// Goes on as far as it can without waiting.
    pub(crate) fn step(&mut self) -> Step {
        match self.talk() {
            Ok(ack) => Step::Answered(ack),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Step::NotYet,
            Err(e) => Step::Failed(e),
        }
    }

    /// Whether the other host has acknowledged all that was sent to it.
    pub(crate) fn is_heard(&self) -> bool {
        self.has_greeted() && self.socket().is_some_and(|socket| socket.under_way() == 0)
    }

    /// Whether the greeting has been sent.
    pub(crate) fn has_greeted(&self) -> bool {
        matches!(self.state, State::Greeted(_))
    }

    fn socket(&self) -> Option<&Socket> {
        match &self.state {
            State::Connecting(socket, _) => Some(socket),
            State::Greeted(dialled) => Some(dialled.stream()),
            State::Over => None,
        }
    }

    /// The link and the HELLO, after an answer.
    pub(crate) fn into_link(self) -> Option<(Link<Socket>, Hello)> {
        match self.state {
            State::Greeted(dialled) => Some(dialled.into_parts()),
            State::Connecting(..) | State::Over => None,
        }
    }

    /// The socket, to be closed.
    pub(crate) fn into_socket(self) -> Option<Link<Socket>> {
        match self.state {
            State::Connecting(socket, _) => Some(Link::plain(socket)),
            State::Greeted(dialled) => Some(dialled.into_parts().0),
            State::Over => None,
        }
    }
}

/// A dial as the node sees it. `make` makes a lane of it, of this generation, after a good answer.
pub(crate) struct Dialling<F> {
    pub(crate) dial: Dial,
    pub(crate) make: F,
}

impl<F: FnOnce(Dial, u16) -> io::Result<NewLane> + Send> Attempt for Dialling<F> {
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.dial.fd()
    }

    fn step(&mut self) -> Step {
        self.dial.step()
    }

    fn is_greeted(&self) -> bool {
        self.dial.has_greeted()
    }

    fn is_heard(&self) -> bool {
        self.dial.is_heard()
    }

    fn finish(self: Box<Self>, generation: u16) -> io::Result<NewLane> {
        (self.make)(self.dial, generation)
    }
}

/// A connection that shows whether a host can be reached.
pub(crate) struct Touch(Socket);

impl Touch {
    /// Begins to connect to that one of these addresses which is on the host of `seen`. `None` if none is.
    pub(crate) fn begin(addresses: &[SocketAddr], seen: SocketAddr) -> Option<(SocketAddr, Touch)> {
        let mut address = *addresses.iter().find(|a| a.ip() == seen.ip())?;
        if let (SocketAddr::V6(to), SocketAddr::V6(from)) = (&mut address, seen) {
            to.set_scope_id(from.scope_id());
        }
        // An error of our own says nothing about the other host.
        let socket = start_connect(address).ok()?;
        Some((address, Touch(socket)))
    }
}

impl Probe for Touch {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn result(&self) -> io::Result<()> {
        is_connected(&self.0)
    }
}
