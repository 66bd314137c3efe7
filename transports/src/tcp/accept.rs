//! The answering side of the handshake.
//!
//! Invariant: nothing but the bytes of a proof is read before the other side has proved the key.

use super::{TcpLane, place};
use crate::control::{Asker, ControlStream};
use crate::ip::Socket;
use crate::stream::handshake::Accepted;
use crate::transport::{Incoming, NewLane, Said};
use base::ProcId;
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::{HelloAck, Place};

/// An accepted connection whose HELLO is awaited.
pub(super) struct Accept(Accepted<Socket>);

impl Accept {
    pub(super) fn new(socket: Socket, trust: &Arc<Trust>) -> Accept {
        let near = socket.is_near();
        Accept(Accepted::begin(socket, trust, near).or_control())
    }
}

impl Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.stream().as_fd()
    }

    fn step(&mut self) -> Said {
        let from = self.0.stream().peer();
        self.0.step(&|| from.map_or("an address that is not known".into(), |from| from.to_string()))
    }

    fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    fn has_hung_up(&self) -> bool {
        self.0.stream().is_closed()
    }

    fn from(&self) -> Option<Place> {
        self.0.stream().peer().map(place)
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let _ = self.0.answer(ack);
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        self.0.answer(ack).map(|()| true)
    }

    fn finish(self: Box<Self>, local: ProcId, remote: ProcId, generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(TcpLane::answered(self.0.into_link(), local, remote, generation)))
    }

    fn into_control(self: Box<Self>) -> Option<ControlStream> {
        let from = self.0.stream().peer().map(|peer| peer.ip());
        let asker = Asker { process: self.0.process()?, from };
        Some(ControlStream::new(self.0.into_link(), asker))
    }

    fn join(mut self: Box<Self>, ack: &HelloAck, number: u16, lane: &mut dyn Any) -> bool {
        let Some(lane) = lane.downcast_mut::<TcpLane>() else { return false };
        self.0.answer(ack).is_ok() && {
            lane.add(number, self.0.into_link());
            true
        }
    }
}
