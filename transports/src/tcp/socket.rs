//! One nonblocking TCP connection.
//!
//! Used by the handshakes and by stream lanes. Invariant: closed on exec, never blocks, never raises SIGPIPE.

use crate::stream::ByteStream;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, recv, send, sendmsg, setsockopt, socket,
    sockopt,
};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Seconds of silence before the kernel asks whether the other side is there, between two questions, and how many
/// go unanswered before it gives up.
const KEEPALIVE: (u32, u32, u32) = (10, 5, 6);
/// Milliseconds that sent data may stay unacknowledged before the kernel calls the connection dead.
const UNACKNOWLEDGED: u32 = 40_000;
/// Linux's, which libc does not have: bytes in the queue that were not sent.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

#[derive(Debug)]
pub struct Socket(TcpStream);

impl Socket {
    /// A connection that was accepted or has been dialled.
    pub fn new(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (idle, interval, count) = KEEPALIVE;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &idle)?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &interval)?;
        setsockopt(&stream, sockopt::TcpKeepCount, &count)?;
        setsockopt(&stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
        Ok(Socket(stream))
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    /// Ends the connection both ways; both sides see it.
    pub fn cut(&self) {
        // Already gone is as good.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// Bytes that were written and that the other side's kernel has not acknowledged.
    pub fn under_way(&self) -> u64 {
        self.count(libc::TIOCOUTQ)
    }

    /// Those of them that have not left yet.
    pub fn not_sent(&self) -> u64 {
        self.count(SIOCOUTQNSD)
    }

    fn count(&self, what: libc::Ioctl) -> u64 {
        let mut n: libc::c_int = 0;
        // SAFETY: the descriptor is open while it is borrowed, and `n` is what these requests fill.
        let done = unsafe { libc::ioctl(self.as_raw_fd(), what, &raw mut n) };
        if done == 0 { n as u64 } else { 0 }
    }

    /// Whether the other side has closed it, with nothing left to be read.
    pub(super) fn is_closed(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        !matches!(recv(self.as_raw_fd(), &mut [0], flags), Ok(1..) | Err(Errno::EAGAIN | Errno::EINTR))
    }

    pub(super) fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }

    /// What became of a connect that was under way, once the descriptor is writable.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.0.take_error().unwrap_or_else(Some)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ByteStream for Socket {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        Ok(match bufs {
            // The kernel has less to do for it.
            [one] => send(self.as_raw_fd(), one, flags)?,
            many => sendmsg::<()>(self.as_raw_fd(), many, &[], flags, None)?,
        })
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match bufs {
            [one] => Ok(recv(self.as_raw_fd(), one, MsgFlags::MSG_DONTWAIT)?),
            many => self.0.read_vectored(many),
        }
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.as_raw_fd())
    }
}

/// Begins to connect; the answer comes when the descriptor is writable.
pub fn start_connect(to: SocketAddr) -> io::Result<Socket> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    let socket = Socket::new(TcpStream::from(fd))?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(e) => Err(e.into()),
    }
}

/// Whether a connect under way has succeeded; `WouldBlock` as long as it is under way.
pub fn is_connected(socket: &Socket) -> io::Result<()> {
    if let Some(e) = socket.error() {
        return Err(e);
    }
    match socket.0.peer_addr() {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        Err(e) => Err(e),
    }
}
