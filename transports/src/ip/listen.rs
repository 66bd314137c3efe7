//! The listening sockets of a process.
//!
//! Opened at start. Invariant: every address in the contact record is listened on as long as the listeners live.

use super::{MAX_ADDRESSES, Socket};
use base::fork::{keep_from_children, let_go};
use base::settings::PORTRANGE;
use socket2::{Domain, Type};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

/// `MPI_CONNECT_PORTRANGE`: the first and the last port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange(pub u16, pub u16);

impl PortRange {
    /// `MPI_CONNECT_PORTRANGE`, if it is set.
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<PortRange>, (&'static str, String)> {
        let parsed = |v: String| PortRange::parse(&v).ok_or_else(|| (PORTRANGE, format!("'{v}' is not FIRST-LAST")));
        get(PORTRANGE).map(parsed).transpose()
    }

    /// Parses `FIRST-LAST`, or one port.
    pub(crate) fn parse(s: &str) -> Option<PortRange> {
        let (lo, hi) = s.split_once('-').unwrap_or((s, s));
        let (lo, hi) = (lo.trim().parse().ok()?, hi.trim().parse().ok()?);
        (0 < lo && lo <= hi).then_some(PortRange(lo, hi))
    }
}

/// Why this process cannot listen.
#[derive(Debug)]
pub(crate) enum ListenError {
    /// Every port of the range is taken, on each of these addresses.
    RangeTaken(PortRange, Vec<IpAddr>),
    System(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::RangeTaken(PortRange(lo, hi), at) => {
                let at: Vec<_> = at.iter().map(IpAddr::to_string).collect();
                write!(
                    f,
                    "every port of MPI_CONNECT_PORTRANGE ({lo}-{hi}) is taken on {}: each process of a host needs one \
                     of its own",
                    at.join(", ")
                )
            }
            ListenError::System(e) => write!(f, "no port to listen on: {e}{}", base::mend(e)),
        }
    }
}

/// A listener that is handed from process to process, and that forked children close.
pub(crate) struct Kept(TcpListener);

impl Kept {
    pub(crate) fn new(listener: TcpListener) -> Kept {
        keep_from_children(&listener);
        Kept(listener)
    }

    /// One more descriptor of the same.
    pub(crate) fn again(&self) -> io::Result<Kept> {
        self.0.try_clone().map(Kept::new)
    }
}

impl std::ops::Deref for Kept {
    type Target = TcpListener;

    fn deref(&self) -> &TcpListener {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let_go(&self.0);
    }
}

/// The listening sockets. Their indices are their numbers, which do not change; a closed one leaves a gap.
pub(crate) struct Listeners(Vec<Option<TcpListener>>);

impl Listeners {
    /// Listens on every address that is possible. An error if none is, or if no port of the range is left on the addresses that
    /// other hosts could reach.
    pub(crate) fn open(addresses: &[SocketAddr], ports: Option<PortRange>) -> Result<Listeners, ListenError> {
        let mut out: Vec<TcpListener> = Vec::new();
        let mut taken = Vec::new();
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for a in addresses.iter().take(MAX_ADDRESSES) {
            match bind(*a, ports) {
                Ok(l) => out.push(l),
                Err(e) => {
                    base::log!(Info, "cannot listen on {}: {e}", a.ip());
                    if e.kind() == ErrorKind::AddrInUse {
                        taken.push(a.ip());
                    }
                    last = e;
                }
            }
        }
        if addresses.len() > MAX_ADDRESSES {
            let left = base::log::list(addresses[MAX_ADDRESSES..].iter().map(SocketAddr::ip), "");
            base::log!(Info, "more than {MAX_ADDRESSES} addresses: not listening on {left}; MPI_CONNECT_IFACE chooses");
        }
        let far = |ip: &IpAddr| !ip.is_loopback();
        let heard_of = out.iter().any(|l| l.local_addr().is_ok_and(|a| far(&a.ip())));
        match ports {
            Some(range) if !taken.is_empty() && (out.is_empty() || !heard_of && taken.iter().any(far)) => {
                Err(ListenError::RangeTaken(range, taken))
            }
            _ if out.is_empty() => Err(ListenError::System(last)),
            _ => Ok(Listeners(out.into_iter().map(Some).collect())),
        }
    }

    /// Listens at one more address, and returns the listener's number. Port 0 is any of `ports`.
    pub(crate) fn add(&mut self, address: SocketAddr, ports: Option<PortRange>) -> io::Result<usize> {
        let ports = if address.port() == 0 { ports } else { Some(PortRange(address.port(), address.port())) };
        let new = Some(bind(address, ports)?);
        let free = self.0.iter().position(Option::is_none);
        let at = free.unwrap_or(self.0.len());
        match free {
            Some(free) => self.0[free] = new,
            None => self.0.push(new),
        }
        Ok(at)
    }

