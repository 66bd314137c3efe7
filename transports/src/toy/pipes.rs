//! Two pipes as one byte stream, and the lane over it.

use crate::stream::link::Link;
use crate::stream::{ByteStream, StreamLane};
use crate::transport::Watched;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::uio::{readv, writev};
use nix::unistd::{dup3, pipe2};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::lane::Lane;

/// A lane over two pipes.
pub(crate) type ToyLane = StreamLane<Link<Pipes>>;

/// The ends of one side. SIGPIPE has to be ignored in a process that uses it, as Rust's test programs do.
pub struct Pipes {
    to: OwnedFd,
    from: OwnedFd,
    is_cut: bool,
}

impl Pipes {
    /// The ends of both sides.
    pub(crate) fn pair() -> io::Result<[Pipes; 2]> {
        let new = || pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC);
        let ((x, to_x), (y, to_y)) = (new()?, new()?);
        Ok([Pipes { to: to_y, from: x, is_cut: false }, Pipes { to: to_x, from: y, is_cut: false }])
    }

    /// Whether the other side has closed it, with nothing left to be read.
    pub(crate) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::ZERO);
        fds[0].revents() == Some(PollFlags::POLLHUP)
    }
}

/// The end to be read.
impl AsFd for Pipes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}

impl ByteStream for Pipes {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(writev(&self.to, bufs)?)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.is_cut { Ok(0) } else { Ok(readv(&self.from, bufs)?) }
    }

    /// A pipe can only be closed. The number of the descriptor must stay in use, since it is watched, so it becomes the end of
    /// another pipe, whose other end is closed.
    fn cut(&mut self) {
        let dead = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).map(|(_, dead)| dead);
        let cut = dead.and_then(|dead| dup3(dead, &mut self.to, OFlag::O_CLOEXEC));
        self.is_cut = cut.is_ok();
    }

    fn descriptors(&self) -> usize {
        2
    }
}

impl Watched for ToyLane {
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        let is_full = Lane::<base::memory::VecMemory>::wants_write(self);
        let pipes = self.stream().stream();
        f(0, pipes.to.as_fd(), is_full);
        f(1, pipes.from.as_fd(), false);
    }
}
