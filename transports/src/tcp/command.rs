//! A connection to a process that is to be given a command: its addresses are tried one after the other.
//!
//! Used by whoever polls its descriptor. Nothing here blocks. Invariant: the connection is handed out only when the process of the
//! contact record has proved itself.

use super::address;
use crate::control::{Asker, ControlStream};
use crate::ip::{Socket, Ways, is_connected, start_connect};
use crate::stream::handshake::Proving;
use nix::poll::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Protocol, Refused, Trust};

/// How long an address has to take a connection before the next one is tried.
const PATIENCE: Duration = Duration::from_millis(700);

/// A connection that is being made.
pub struct Commanding {
    process: [u8; 16],
    trust: Arc<Trust>,
    /// The addresses that were not tried yet.
    addresses: VecDeque<SocketAddr>,
    state: State,
    /// Why the address before was none.
    last: Unheard,
}

enum State {
    /// The next address is to be tried.
    Idle,
    Connecting(Socket, Instant),
    Proving(Box<Proving<Socket>>),
}

/// How far a connection is.
pub enum Heard {
    /// There is no answer yet.
    NotYet,
    /// Both sides have proved themselves.
    Proved(ControlStream),
    /// The process cannot be given the command.
    Unheard(Unheard),
}

/// Why a process cannot be given a command.
#[derive(Debug)]
pub enum Unheard {
    /// It has no address.
    NoAddress,
    /// No process listens at its addresses.
    Refused,
    /// Another process listens there.
    OtherProcess,
    /// It does not trust this side, or is not trusted.
    Untrusted(Refused),
    /// Its host, or the way to it, does not answer.
    Unreachable(io::Error),
}

impl fmt::Display for Unheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unheard::NoAddress => f.write_str("it listens at no address (see its MPI_CONNECT_LANES)"),
            Unheard::Refused => f.write_str("nobody listens at its address"),
            Unheard::OtherProcess => f.write_str("another process has its address"),
            Unheard::Untrusted(why) => why.fmt(f),
            Unheard::Unreachable(e) => write!(f, "it cannot be reached: {e}"),
        }
    }
}

impl Unheard {
    /// Whether this proves that the process has ended.
    pub fn is_dead(&self) -> bool {
        matches!(self, Unheard::Refused | Unheard::OtherProcess)
    }
}

impl Commanding {
    pub(crate) fn new(process: [u8; 16], entry: &[u8], near: Option<bool>, trust: &Arc<Trust>) -> Commanding {
        let all = address::addresses(entry);
        let addresses = Ways::default().to(&all, near, None).into();
        Commanding { process, trust: trust.clone(), addresses, state: State::Idle, last: Unheard::NoAddress }
    }

    /// What is awaited. `None` before the first step.
    pub fn awaited(&self) -> Option<PollFd<'_>> {
        match &self.state {
            State::Idle => None,
            State::Connecting(socket, _) => Some(PollFd::new(socket.as_fd(), PollFlags::POLLOUT)),
            State::Proving(proving) => Some(PollFd::new(proving.stream().as_fd(), PollFlags::POLLIN)),
        }
    }

    /// Whether a connection stands, so that the process, or another one, has been greeted.
    pub fn is_greeted(&self) -> bool {
        matches!(self.state, State::Proving(_))
    }

    /// Goes on as far as it can without waiting.
    pub fn step(&mut self) -> Heard {
        loop {
            match self.go_on() {
                Ok(Some(stream)) => return Heard::Proved(stream),
                Ok(None) => (),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Heard::NotYet,
                Err(e) => self.failed(Unheard::Unreachable(e)),
            }
            if matches!(self.state, State::Idle) {
                let Some(address) = self.addresses.pop_front() else {
                    return Heard::Unheard(std::mem::replace(&mut self.last, Unheard::NoAddress));
                };
                match start_connect(address) {
                    Ok(socket) => self.state = State::Connecting(socket, Instant::now()),
                    Err(e) => self.failed(Unheard::Unreachable(e)),
                }
            }
        }
    }

    /// An address was none: the next one is tried.
    fn failed(&mut self, why: Unheard) {
        self.state = State::Idle;
        let refused = |e: &io::Error| e.kind() == ErrorKind::ConnectionRefused;
        // What says most about the process is told in the end.
        self.last = match (std::mem::replace(&mut self.last, Unheard::NoAddress), why) {
            (before @ (Unheard::Untrusted(_) | Unheard::OtherProcess), Unheard::Unreachable(_)) => before,
            (Unheard::NoAddress | Unheard::Refused, Unheard::Unreachable(e)) if refused(&e) => Unheard::Refused,
            (Unheard::Unreachable(e), Unheard::Unreachable(other)) if refused(&other) => Unheard::Unreachable(e),
            (_, why) => why,
        };
    }

    fn go_on(&mut self) -> io::Result<Option<ControlStream>> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => Ok(None),
            State::Connecting(socket, since) => match is_connected(&socket) {
                Ok(()) => {
                    let near = socket.is_near();
                    self.state =
                        State::Proving(Box::new(Proving::begin(socket, &self.trust, Protocol::Control, near)?));
                    Ok(None)
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock && since.elapsed() < PATIENCE => {
                    self.state = State::Connecting(socket, since);
                    Err(e)
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
                Err(e) => Err(e),
            },
            State::Proving(mut proving) => match proving.prove() {
                Ok(Ok(process)) if process == self.process => {
                    let asker = Asker { process, from: proving.stream().peer().map(|peer| peer.ip()) };
                    Ok(Some(ControlStream::new(proving.into_link(), asker)))
                }
                Ok(Ok(_)) => {
                    self.failed(Unheard::OtherProcess);
                    Ok(None)
                }
                Ok(Err(why)) => {
                    self.failed(Unheard::Untrusted(why));
                    Ok(None)
                }
                Err(e) => {
                    if e.kind() == ErrorKind::WouldBlock {
                        self.state = State::Proving(proving);
                    }
                    Err(e)
                }
            },
        }
    }
}
