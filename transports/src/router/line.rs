//! The connection between a process and the router of its host: bytes go through memory that both map, a bell of each side wakes it, and the
//! end of a local socket tells that the other one has died.
//!
//! Invariants: whoever sleeps on the bell has armed it before, or it is readable, or the other side is about to ring it. The bell is read once for
//! each time that it was rung. While somebody looks without being told, it is not armed, and the other side makes no system call for it.

use super::bell::bell;
use super::local::{DESCRIPTORS, Raw};
use super::pipe::{Pipe, Plan};
use crate::ip::Kept;
use crate::memory::Segment;
use crate::stream::ByteStream;
use base::bytes::Malformed;
use base::protocol::router::PIPES_END;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

/// After so many looks that found nothing, it is looked whether the other side has ended.
const IN_VAIN: u32 = 100;

/// One end of such a connection.
pub(super) struct Line {
    socket: Raw,
    pipe: Pipe<Box<Segment>>,
    own: EventFd,
    others: EventFd,
    bell: Bell,
    /// Somebody looks again and again, and arms the bell before it sleeps.
    is_looked_at: bool,
    /// How often nothing was found, one time after the other.
    vain: u32,
}

/// What is known of the own bell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bell {
    Silent,
    /// The other side is to ring.
    Armed,
    /// It has been rung, or is about to be, and was not read.
    Rung,
}

impl Line {
    /// The router's end. The other one is handed to the process with these listeners.
    pub fn open(socket: Raw, listeners: &[Kept]) -> io::Result<Line> {
        let (memory, fd) = Segment::create(PIPES_END)?;
        let (own, others) = (bell()?, bell()?);
        let handed = [fd, others.as_fd().try_clone_to_owned()?, own.as_fd().try_clone_to_owned()?];
        socket.hand(listeners, &handed)?;
        Ok(Line::new(socket, Pipe::new(Box::new(memory), Plan::OURS, 1), [own, others]))
    }

    /// The end of a process.
    pub fn adopt(socket: Raw, handed: [OwnedFd; DESCRIPTORS]) -> io::Result<Line> {
        let [fd, own, others] = handed;
        let memory = Segment::adopt(fd, PIPES_END)?;
        // SAFETY: they are written and read only, as the router's own are; any other descriptor gives errors.
        let [own, others] = [own, others].map(|fd| unsafe { EventFd::from_owned_fd(fd) });
        Ok(Line::new(socket, Pipe::new(Box::new(memory), Plan::OURS, 0), [own, others]))
    }

    fn new(socket: Raw, pipe: Pipe<Box<Segment>>, [own, others]: [EventFd; 2]) -> Line {
        let mut line = Line { socket, pipe, own, others, bell: Bell::Silent, is_looked_at: false, vain: 0 };
        line.arm();
        line
    }

    /// Has it watched there, under this number: the bell, and the socket for the end alone.
    pub fn watch(&self, epoll: &Epoll, number: u64) -> nix::Result<()> {
        epoll.add(&self.own, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        epoll.add(&self.socket, EpollEvent::new(EpollFlags::EPOLLRDHUP, number))
    }

    /// It is not watched there any more. To close the bell is not enough, as the other side has it too.
    pub fn unwatch(&self, epoll: &Epoll) {
        // The only error is that it is not watched.
        let _ = (epoll.delete(&self.own), epoll.delete(&self.socket));
    }

    /// Whether the other side has ended. What it has written can still be read.
    pub fn is_over(&self) -> bool {
        self.socket.has_ended()
    }

    pub fn has_room(&mut self) -> bool {
        self.pipe.has_room()
    }

    /// The bell is to tell of room too, or no longer.
    pub fn wait_for_room(&mut self, yes: bool) {
        self.pipe.wait_for_room(yes);
        self.ring_if_needed();
    }

    /// Reads in place: `f` says how much it takes of what is there, which may not be all. `WouldBlock` if there is nothing, 0 at the end.
    pub fn look(&mut self, f: impl FnOnce(&[u8]) -> usize) -> io::Result<usize> {
        if !self.pipe.has_input() {
            let is_over = self.rest();
            if !is_over || !self.pipe.has_input() {
                return if is_over { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
            }
        }
        self.vain = 0;
        let n = self.pipe.read(f).map_err(nonsense)?;
        if n > 0 && self.pipe.must_ring_for_room() {
            self.ring();
        }
        Ok(n)
    }

    /// Nothing has come. Says at times that the other side has ended, if it has.
    fn rest(&mut self) -> bool {
        if !self.is_looked_at {
            self.arm();
        }
        self.vain = self.vain.wrapping_add(1);
        self.vain.is_multiple_of(IN_VAIN) && self.is_over()
    }

    /// Whether there is something to do. Who asks does so again and again, until the bell is armed; `silence`: nobody sleeps on it.
    pub fn has_news(&mut self, silence: bool) -> bool {
        self.is_looked_at = true;
        if silence {
            self.silence();
        }
        self.pipe.has_news()
    }

    /// Has the other side ring from now on. If there is something to do, the bell is rung already.
    pub fn arm(&mut self) {
        self.is_looked_at = false;
        self.silence();
        if self.bell == Bell::Silent {
            self.pipe.arm();
            self.bell = Bell::Armed;
            self.ring_if_needed();
        }
    }

    fn silence(&mut self) {
        if self.bell == Bell::Armed && !self.pipe.is_armed() {
            self.bell = Bell::Rung;
        }
        // It cannot be read yet if the other side is only about to ring it.
        if self.bell == Bell::Rung && self.own.read().is_ok() {
            self.bell = Bell::Silent;
        }
    }

    fn ring_if_needed(&mut self) {
        if self.bell == Bell::Armed && self.pipe.has_news() {
            self.bell = Bell::Rung;
            if self.pipe.disarm() {
                // An error would mean that it is rung already.
                let _ = self.own.write(1);
            }
        }
    }

    fn ring(&self) {
        let _ = self.others.write(1);
    }
}

fn nonsense(_: Malformed) -> io::Error {
    ErrorKind::InvalidData.into()
}

impl ByteStream for Line {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = self.pipe.write(bufs.iter().map(|buf| &**buf)).map_err(nonsense)?;
        if n == 0 && bufs.iter().any(|buf| !buf.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.pipe.must_ring() {
            self.ring();
        }
        Ok(n)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut got = 0;
        for buf in bufs {
            let mut to = &mut **buf;
            while !to.is_empty() {
                let copied = self.look(|there| {
                    let n = there.len().min(to.len());
                    to[..n].copy_from_slice(&there[..n]);
                    n
                });
                match copied {
                    Ok(0) => return Ok(got),
                    Ok(n) => (to, got) = (&mut to[n..], got + n),
                    Err(e) if got == 0 => return Err(e),
                    Err(_) => return Ok(got),
                }
            }
        }
        Ok(got)
    }

    fn cut(&mut self) {
        self.socket.cut();
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::{ends, name};
