//! Whose a client is, for what one alone may have of the server: on this host a user, elsewhere a host. The server alone
//! uses this.
//!
//! Invariant: what the client says of itself counts for nothing; the kernel tells where it is, and which user opened its
//! end of a connection within this host.

use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Of this host, over the loopback interface.
    User(u32),
    /// An address of IPv4, or of IPv6 without its last 64 bits, which a host may choose as it likes.
    Host(IpAddr),
}

impl Owner {
    /// Of the connection from `from` to our `to`.
    pub fn of(from: SocketAddr, to: SocketAddr) -> Owner {
        match from.ip().to_canonical() {
            ip if ip.is_loopback() => user(from, to).map_or(Owner::Host(ip), Owner::User),
            ip => Owner::Host(host(ip)),
        }
    }
}

/// The part of an address that one host cannot choose.
pub fn host(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        v4 => v4,
    }
}

/// The user that has opened a socket of this host, as the kernel's table of sockets has it (sock_diag(7)). Of one that is
/// closed already the kernel knows none.
fn user(from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::NetlinkSockDiag,
    );
    let kernel = kernel.ok()?;
    send(kernel.as_raw_fd(), &question(from, to), MsgFlags::empty()).ok()?;
    let mut answer = [0; 512];
    // It is there when the question is out.
    let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
    read(answer.get(..length)?, from.port(), to.port())
}

const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const LISTENS: u8 = 10;

/// One socket, by both its ends.
fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut body = Vec::new();
    let (family, ends) = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (libc::AF_INET, [from.octets().to_vec(), to.octets().to_vec()]),
        (from, to) => (libc::AF_INET6, [from, to].map(six)),
    };
    body.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // In whatever state.
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

/// The user in the answer, if it is of that socket: header (16 bytes), family, state, timer, retransmissions, ports (2 each),
/// addresses (16 each), interface, cookie (8), time-out, queues (4 each), user, inode.
fn read(answer: &[u8], from: u16, to: u16) -> Option<u32> {
    let number = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let port = |at: usize| Some(u16::from_be_bytes(*answer.get(at..)?.first_chunk()?));
    let is_answer = answer.get(4..6)? == BY_FAMILY.to_ne_bytes();
    let is_it = *answer.get(17)? != LISTENS && port(20)? == from && port(22)? == to;
    let (user, inode) = (number(80)?, number(84)?);
    (is_answer && is_it && inode != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::getuid;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_tells_who_opened_a_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ours, from) = listener.accept().unwrap();
            let to = ours.local_addr().unwrap();
            assert_eq!(Owner::of(from, to), Owner::User(getuid().as_raw()), "{address}");
            drop(client);
            assert_eq!(Owner::of(from, to), Owner::Host(from.ip()), "nobody's any more");
        }
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
