//! One end of a channel, as a byte stream.

use super::frame::{Open, Why};
use super::trunk::Trunk;
use crate::stream::ByteStream;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// One end of a channel; dropping it closes both.
pub(super) struct Channel {
    trunk: Arc<Trunk>,
    id: u32,
    bell: Arc<EventFd>,
}

impl Channel {
    /// Opens a channel to a process.
    pub fn open(trunk: &Arc<Trunk>, open: &Open) -> io::Result<Channel> {
        let (id, bell) = trunk.open(open)?;
        Ok(Channel { trunk: trunk.clone(), id, bell })
    }

    /// The next channel that another process has opened to this one.
    pub fn accept(trunk: &Arc<Trunk>) -> Option<(Channel, Open)> {
        let (id, bell, open) = trunk.accept()?;
        Some((Channel { trunk: trunk.clone(), id, bell }, open))
    }

    /// Why it has ended, if nothing is left to be read.
    pub fn ended(&self) -> Option<Why> {
        self.trunk.ended(self.id)
    }

    /// Whether there is room now where there was none.
    pub fn has_room_again(&self) -> bool {
        self.trunk.has_room_again(self.id)
    }
}

impl AsFd for Channel {
    /// Readable while something is to be read that was taken off the trunk, or there is room where there was none.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.trunk.forget(self.id);
    }
}

impl ByteStream for Channel {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.trunk.write(self.id, bufs)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.trunk.read(self.id, bufs)
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.trunk.flush(self.id)
    }

    fn has_output(&self) -> bool {
        self.trunk.has_output(self.id)
    }

    fn has_input(&self) -> bool {
        self.trunk.has_input(self.id)
    }

    fn cut(&mut self) {
        self.trunk.end(self.id);
    }
}

/// What tells of a handshake: the bell of its channel, and the trunk itself, since nobody else may be reading it.
pub(super) struct Ear(Epoll);

impl Ear {
    pub fn new(channel: &Channel) -> io::Result<Ear> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(channel, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        channel.trunk.tell(&epoll)?;
        Ok(Ear(epoll))
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}
