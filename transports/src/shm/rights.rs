//! Local connections (unix(7), SOCK_SEQPACKET): messages with descriptors, and the user and pid of the other end.
//!
//! Used by both ends of the handshake. A connection keeps the bounds of messages, so a message is read whole or not at
//! all. Invariant: a descriptor that comes is owned by a value from the start and closed on exec, so none leaks.

use base::protocol::shared::SOCKET;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, getsockopt, listen, recv, recvmsg, sendmsg, socket, sockopt,
};
use nix::unistd::geteuid;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The most descriptors in one message.
pub(super) const MOST: usize = 3;

/// One end of a local connection. Nothing blocks.
#[derive(Debug)]
pub(super) struct Connection(OwnedFd);

/// The name of a process's socket. It is abstract, so nothing is left of it when the process has ended.
fn name_of(process: &[u8; 16]) -> nix::Result<UnixAddr> {
    let name = format!("{SOCKET}{:032x}", u128::from_be_bytes(*process));
    UnixAddr::new_abstract(name.as_bytes())
}

fn new_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

/// The socket to which other processes of this host connect.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    pub(super) fn open(process: &[u8; 16]) -> io::Result<Listener> {
        let fd = new_socket()?;
        bind(fd.as_raw_fd(), &name_of(process)?)?;
        listen(&fd, Backlog::MAXCONN)?;
        Ok(Listener(fd))
    }

    /// Accepts a connection. `WouldBlock` if none waits; `PermissionDenied` if it was another user's, and is closed.
    pub(super) fn accept(&self) -> io::Result<Connection> {
        let fd = accept4(self.0.as_raw_fd(), SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC)?;
        // SAFETY: the call has just made this descriptor, for us alone.
        let connection = Connection(unsafe { OwnedFd::from_raw_fd(fd) });
        connection.peer()?;
        Ok(connection)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Connection {
    /// One end of a connection within this process, and the descriptor of the other.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn pair() -> io::Result<(Connection, OwnedFd)> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let (one, other) = nix::sys::socket::socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        Ok((Connection(one), other))
    }

    /// An unconnected end: see [`Connection::reach`].
    pub(super) fn new() -> io::Result<Connection> {
        Ok(Connection(new_socket()?))
    }

    /// Connects to a process. `WouldBlock` if its backlog is full.
    pub(super) fn reach(&self, process: &[u8; 16]) -> io::Result<()> {
        connect(self.as_raw_fd(), &name_of(process)?)?;
        self.peer().map(drop)
    }

    /// The pid of the process at the other end, as the kernel says; an error if it is another user's.
    pub(super) fn peer(&self) -> io::Result<i32> {
        let peer = getsockopt(self, sockopt::PeerCredentials)?;
        if peer.uid() != geteuid().as_raw() {
            return Err(Errno::EPERM.into());
        }
        Ok(peer.pid())
    }

    pub(super) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        let n = sendmsg::<()>(self.as_raw_fd(), &[IoSlice::new(bytes)], rights, MsgFlags::MSG_NOSIGNAL, None)?;
        if n == bytes.len() { Ok(()) } else { Err(Errno::EMSGSIZE.into()) }
    }

    /// Reads one message with its descriptors. An error if it is longer than `to` or has more than [`MOST`] descriptors.
    pub(super) fn receive(&self, to: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut space = nix::cmsg_space!([RawFd; MOST]);
        let mut into = [IoSliceMut::new(to)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(self.as_raw_fd(), &mut into, Some(&mut space), flags)?;
        let mut fds = Vec::new();
        for message in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just made these descriptors, for us alone.
                fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        if got.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
            return Err(Errno::EMSGSIZE.into());
        }
        Ok((got.bytes, fds))
    }

    /// Whether the other end is open. Nothing is sent any more once the lane is up, so anything but "no data" is the end.
    pub(super) fn is_open(&self) -> bool {
        matches!(
            recv(self.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK),
            Err(Errno::EAGAIN | Errno::EINTR)
        )
    }

    /// Ends the connection both ways; both sides see it.
    pub(super) fn cut(&self) {
        // An error means that the connection has ended already.
        let _ = nix::sys::socket::shutdown(self.as_raw_fd(), nix::sys::socket::Shutdown::Both);
    }
}
