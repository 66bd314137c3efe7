//! The dialling side of the handshake, at one address.

use super::{Socket, is_connected, start_connect};
use crate::stream::greeting::{self, Greeting};
use std::io;
use std::net::SocketAddr;
use wire::{Hello, HelloAck};

/// One address being dialled.
pub(super) struct Dial {
    pub(super) address: SocketAddr,
    pub(super) socket: Socket,
    pub(super) hello: Hello,
    pub(super) greeted: bool,
    heard: Greeting,
    /// The number of connections that the lane is to have.
    pub(super) sockets: u16,
}

impl Dial {
    pub(super) fn start(address: SocketAddr, hello: Hello, sockets: u16) -> io::Result<Dial> {
        let socket = start_connect(address)?;
        Ok(Dial { address, socket, hello, greeted: false, heard: Greeting::default(), sockets })
    }

    /// Sends HELLO once the connection stands, and returns the answer. `WouldBlock` if it has not come yet.
    pub(super) fn talk(&mut self) -> io::Result<HelloAck> {
        if !self.greeted {
            is_connected(&self.socket)?;
            greeting::say(&mut self.socket, &self.hello.encode())?;
            self.greeted = true;
        }
        self.heard.ack(&mut self.socket)
    }

    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }
}
