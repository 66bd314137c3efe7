//! Attempts, as the node sees them.

use super::TcpLane;
use crate::ip::Dial;
use crate::transport::{Attempt, NewLane, Step};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use wire::Hello;

/// One address being dialled.
pub(super) struct Dialling {
    pub dial: Dial,
    /// The number of connections that the lane is to have.
    pub sockets: u16,
}

impl Attempt for Dialling {
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
        let Dialling { dial, sockets } = *self;
        let (address, trust) = (dial.address, dial.trust.clone());
        let (link, hello) = dial.into_link().ok_or(ErrorKind::NotConnected)?;
        let mut lane = TcpLane::dialled(link, hello.source, hello.dest, generation);
        lane.dial_more(address, &trust, &Hello { generation, received: 0, moves: None, ..hello }, sockets);
        Ok(NewLane::new(lane))
    }
}
