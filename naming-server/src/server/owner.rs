//! The owner of a client, whose share of the server is bounded: a user on this host, or another host. The server alone uses
//! this.
//!
//! Invariant: nothing that the client says of itself counts. The kernel tells its address, and the user that opened its end of
//! a connection within this host.

use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// The most memory of all names together, in bytes.
pub(super) const MAX_BYTES: usize = 128 << 20;

/// The owner of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Owner {
    /// A user of this host.
    User(u32),
    /// All clients of this host whose user is not known, as of closed connections. Their addresses do not count, since a client
    /// can choose among those of its host.
    Unknown,
    /// Another host: an address of IPv4, or of IPv6 without its last 64 bits, which a host can choose.
    Host(IpAddr),
}

impl Owner {
    /// The owner of the connection from `from` to our `to`. The kernel forgets the user when the client closes it.
    pub(super) fn of(from: SocketAddr, to: SocketAddr) -> Owner {
        let ip = from.ip().to_canonical();
        match end(from, to) {
            Some(End::Of(user)) => Owner::User(user),
            Some(End::Closed) => Owner::Unknown,
            None if ip.is_loopback() || ip == to.ip().to_canonical() => Owner::Unknown,
            None => Owner::Host(trust::host_of(ip)),
        }
    }
}

/// The client's end of a connection within this host.
enum End {
    Of(u32),
    /// The client has closed it, and the kernel does not know its user any more.
    Closed,
}

/// The client's end in the kernel's table of sockets (sock_diag(7)); `None` if that is on another host or gone.
fn end(from: SocketAddr, to: SocketAddr) -> Option<End> {
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::NetlinkSockDiag,
    );
    let kernel = kernel.ok()?;
    send(kernel.as_raw_fd(), &question(from, to), MsgFlags::empty()).ok()?;
    let mut answer = [0; 512];
    // The kernel has answered when send() returns.
    let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
    read(answer.get(..length)?, from.port(), to.port())
}

const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const LISTENS: u8 = 10;

/// The question for one socket, by both its ends.
fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut body = Vec::new();
    let (family, ends) = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (libc::AF_INET, [from.octets().to_vec(), to.octets().to_vec()]),
        (from, to) => (libc::AF_INET6, [from, to].map(six)),
    };
    body.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // In any state.
    body.extend(u32::MAX.to_ne_bytes());
    for port in [from.port(), to.port()] {
        body.extend(port.to_be_bytes());
    }
    for mut end in ends {
        end.resize(16, 0);
        body.extend(end);
    }
    // At any interface, and no cookie.
    body.extend(0u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let mut all = Vec::new();
    all.extend((16 + body.len() as u32).to_ne_bytes());
    all.extend(BY_FAMILY.to_ne_bytes());
    all.extend(REQUEST.to_ne_bytes());
    all.extend([0; 8]);
    all.extend(body);
    all
}

fn six(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The end in the answer, if that is of this socket. Its fields are: header (16 bytes), family, state, timer, retransmissions,
/// ports (2 each), addresses (16 each), interface, cookie (8), time-out, queues (4 each), user, inode.
fn read(answer: &[u8], from: u16, to: u16) -> Option<End> {
    let number = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let port = |at: usize| Some(u16::from_be_bytes(*answer.get(at..)?.first_chunk()?));
    let is_answer = answer.get(4..6)? == BY_FAMILY.to_ne_bytes();
    let is_it = *answer.get(17)? != LISTENS && port(20)? == from && port(22)? == to;
    let (user, inode) = (number(80)?, number(84)?);
    (is_answer && is_it).then_some(if inode == 0 { End::Closed } else { End::Of(user) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::getuid;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    /// An address of this host that is not loopback, if it has one.
    fn own_address() -> Option<IpAddr> {
        let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Nothing is sent: the kernel only chooses a route.
        probe.connect("192.0.2.1:9").ok()?;
        Some(probe.local_addr().unwrap().ip())
    }

    #[test]
    fn the_kernel_tells_who_opened_a_connection() {
        let own = own_address();
        if own.is_none() {
            println!("NOT CHECKED, since this host has none: connections at an address of its own");
        }
        for address in ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()].into_iter().chain(own) {
            let listener = TcpListener::bind((address, 0)).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ours, from) = listener.accept().unwrap();
            let to = ours.local_addr().unwrap();
            assert_eq!(Owner::of(from, to), Owner::User(getuid().as_raw()), "{address}");
            drop(client);
            assert_eq!(Owner::of(from, to), Owner::Unknown, "{address}: nobody's any more");
        }
    }

    /// This holds for any address of its own host that the client has chosen.
    #[test]
    fn a_client_that_is_gone_is_one_with_all_such() {
        let of = |from: &str, to: &str| Owner::of(SocketAddr::new(from.parse().unwrap(), 1), to.parse().unwrap());
        for (from, to) in [
            ("127.0.0.1", "127.0.0.1:2"),
            ("127.9.8.7", "127.0.0.1:2"),
            ("::ffff:127.9.8.7", "[::1]:2"),
            ("::1", "[::1]:2"),
            ("127.9.8.7", "10.0.0.1:2"),
            ("10.0.0.1", "10.0.0.1:2"),
            ("::ffff:10.0.0.1", "10.0.0.1:2"),
            ("2001:db8::1", "[2001:db8::1]:2"),
        ] {
            assert_eq!(of(from, to), Owner::Unknown, "{from} {to}");
        }
        assert!(matches!(of("10.0.0.2", "10.0.0.1:2"), Owner::Host(_)));
    }

    #[test]
    fn hosts_are_told_apart_by_what_they_cannot_choose() {
        let of = |ip: &str| Owner::of(SocketAddr::new(ip.parse().unwrap(), 1), "10.0.0.1:2".parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.2"), of("10.0.0.2"));
        assert_ne!(of("10.0.0.3"), of("10.0.0.2"));
    }
}
