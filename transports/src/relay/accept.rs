//! The answering side of the handshake, on a connection that a relay has joined to another one.

use super::lane::RelayLane;
use crate::ip::Socket;
use crate::stream::handshake::Accepted;
use crate::transport::{Incoming, NewLane, Said};
use base::ProcId;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::{HelloAck, Place};

/// A connection whose HELLO is awaited.
pub(super) struct Accept(Accepted<Socket>);

impl Accept {
    pub(super) fn new(socket: Socket, trust: &Arc<Trust>) -> Accept {
        // Where the other end is, nobody here knows: it leaves the host.
        Accept(Accepted::begin(socket, trust, false))
    }
}

impl Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.stream().as_fd()
    }

    fn step(&mut self) -> Said {
        let relay = self.0.stream().peer();
        self.0.step(&|| relay.map_or("a relay".into(), |relay| format!("the relay at {relay}")))
    }

    fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    fn has_hung_up(&self) -> bool {
        self.0.stream().is_closed()
    }

    /// A relay's address says nothing of where the process is.
    fn from(&self) -> Option<Place> {
        None
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let _ = self.0.answer(ack);
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        self.0.answer(ack).map(|()| true)
    }

    fn finish(self: Box<Self>, _: ProcId, _: ProcId, _generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(RelayLane::new(self.0.into_link())))
    }
}
