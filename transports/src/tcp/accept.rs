//! The answering side of the handshake.
//!
//! Invariant: nothing but one HELLO is read before the cookie has been checked.

use super::{Socket, TcpLane, place};
use crate::stream::greeting::{self, Greeting};
use crate::transport::{Incoming, NewLane, Said};
use base::ProcId;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use wire::hello::HelloError;
use wire::{HelloAck, Place};

/// An accepted connection whose HELLO is awaited.
pub(super) struct Accept {
    socket: Socket,
    heard: Greeting,
}

impl Accept {
    pub(super) fn new(stream: TcpStream) -> io::Result<Accept> {
        Ok(Accept { socket: Socket::new(stream)?, heard: Greeting::default() })
    }

    fn send(&mut self, ack: &HelloAck) -> bool {
        greeting::say(&mut self.socket, &ack.encode()).is_ok()
    }
}

impl Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn step(&mut self) -> Said {
        match self.heard.hello(&mut self.socket) {
            Ok(Ok(hello)) => Said::Hello(Box::new(hello)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Said::Nothing,
            Ok(Err(HelloError::OtherVersion)) => {
                self.send(&HelloAck::other_version());
                Said::Foreign
            }
            Ok(Err(HelloError::Foreign)) | Err(_) => Said::Foreign,
        }
    }

    fn has_hung_up(&self) -> bool {
        self.socket.is_closed()
    }

    fn from(&self) -> Option<Place> {
        self.socket.peer().map(place)
    }

    fn refuse(&mut self, ack: &HelloAck) {
        self.send(ack);
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        if self.send(ack) { Ok(true) } else { Err(ErrorKind::BrokenPipe.into()) }
    }

    fn finish(self: Box<Self>, local: ProcId, remote: ProcId, generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(TcpLane::answered(self.socket, local, remote, generation)))
    }

    fn join(mut self: Box<Self>, ack: &HelloAck, number: u16, lane: &mut dyn Any) -> bool {
        let Some(lane) = lane.downcast_mut::<TcpLane>() else { return false };
        self.send(ack) && {
            lane.add(number, self.socket);
            true
        }
    }
}
