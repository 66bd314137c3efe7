//! The dialling side of the handshake, at one address.

use super::{Socket, is_connected, start_connect};
use crate::stream::greeting::{self, Greeting};
use std::io;
use std::net::SocketAddr;
use wire::{Hello, HelloAck};

/// One address being dialled.
pub struct Dial {
    pub(super) address: SocketAddr,
    pub(super) socket: Socket,
    pub(super) hello: Hello,
    pub(super) greeted: bool,
    heard: Greeting,
    /// How many connections the lane is to have.
    pub(super) sockets: u16,
}

impl Dial {
    pub fn start(address: SocketAddr, hello: Hello, sockets: u16) -> io::Result<Dial> {
        let socket = start_connect(address)?;
        Ok(Dial { address, socket, hello, greeted: false, heard: Greeting::default(), sockets })
    }

    /// The answer; `WouldBlock`: not yet.
    pub fn talk(&mut self) -> io::Result<HelloAck> {
        if !self.greeted {
            is_connected(&self.socket)?;
            greeting::say(&mut self.socket, &self.hello.encode())?;
            self.greeted = true;
        }
        self.heard.ack(&mut self.socket)
    }

    pub fn into_socket(self) -> Socket {
        self.socket
    }
}
