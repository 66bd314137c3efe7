//! The dialling side: a channel to the process, and the handshake through it.
//!
//! Invariant: that there is no router, or that it knows no such process, is never taken for a sign that the process has died. Only
//! that its host has closed its connection to the router says something ([`Why::Gone`]), and that it has ended ([`Why::Dead`]).

use super::address::place;
use super::channel::{Channel, Ear};
use super::frame::{Open, Why};
use super::lane::RouterLane;
use super::post::Post;
use crate::stream::handshake::Dialled;
use crate::transport::{Attempt, NewLane, Step};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trust::Trust;
use wire::{Hello, HelloAck};

/// How long the trunk is waited for: a router that has died is replaced sooner.
const PATIENCE: Duration = Duration::from_secs(2);

/// One process being dialled through the router.
pub(super) struct Dial {
    post: Arc<Mutex<Post>>,
    trust: Arc<Trust>,
    router: SocketAddr,
    to: [u8; 16],
    state: State,
}

enum State {
    /// There is no trunk at present.
    Waiting(Instant, Box<Hello>),
    Greeted(Box<Dialled<Channel>>, Ear),
    Over,
}

impl Dial {
    pub fn begin(
        post: &Arc<Mutex<Post>>,
        trust: &Arc<Trust>,
        (router, to): (SocketAddr, [u8; 16]),
        hello: Hello,
    ) -> Dial {
        let state = State::Waiting(Instant::now() + PATIENCE, Box::new(hello));
        Dial { post: post.clone(), trust: trust.clone(), router, to, state }
    }

    fn talk(&mut self) -> io::Result<HelloAck> {
        if let State::Waiting(until, _) = &self.state {
            let trunk = self.post.lock().unwrap_or_else(PoisonError::into_inner).trunk();
            let Some(trunk) = trunk else {
                let is_late = Instant::now() >= *until;
                return Err(if is_late { io::Error::other("cannot be used") } else { ErrorKind::WouldBlock.into() });
            };
            let open = Open { to: self.to, from: self.trust.identity().process(), router: Some(self.router) };
            let channel = Channel::open(&trunk, &open)?;
            let ear = Ear::new(&channel)?;
            if let State::Waiting(_, hello) = std::mem::replace(&mut self.state, State::Over) {
                // Wherever the process is, routers are between.
                let dialled = Dialled::begin(channel, &self.trust, false, *hello)?;
                self.state = State::Greeted(Box::new(dialled), ear);
            }
        }
        let State::Greeted(dialled, _) = &mut self.state else { return Err(ErrorKind::NotConnected.into()) };
        dialled.talk().map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => reason(dialled.stream().ended()),
            _ => e,
        })
    }
}

fn reason(why: Option<Why>) -> io::Error {
    match why {
        Some(Why::Gone) => ErrorKind::ConnectionRefused.into(),
        Some(Why::Dead) => io::Error::new(ErrorKind::NotFound, "has ended"),
        Some(Why::NotThere) => io::Error::new(ErrorKind::AddrNotAvailable, "does not know it"),
        Some(Why::Nobody) => io::Error::new(ErrorKind::AddrNotAvailable, "refused: no process of its host has it"),
        Some(Why::NoRouter) => io::Error::other("cannot be used"),
        Some(Why::Full) => io::Error::other("has no room for one more"),
        Some(Why::Over) | None => ErrorKind::UnexpectedEof.into(),
    }
}

impl Attempt for Dial {
    fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        match &self.state {
            State::Greeted(_, ear) => Some((ear.as_fd(), false)),
            State::Waiting(..) | State::Over => None,
        }
    }

    fn step(&mut self) -> Step {
        Step::of(self.talk())
    }

    fn is_greeted(&self) -> bool {
        matches!(self.state, State::Greeted(..))
    }

    /// What the router has taken says nothing of the process.
    fn is_heard(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, _generation: u16) -> io::Result<NewLane> {
        match self.state {
            State::Greeted(dialled, _) => {
                Ok(NewLane::new(RouterLane::new(dialled.into_parts().0, place(self.router, &self.to))))
            }
            State::Waiting(..) | State::Over => Err(ErrorKind::NotConnected.into()),
        }
    }
}
