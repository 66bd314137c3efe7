//! The answering side of the handshake, on a channel that another process has opened.

use super::address::origin;
use super::channel::{Channel, Ear};
use super::frame::Open;
use super::lane::RouterLane;
use crate::stream::handshake::Accepted;
use crate::transport::{Incoming, NewLane, Said};
use base::ProcId;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::{HelloAck, Place};

/// A channel on which a HELLO is awaited.
pub(super) struct Accept {
    accepted: Accepted<Channel>,
    ear: Ear,
    place: Place,
}

impl Accept {
    pub fn new(channel: Channel, open: &Open, trust: &Arc<Trust>) -> io::Result<Accept> {
        let ear = Ear::new(&channel)?;
        // Wherever the process is, routers are between.
        Ok(Accept { accepted: Accepted::begin(channel, trust, false), ear, place: origin(open) })
    }
}

impl Incoming for Accept {
    fn fd(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }

    fn step(&mut self) -> Said {
        let place = &self.place;
        self.accepted.step(&|| place.to_string())
    }

    fn is_answered(&self) -> bool {
        self.accepted.is_answered()
    }

    fn has_hung_up(&self) -> bool {
        self.accepted.stream().ended().is_some()
    }

    /// A router's address says nothing of where the process is.
    fn from(&self) -> Option<Place> {
        None
    }

    fn refuse(&mut self, ack: &HelloAck) {
        let _ = self.accepted.answer(ack);
    }

    fn answer(&mut self, ack: &HelloAck, _key: u32) -> io::Result<bool> {
        self.accepted.answer(ack).map(|()| true)
    }

    fn finish(self: Box<Self>, _: ProcId, _: ProcId, _generation: u16) -> io::Result<NewLane> {
        Ok(NewLane::new(RouterLane::new(self.accepted.into_link(), self.place)))
    }
}
