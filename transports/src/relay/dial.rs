//! The dialling side: a relay is asked for the process, and then the handshake goes to that process.
//!
//! Invariant: a relay that is not there, or that knows no such process, is never taken for a sign that the process has died. Only
//! that its host has closed its connection to the relay says something ([`Answer::Gone`]).

use super::ask::{Asked, Asking};
use super::lane::RelayLane;
use super::message::{Answer, Request};
use crate::ip::Socket;
use crate::stream::handshake::Dialled;
use crate::transport::{Attempt, NewLane, Step};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use trust::Trust;
use wire::{Hello, HelloAck};

/// One process being dialled through one relay.
pub(super) struct Dial {
    trust: Arc<Trust>,
    hello: Hello,
    state: State,
}

enum State {
    Asking(Box<Asking>),
    Greeted(Box<Dialled<Socket>>),
}

impl Dial {
    pub(super) fn begin(relay: SocketAddr, name: [u8; 16], trust: &Arc<Trust>, hello: Hello) -> io::Result<Dial> {
        let asking = Asking::begin(relay, Request::Call { name, passed: Vec::new() }, trust);
        Ok(Dial { trust: trust.clone(), hello, state: State::Asking(Box::new(asking.map_err(no_relay)?)) })
    }

    fn talk(&mut self) -> io::Result<HelloAck> {
        if let State::Asking(asking) = &mut self.state {
            let socket = match asking.step() {
                Asked::NotYet => return Err(ErrorKind::WouldBlock.into()),
                Asked::Failed(e) => return Err(no_relay(e)),
                Asked::Answered(Answer::Stands, standing) => standing.into_socket().ok_or(ErrorKind::InvalidData)?,
                Asked::Answered(Answer::Gone, _) => return Err(ErrorKind::ConnectionRefused.into()),
                Asked::Answered(Answer::NotThere, _) => {
                    return Err(io::Error::new(ErrorKind::AddrNotAvailable, "does not know it"));
                }
                Asked::Answered(answer, _) => return Err(io::Error::other(described(answer))),
            };
            // Wherever the relay is: what goes through it leaves this host.
            let dialled = Dialled::begin(socket, &self.trust, false, self.hello.clone()).map_err(broken)?;
            self.state = State::Greeted(Box::new(dialled));
        }
        match &mut self.state {
            State::Greeted(dialled) => dialled.talk().map_err(broken),
            State::Asking(_) => Err(ErrorKind::NotConnected.into()),
        }
    }
}

/// No sign of the process's death.
fn no_relay(e: io::Error) -> io::Error {
    io::Error::other(format!("cannot be used: {e}"))
}

/// The end of a connection may be the relay's alone.
fn broken(e: io::Error) -> io::Error {
    match e.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            io::Error::other("the connection has ended")
        }
        _ => e,
    }
}

fn described(answer: Answer) -> &'static str {
    match answer {
        Answer::Full => "has no room for one more",
        Answer::NoAnswer => "got no answer, from it or from the next relay",
        Answer::Stands | Answer::Called(_) | Answer::Gone | Answer::NotThere => "answers what makes no sense",
    }
}

impl Attempt for Dial {
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        match &self.state {
            State::Asking(asking) => asking.fd(),
            State::Greeted(dialled) => Some((dialled.stream().as_fd(), false)),
        }
    }

    fn step(&mut self) -> Step {
        Step::of(self.talk())
    }

    fn is_greeted(&self) -> bool {
        matches!(self.state, State::Greeted(_))
    }

    /// What the relay has acknowledged says nothing of the process.
    fn is_heard(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, _generation: u16) -> io::Result<NewLane> {
        match self.state {
            State::Greeted(dialled) => Ok(NewLane::new(RelayLane::new(dialled.into_parts().0))),
            State::Asking(_) => Err(ErrorKind::NotConnected.into()),
        }
    }
}
