//! The local name of a router, and connections as descriptors: those of this host, on which listeners are handed over, and those
//! between routers.
//!
//! Invariant: nothing is sent to a process of another user, nothing blocks, and no forked child keeps any of it open. The name is abstract (unix(7)): one process at a
//! time has it, and the kernel frees it when that process ends.

use crate::ip::Kept;
use crate::stream::ByteStream;
use base::fork::{keep_from_children, let_go};
use base::protocol::router::SOCKET;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr,
    accept4, bind, connect, getsockopt, listen, recv, recvmsg, send, sendmsg, shutdown, socket, sockopt,
};
use nix::unistd::geteuid;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use trust::Trust;

/// The most listeners that one process hands another: a router has some of its own, and those of routers before it.
pub(super) const MOST_LISTENERS: usize = 64;

/// What a router hands a process with its listeners: the memory, the bell of the process, and its own.
pub(super) const DESCRIPTORS: usize = 3;

/// The name of the router for the processes of this user that have the same key.
pub(super) fn name(trust: &Trust) -> String {
    let key = trust.ring().own().id();
    let key: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{SOCKET}{}-{key}", geteuid())
}

fn new_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

fn is_ours(fd: &OwnedFd) -> io::Result<()> {
    let peer = getsockopt(fd, sockopt::PeerCredentials)?;
    if peer.uid() == geteuid().as_raw() { Ok(()) } else { Err(Errno::EPERM.into()) }
}

/// The socket to which the processes of a node connect.
pub(super) struct Listener(OwnedFd);

impl Listener {
    /// `AddrInUse` if another process has the name.
    pub fn open(name: &str) -> io::Result<Listener> {
        let fd = new_socket()?;
        bind(fd.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        listen(&fd, Backlog::MAXCONN)?;
        keep_from_children(&fd);
        Ok(Listener(fd))
    }

    /// Accepts a connection. `WouldBlock` if none waits; `PermissionDenied` if it was another user's, and is closed.
    pub fn accept(&self) -> io::Result<Raw> {
        let fd = accept4(self.0.as_raw_fd(), SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC)?;
        // SAFETY: the call has just made this descriptor, for us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        is_ours(&fd)?;
        Ok(Raw::new(fd))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let_go(&self.0);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connected stream socket, local or not, that forked children close.
#[derive(Debug)]
pub(super) struct Raw(OwnedFd);

impl Raw {
    pub fn new(fd: OwnedFd) -> Raw {
        keep_from_children(&fd);
        Raw(fd)
    }

    /// Connects to the router of this name.
    pub fn reach(name: &str) -> io::Result<Raw> {
        let fd = new_socket()?;
        connect(fd.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        is_ours(&fd)?;
        Ok(Raw::new(fd))
    }

    /// Says how many listeners there are, and hands them over, and what else is to be handed.
    pub fn hand(&self, listeners: &[Kept], more: &[OwnedFd]) -> io::Result<()> {
        let mut raw: Vec<RawFd> = listeners.iter().take(MOST_LISTENERS).map(|listener| listener.as_raw_fd()).collect();
        let count = [raw.len() as u8];
        raw.extend(more.iter().map(OwnedFd::as_raw_fd));
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&count)], rights, MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(())
    }

    /// The listeners that the other side hands over, and `N` descriptors more. `WouldBlock` if it has not yet.
    pub fn take<const N: usize>(&self) -> io::Result<(Vec<Kept>, [OwnedFd; N])> {
        let mut count = [0];
        let mut space = nix::cmsg_space!([RawFd; MOST_LISTENERS + DESCRIPTORS]);
        let mut into = [IoSliceMut::new(&mut count)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(self.0.as_raw_fd(), &mut into, Some(&mut space), flags)?;
        let mut fds = Vec::new();
        for message in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just made these descriptors, for us alone.
                fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        let is_whole = !got.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
        if got.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !is_whole || usize::from(count[0]) + N != fds.len() {
            return Err(ErrorKind::InvalidData.into());
        }
        let more = fds.split_off(fds.len() - N).try_into().map_err(|_| ErrorKind::InvalidData)?;
        Ok((fds.into_iter().map(|fd| Kept::new(fd.into())).collect(), more))
    }

    /// The pid of the process at the other end, as seen from here, if it is of this host.
    pub fn pid(&self) -> io::Result<i32> {
        let pid = getsockopt(&self.0, sockopt::PeerCredentials)?.pid();
        // It is none for who lives in another pid namespace.
        if pid > 0 { Ok(pid) } else { Err(ErrorKind::NotFound.into()) }
    }

    /// Whether the other side has ended, if nothing is said any more.
    pub fn has_ended(&self) -> bool {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        !matches!(recv(self.0.as_raw_fd(), &mut [0], flags), Err(Errno::EAGAIN | Errno::EINTR))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let_go(&self.0);
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ByteStream for Raw {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        Ok(match bufs {
            [one] => send(self.0.as_raw_fd(), one, flags)?,
            many => sendmsg::<()>(self.0.as_raw_fd(), many, &[], flags, None)?,
        })
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(match bufs {
            [one] => recv(self.0.as_raw_fd(), one, MsgFlags::MSG_DONTWAIT)?,
            many => nix::sys::uio::readv(&self.0, many)?,
        })
    }

    fn cut(&mut self) {
        // An error means that the connection has ended already.
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Both);
    }
}
