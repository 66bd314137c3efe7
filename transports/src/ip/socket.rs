//! One nonblocking TCP connection.
//!
//! Used by the handshakes and by stream lanes. Invariant: closed on exec, never blocks, never raises SIGPIPE.

use crate::stream::ByteStream;
use socket2::{Domain, SockRef, TcpKeepalive, Type};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;
use wire::lane::InKernel;

/// TCP keep-alive: the first probe after 10 s of silence, then one every 5 s; the connection is dead when 6 are not answered.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5)).with_retries(6);
/// How long sent data may stay unacknowledged before the connection is dead (TCP_USER_TIMEOUT).
const UNACKNOWLEDGED: Duration = Duration::from_secs(40);
/// An ioctl of Linux (tcp(7)) that libc does not define: the bytes in the send queue that were not sent yet.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

/// A connected socket, or one that is connecting.
#[derive(Debug)]
pub struct Socket(TcpStream);

impl Socket {
    /// Sets the options of a connection that was accepted or is being dialled.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let options = SockRef::from(&stream);
        options.set_tcp_keepalive(&KEEPALIVE)?;
        options.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        Ok(Socket(stream))
    }

    /// Two ends of one.
    #[cfg(feature = "testing")]
    pub(crate) fn pair() -> io::Result<[Socket; 2]> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let one = TcpStream::connect(listener.local_addr()?)?;
        Ok([Socket::new(one)?, Socket::new(listener.accept()?.0)?])
    }

    /// The connection that this descriptor is of.
    pub(crate) fn of(fd: OwnedFd) -> io::Result<Socket> {
        Socket::new(fd.into())
    }

    /// Its descriptor.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0.into()
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    /// Whether it does not leave this host.
    pub(crate) fn is_near(&self) -> bool {
        let (Ok(there), Ok(here)) = (self.0.peer_addr(), self.0.local_addr()) else { return false };
        trust::is_near(there, here)
    }

    /// The bytes that were written and that the other side's kernel has not acknowledged.
    pub(crate) fn under_way(&self) -> u64 {
        self.count(libc::TIOCOUTQ)
    }

    /// Those of them that have not left this host yet.
    fn not_sent(&self) -> u64 {
        self.count(SIOCOUTQNSD)
    }

    fn count(&self, what: libc::Ioctl) -> u64 {
        let mut n: libc::c_int = 0;
        // SAFETY: the descriptor is open while it is borrowed, and `n` is what these requests fill.
        let done = unsafe { libc::ioctl(self.as_raw_fd(), what, &raw mut n) };
        if done == 0 { n as u64 } else { 0 }
    }

    /// Whether the other side has closed it, with nothing left to be read.
    pub(crate) fn is_closed(&self) -> bool {
        match self.0.peek(&mut [0]) {
            Ok(n) => n == 0,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// How many bytes wait, one at most; 0 at the end of the stream.
    pub(crate) fn look(&self) -> io::Result<usize> {
        self.0.peek(&mut [0])
    }

    /// The error of a connect that was under way, once the descriptor is writable.
    pub(crate) fn error(&self) -> Option<io::Error> {
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
        let socket = SockRef::from(&self.0);
        match bufs {
            // One buffer costs the kernel less than a vector of one.
            [one] => socket.send_with_flags(one, libc::MSG_NOSIGNAL),
            many => socket.send_vectored_with_flags(many, libc::MSG_NOSIGNAL),
        }
    }

    fn write_more(&mut self, bytes: &[u8]) -> io::Result<()> {
        let n = SockRef::from(&self.0).send_with_flags(bytes, libc::MSG_NOSIGNAL | libc::MSG_MORE)?;
        if n == bytes.len() { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match bufs {
            [one] => self.0.read(one),
            many => self.0.read_vectored(many),
        }
    }

    fn cut(&mut self) {
        // An error means that the connection has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn round_trip(&self) -> Option<Duration> {
        // SAFETY: all bits zero are a value of this structure of numbers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `len` bytes.
        let done = unsafe {
            libc::getsockopt(self.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &mut len)
        };
        (done == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
    }

    fn in_kernel(&self) -> Option<InKernel> {
        let bytes = self.under_way();
        Some(InKernel { bytes, flying: bytes > self.not_sent() })
    }
}

/// Begins to connect. The result is known when the descriptor is writable.
pub(crate) fn start_connect(to: SocketAddr) -> io::Result<Socket> {
    let fd = socket2::Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None)?;
    let socket = Socket::new(fd.into())?;
    match SockRef::from(&socket.0).connect(&to.into()) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(socket),
    }
}

/// Whether a connect has succeeded. `WouldBlock` as long as it is under way.
pub(crate) fn is_connected(socket: &Socket) -> io::Result<()> {
    if let Some(e) = socket.error() {
        return Err(e);
    }
    match socket.0.peer_addr() {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        Err(e) => Err(e),
    }
}