    /// Listens at these addresses from now on, and no more at those that are gone. `kept` stay as long as this host has them.
    pub(crate) fn follow(&mut self, addresses: &[SocketAddr], ports: Option<PortRange>, kept: &[SocketAddr]) {
        let wanted = |ip: IpAddr| addresses.iter().chain(kept).any(|a| a.ip() == ip);
        for listener in &mut self.0 {
            listener.take_if(|l| !l.local_addr().is_ok_and(|a| wanted(a.ip())));
        }
        let have: Vec<IpAddr> = self.addresses().iter().map(SocketAddr::ip).collect();
        for new in addresses.iter().filter(|a| !have.contains(&a.ip())) {
            if self.addresses().len() == MAX_ADDRESSES {
                break;
            }
            if let Err(e) = self.add(*new, ports) {
                base::log!(Info, "cannot listen on {}: {e}", new.ip());
            }
        }
    }

    /// The sockets themselves.
    pub(crate) fn into_all(self) -> Vec<Kept> {
        self.0.into_iter().flatten().map(Kept::new).collect()
    }

    pub(crate) fn get(&self, i: usize) -> Option<&TcpListener> {
        self.0.get(i)?.as_ref()
    }

    /// Closes a listener.
    pub(crate) fn close(&mut self, i: usize) {
        self.0[i] = None;
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().flatten().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// The descriptors with the listeners' numbers.
    pub(crate) fn fds(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.0.iter().enumerate().filter_map(|(i, l)| Some((i, l.as_ref()?.as_fd())))
    }

    /// Accepts a connection at this listener. `WouldBlock` if none waits.
    pub(crate) fn accept(&self, i: usize) -> io::Result<Socket> {
        match self.get(i) {
            Some(l) => l.accept().and_then(|(stream, _)| Socket::new(stream)),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

fn bind(mut address: SocketAddr, ports: Option<PortRange>) -> io::Result<TcpListener> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    let PortRange(lo, hi) = ports.unwrap_or(PortRange(0, 0));
    // The ranks of a host begin at different ports, so that they do not all try the same ones in turn.
    let span = u32::from(hi - lo) + 1;
    let skip = std::process::id() % span;
    for i in 0..span {
        address.set_port(lo + ((skip + i) % span) as u16);
        match listen(address) {
            Ok(l) => return Ok(l),
            Err(e) if e.kind() == ErrorKind::AddrInUse => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    // Connections of an earlier process may still be in TIME_WAIT at this port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    // A whole job may dial at once.
    socket.listen(libc::SOMAXCONN)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(PortRange::parse("10-20"), Some(PortRange(10, 20)));
        assert_eq!(PortRange::parse("7"), Some(PortRange(7, 7)));
        for bad in ["", "0-5", "9-3", "a-b", "1-70000"] {
            assert_eq!(PortRange::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn listeners_follow_the_addresses_of_the_host() {
        let at = |all: &[&str]| all.iter().map(|a| format!("{a}:0").parse().unwrap()).collect::<Vec<SocketAddr>>();
        let mut listeners = Listeners::open(&at(&["127.77.32.1", "127.77.32.2"]), None).unwrap();
        let before = listeners.addresses();
        listeners.follow(&at(&["127.77.32.2", "127.77.32.3"]), None, &[]);
        let after = listeners.addresses();
        assert_eq!(after.len(), 2);
        assert!(after.contains(&before[1]) && !after.contains(&before[0]), "{before:?} {after:?}");
        assert!(after.iter().any(|a| a.ip().to_string() == "127.77.32.3"));
        listeners.follow(&at(&["127.77.32.3"]), None, &before[1..]);
        assert!(listeners.addresses().contains(&before[1]), "it is kept");
    }

    #[test]
    fn a_range_is_kept_and_used_up() {
        // A loopback address of this test's own, at which no other connection has a port.
        let a = ["127.77.31.10:0".parse().unwrap()];
        let range = PortRange(23_110, 23_111);
        let held: Vec<_> = (0..2).map(|_| Listeners::open(&a, Some(range)).unwrap()).collect();
        let mut ports: Vec<_> = held.iter().flat_map(|l| l.addresses()).map(|a| a.port()).collect();
        ports.sort_unstable();
        assert_eq!(ports, [23_110, 23_111]);
        let Err(e) = Listeners::open(&a, Some(range)) else { panic!("a third process got a port") };
        assert!(e.to_string().contains("23110-23111"), "{e}");
    }
}
