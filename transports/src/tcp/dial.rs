//! The dialling side of the handshake, at one address.

use super::{Socket, is_connected, start_connect};
use crate::stream::handshake::Dialled;
use crate::stream::link::Link;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use trust::Trust;
use wire::{Hello, HelloAck};

/// One address being dialled.
pub(super) struct Dial {
    pub(super) address: SocketAddr,
    pub(super) trust: Arc<Trust>,
    /// The number of connections that the lane is to have.
    pub(super) sockets: u16,
    state: State,
}

enum State {
    /// The connection does not stand yet.
    Connecting(Socket, Hello),
    Greeted(Box<Dialled<Socket>>),
    Over,
}

impl Dial {
    pub(super) fn start(address: SocketAddr, trust: &Arc<Trust>, hello: Hello, sockets: u16) -> io::Result<Dial> {
        let socket = start_connect(address)?;
        Ok(Dial { address, trust: trust.clone(), sockets, state: State::Connecting(socket, hello) })
    }

    /// Sends the greeting once the connection stands, goes through the handshake, and returns the answer to the HELLO.
    /// `WouldBlock` if it has not come yet.
    pub(super) fn talk(&mut self) -> io::Result<HelloAck> {
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

    /// Whether the greeting has been sent.
    pub(super) fn has_greeted(&self) -> bool {
        matches!(self.state, State::Greeted(_))
    }

    pub(super) fn socket(&self) -> Option<&Socket> {
        match &self.state {
            State::Connecting(socket, _) => Some(socket),
            State::Greeted(dialled) => Some(dialled.stream()),
            State::Over => None,
        }
    }

    /// The link and the HELLO, after an answer.
    pub(super) fn into_link(self) -> Option<(Link<Socket>, Hello)> {
        match self.state {
            State::Greeted(dialled) => Some(dialled.into_parts()),
            State::Connecting(..) | State::Over => None,
        }
    }

    /// The socket, to be closed.
    pub(super) fn into_socket(self) -> Option<Link<Socket>> {
        match self.state {
            State::Connecting(socket, _) => Some(Link::plain(socket)),
            State::Greeted(dialled) => Some(dialled.into_parts().0),
            State::Over => None,
        }
    }
}
