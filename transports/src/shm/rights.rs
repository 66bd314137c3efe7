//! Local connections: who is at the other end, and messages with descriptors.
//!
//! Used by both ends of the handshake. A connection keeps the bounds of messages, so a message is read whole or not at
//! all. Invariant: descriptors that come are closed unless somebody takes them, and never leak into programs that are
//! started.

use base::protocol::shared::SOCKET;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, getsockopt, listen, recv, recvmsg, sendmsg, socket, sockopt,
};
use nix::unistd::geteuid;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors in one message.
pub const MOST: usize = 3;

/// One end of a local connection. Nothing blocks.
#[derive(Debug)]
pub struct Connection(OwnedFd);

/// The name of a process's socket. It is in no folder, so nothing is left of it when the process is gone.
fn name_of(process: &[u8; 16]) -> nix::Result<UnixAddr> {
    let name = format!("{SOCKET}{:032x}", u128::from_be_bytes(*process));
    UnixAddr::new_abstract(name.as_bytes())
}

fn new_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

/// Where processes of this host come to.
#[derive(Debug)]
pub struct Door(OwnedFd);

impl Door {
    pub fn open(process: &[u8; 16]) -> io::Result<Door> {
        let fd = new_socket()?;
        bind(fd.as_raw_fd(), &name_of(process)?)?;
        listen(&fd, Backlog::MAXCONN)?;
        Ok(Door(fd))
    }

    /// A connection that waits. `Err(PermissionDenied)`: it was another user's, and is closed.
    pub fn accept(&self) -> io::Result<Connection> {
        let fd = accept4(self.0.as_raw_fd(), SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC)?;
        // SAFETY: the call has just made this descriptor, for us alone.
        let connection = Connection(unsafe { OwnedFd::from_raw_fd(fd) });
        connection.peer()?;
        Ok(connection)
    }
}

impl AsFd for Door {
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
    /// Nobody yet: see [`Connection::reach`].
    pub fn new() -> io::Result<Connection> {
        Ok(Connection(new_socket()?))
    }

    /// Connects to a process; `WouldBlock`: too many wait there just now.
    pub fn reach(&self, process: &[u8; 16]) -> io::Result<()> {
        connect(self.as_raw_fd(), &name_of(process)?)?;
        self.peer().map(drop)
    }

    /// The process at the other end, as the kernel says; an error if it is another user's.
    pub fn peer(&self) -> io::Result<i32> {
        let peer = getsockopt(self, sockopt::PeerCredentials)?;
        if peer.uid() != geteuid().as_raw() {
            return Err(Errno::EPERM.into());
        }
        Ok(peer.pid())
    }

    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        let n = sendmsg::<()>(self.as_raw_fd(), &[IoSlice::new(bytes)], rights, MsgFlags::MSG_NOSIGNAL, None)?;
        if n == bytes.len() { Ok(()) } else { Err(Errno::EMSGSIZE.into()) }
    }

    /// Reads one message, with what came along. An error if it is longer than `to`, or brings too much.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
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

    /// Whether the other end is there: nothing is ever said once the lane is up.
    pub fn is_open(&self) -> bool {
        matches!(
            recv(self.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK),
            Err(Errno::EAGAIN | Errno::EINTR)
        )
    }

    /// Ends the connection both ways; both sides see it.
    pub fn cut(&self) {
        // Already gone is as good.
        let _ = nix::sys::socket::shutdown(self.as_raw_fd(), nix::sys::socket::Shutdown::Both);
    }
}
