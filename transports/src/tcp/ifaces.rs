//! Which of this machine's addresses to listen on: `MPI_CONNECT_IFACE`.
//!
//! Used once at start. Invariant: without being told, only loopback.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, SockaddrLike};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfaceError {
    /// The system would not list its interfaces.
    System(String),
    /// This word names no interface that is up, and no address of this machine.
    Nothing(String),
}

impl fmt::Display for IfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IfaceError::System(e) => write!(f, "listing the network interfaces: {e}"),
            IfaceError::Nothing(word) => write!(f, "'{word}' matches no interface or address that is up here"),
        }
    }
}

/// One address of an interface that is up; ports are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    pub name: String,
    pub address: SocketAddr,
}

/// The addresses to listen on, loopback last. `setting`: the value of `MPI_CONNECT_IFACE`.
pub fn choose(setting: Option<&str>) -> Result<Vec<SocketAddr>, IfaceError> {
    pick(setting, &own()?)
}

/// Every address of every interface that is up.
fn own() -> Result<Vec<Own>, IfaceError> {
    let mut out = Vec::new();
    for i in getifaddrs().map_err(|e| IfaceError::System(e.to_string()))? {
        if !i.flags.contains(InterfaceFlags::IFF_UP) {
            continue;
        }
        let Some(address) = i.address else { continue };
        let address: SocketAddr = match address.family() {
            Some(AddressFamily::Inet) => match address.as_sockaddr_in() {
                Some(a) => SocketAddr::from((a.ip(), 0)),
                None => continue,
            },
            Some(AddressFamily::Inet6) => match address.as_sockaddr_in6() {
                Some(a) => SocketAddrV6::new(a.ip(), 0, 0, a.scope_id()).into(),
                None => continue,
            },
            _ => continue,
        };
        out.push(Own { name: i.interface_name, address });
    }
    Ok(out)
}

fn pick(setting: Option<&str>, own: &[Own]) -> Result<Vec<SocketAddr>, IfaceError> {
    let mut out: Vec<SocketAddr> = Vec::new();
    let loopback =
        |o: &Own| [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].contains(&o.address.ip());
    let words = match setting.map(str::trim) {
        None | Some("") => vec!["loopback"],
        Some(s) => s.split(',').map(str::trim).filter(|w| !w.is_empty()).collect(),
    };
    for word in words {
        let before = out.len();
        let mut any = false;
        for o in own {
            let hit = match word {
                "loopback" => loopback(o),
                "all" => true,
                _ => o.name == word || in_prefix(word, o.address.ip()),
            };
            any |= hit;
            if hit && !out.contains(&o.address) {
                out.push(o.address);
            }
        }
        if !any {
            return Err(IfaceError::Nothing(word.into()));
        }
        out[before..].sort_by_key(|a| a.ip().is_loopback());
    }
    // A dialler races all, but a reader of the log expects the useful ones first.
    out.sort_by_key(|a| a.ip().is_loopback());
    Ok(out)
}

/// Whether `word` is this address, or a prefix (`10.1.0.0/16`) that holds it.
fn in_prefix(word: &str, ip: IpAddr) -> bool {
    let (net, bits) = match word.split_once('/') {
        Some((net, bits)) => (net, bits.parse::<u32>().ok()),
        None => (word, Some(128)),
    };
    let (Ok(net), Some(bits)) = (net.parse::<IpAddr>(), bits) else {
        return false;
    };
    match (net, ip) {
        (IpAddr::V4(n), IpAddr::V4(a)) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            u32::from(n) & mask == u32::from(a) & mask
        }
        (IpAddr::V6(n), IpAddr::V6(a)) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            u128::from(n) & mask == u128::from(a) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<Own> {
        [("lo", "127.0.0.1"), ("lo", "::1"), ("eth0", "10.1.2.3"), ("eth0", "fd00::3"), ("ib0", "10.9.0.1")]
            .map(|(name, ip)| Own { name: name.into(), address: SocketAddr::new(ip.parse().unwrap(), 0) })
            .to_vec()
    }

    fn picked(s: Option<&str>) -> Vec<String> {
        pick(s, &machine()).unwrap().iter().map(|a| a.ip().to_string()).collect()
    }

    #[test]
    fn loopback_alone_unless_told_otherwise() {
        assert_eq!(picked(None), ["127.0.0.1", "::1"]);
        assert_eq!(picked(Some(" ")), ["127.0.0.1", "::1"]);
    }

    #[test]
    fn names_addresses_prefixes_and_all() {
        assert_eq!(picked(Some("ib0")), ["10.9.0.1"]);
        assert_eq!(picked(Some("fd00::/8,lo")), ["fd00::3", "127.0.0.1", "::1"]);
        assert_eq!(picked(Some("10.1.0.0/16, 10.9.0.1,eth0")), ["10.1.2.3", "10.9.0.1", "fd00::3"]);
        assert_eq!(picked(Some("0.0.0.0/0")), ["10.1.2.3", "10.9.0.1", "127.0.0.1"]);
        assert_eq!(picked(Some("all")).last().unwrap(), "::1");
        assert_eq!(picked(Some("all")).len(), 5);
    }

    #[test]
    fn what_matches_nothing_is_an_error() {
        assert_eq!(pick(Some("eth7"), &machine()), Err(IfaceError::Nothing("eth7".into())));
    }

    #[test]
    fn this_machine_has_loopback() {
        assert!(choose(None).unwrap().iter().any(|a| a.ip() == IpAddr::from(Ipv4Addr::LOCALHOST)));
    }
}
