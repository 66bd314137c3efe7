//! Attempts and probes, as the node sees them.

use super::dial::Dial;
use super::{Socket, TcpLane, is_connected};
use crate::transport::{Attempt, NewLane, Probe, Step};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use wire::Hello;

impl Attempt for Dial {
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.socket()?.as_fd(), !self.has_greeted()))
    }

    fn step(&mut self) -> Step {
        match self.talk() {
            Ok(ack) => Step::Answered(ack),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Step::NotYet,
            Err(e) => Step::Failed(e),
        }
    }

    fn is_greeted(&self) -> bool {
        self.has_greeted()
    }

    fn is_heard(&self) -> bool {
        self.has_greeted() && self.socket().is_some_and(|socket| socket.under_way() == 0)
    }

    fn finish(self: Box<Self>, generation: u16) -> io::Result<NewLane> {
        let (address, sockets, trust) = (self.address, self.sockets, self.trust.clone());
        let (link, hello) = self.into_link().ok_or(ErrorKind::NotConnected)?;
        let mut lane = TcpLane::dialled(link, hello.source, hello.dest, generation);
        lane.dial_more(address, &trust, &Hello { generation, received: 0, ..hello }, sockets);
        Ok(NewLane::new(lane))
    }
}

/// A connection that shows whether a host can be reached.
pub(super) struct Touch(pub Socket);

impl Probe for Touch {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn result(&self) -> io::Result<()> {
        is_connected(&self.0)
    }
}
