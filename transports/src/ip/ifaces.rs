//! The network interfaces of this machine, and the choice of addresses to listen on: `MPI_CONNECT_IFACE`.
//!
//! Used at start and before a race. Invariant: without a setting, an address is chosen only if it is loopback, or may lead
//! here from another host.

use super::reach::{SYS, is_for_guests, ways_out};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;

/// Why `MPI_CONNECT_IFACE` gives no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfaceError {
    /// The system could not list its interfaces.
    System(String),
    /// A word names no interface that is up, and no address of this machine.
    Nothing {
        /// The word of the setting.
        word: String,
        /// The interfaces of this machine and their addresses, for people.
        there: String,
    },
    /// Every address that is named is excluded too.
    AllExcluded,
}

impl fmt::Display for IfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IfaceError::System(e) => write!(f, "listing the network interfaces: {e}"),
            IfaceError::Nothing { word, there } => {
                write!(f, "'{word}' matches no interface or address that is up here; there are {there}")
            }
            IfaceError::AllExcluded => f.write_str("nothing is left when what has a '!' is left out"),
        }
    }
}

/// One address of an interface that is up; its port is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Iface {
    pub name: String,
    pub address: SocketAddr,
    /// The length of its network's prefix.
    pub bits: u8,
    /// It has a carrier (IFF_RUNNING).
    pub running: bool,
    /// It leads to no other host: it drops everything that is sent to it, as `dummy0` does, or it is there for guests of this
    /// host, as `docker0` is.
    pub nowhere: bool,
    /// A default route of this address's kind goes over it.
    pub leads_out: bool,
}

impl Iface {
    /// An ordinary interface.
    #[cfg(test)]
    pub(crate) fn at(name: &str, address: SocketAddr) -> Iface {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Iface { name: name.into(), address, bits, running: true, nowhere: false, leads_out: false }
    }

    fn new(i: &InterfaceAddress) -> Option<Iface> {
        let address = to_address(i.address.as_ref()?)?;
        let mask = i.netmask.as_ref().and_then(to_address);
        let bits = match mask.map(|m| m.ip()) {
            Some(IpAddr::V4(mask)) => u32::from(mask).leading_ones() as u8,
            Some(IpAddr::V6(mask)) => u128::from(mask).leading_ones() as u8,
            None => u8::MAX,
        };
        let has = |flags| i.flags.contains(flags);
        // Interfaces without ARP that do lead somewhere are point to point, or have multicast.
        let nowhere = has(InterfaceFlags::IFF_NOARP)
            && !has(InterfaceFlags::IFF_POINTOPOINT)
            && !has(InterfaceFlags::IFF_MULTICAST)
            && !has(InterfaceFlags::IFF_LOOPBACK);
        let (running, name) = (has(InterfaceFlags::IFF_RUNNING), i.interface_name.clone());
        Some(Iface { name, address, bits, running, nowhere, leads_out: false })
    }

    /// Whether `ip` is in this address's own network.
    pub(crate) fn is_neighbour(&self, ip: IpAddr) -> bool {
        same_prefix(self.address.ip(), ip, self.bits.into())
    }

    /// Whether another host may reach this address.
    fn may_be_reached(&self) -> bool {
        self.running && !self.nowhere && !self.address.ip().is_loopback()
    }

    /// Orders addresses by how likely they lead to another host, since a contact record holds only the first few.
    fn rank(&self) -> u8 {
        match self.address.ip() {
            ip if ip.is_loopback() => 6,
            _ if self.nowhere => 5,
            _ if !self.running => 4,
            ip => u8::from(!self.leads_out) + 2 * u8::from(is_link_local(ip)),
        }
    }
}

fn to_address(from: &SockaddrStorage) -> Option<SocketAddr> {
    match from.family()? {
        AddressFamily::Inet => Some(SocketAddr::from((from.as_sockaddr_in()?.ip(), 0))),
        AddressFamily::Inet6 => {
            let v6 = from.as_sockaddr_in6()?;
            Some(SocketAddrV6::new(v6.ip(), 0, 0, v6.scope_id()).into())
        }
        _ => None,
    }
}

/// The addresses to listen on, loopback last, for this value of `MPI_CONNECT_IFACE`; their ports are 0.
pub fn choose(setting: Option<&str>) -> Result<Vec<SocketAddr>, IfaceError> {
    pick(setting, &own()?)
}

/// The addresses of all interfaces that are up.
pub(crate) fn own() -> Result<Vec<Iface>, IfaceError> {
    let all = getifaddrs().map_err(|e| {
        let e = io::Error::from(e);
        IfaceError::System(format!("{e}{}", base::mend(&e)))
    })?;
    let mut own: Vec<_> =
        all.filter(|i| i.flags.contains(InterfaceFlags::IFF_UP)).filter_map(|i| Iface::new(&i)).collect();
    let out = ways_out();
    for o in &mut own {
        let over: Vec<bool> = out.iter().filter(|(name, _)| *name == o.name).map(|(_, is_v6)| *is_v6).collect();
        o.leads_out = over.contains(&o.address.is_ipv6());
        o.nowhere |= over.is_empty() && is_for_guests(Path::new(SYS), &o.name);
    }
    Ok(own)
}

fn pick(setting: Option<&str>, own: &[Iface]) -> Result<Vec<SocketAddr>, IfaceError> {
    let words: Vec<_> = setting.unwrap_or("").split(',').map(str::trim).filter(|w| !w.is_empty()).collect();
    let (no, yes): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|w| w.starts_with('!'));
    let yes = if yes.is_empty() { vec!["default"] } else { yes };
    let excluded = |o: &Iface| no.iter().any(|word| matches(word[1..].trim(), o, own));
    let mut chosen: Vec<&Iface> = Vec::new();
    for word in yes {
        let before = chosen.len();
        let hits = own.iter().filter(|o| matches(word, o, own));
        let any = hits.clone().next().is_some();
        if !any {
            return Err(IfaceError::Nothing { word: word.into(), there: list(own) });
        }
        for o in hits.filter(|o| !excluded(o)) {
            if chosen.iter().all(|c| c.address != o.address) {
                chosen.push(o);
            }
        }
        chosen[before..].sort_by_key(|o| o.address.ip().is_loopback());
    }
    if chosen.is_empty() {
        return Err(IfaceError::AllExcluded);
    }
    chosen.sort_by_key(|o| o.rank());
    Ok(chosen.iter().map(|o| o.address).collect())
}

/// Whether a word of the setting means this address, one of all of `own`.
fn matches(word: &str, o: &Iface, own: &[Iface]) -> bool {
    match word {
        "all" => true,
        "default" => {
            matches("loopback", o, own) || o.may_be_reached() && (!is_link_local(o.address.ip()) || only_links(own))
        }
        "loopback" => [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].contains(&o.address.ip()),
        _ => o.name == word || in_prefix(word, o.address.ip()),
    }
}

/// Whether other hosts may reach this machine at link-local addresses alone.
fn only_links(own: &[Iface]) -> bool {
    !own.iter().any(|o| o.may_be_reached() && !is_link_local(o.address.ip()))
}

/// The interfaces and their addresses, for people.
fn list(own: &[Iface]) -> String {
    let mut out: Vec<(&str, String)> = Vec::new();
    for o in own {
        let ip = o.address.ip().to_string();
        match out.iter_mut().find(|(name, _)| *name == o.name) {
            Some((_, ips)) => *ips += &format!(" {ip}"),
            None => out.push((&o.name, ip)),
        }
    }
    base::log::list(out.iter().map(|(name, ips)| format!("{name} ({ips})")), "none")
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
    same_prefix(net, ip, bits)
}

/// Whether the first `bits` of two addresses are the same; at most all of them.
fn same_prefix(net: IpAddr, ip: IpAddr, bits: u32) -> bool {
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

/// Whether an address is valid on one link only.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<Iface> {
        [("lo", "127.0.0.1"), ("lo", "::1"), ("eth0", "10.1.2.3"), ("eth0", "fd00::3"), ("ib0", "10.9.0.1")]
            .map(|(name, ip)| Iface::at(name, SocketAddr::new(ip.parse().unwrap(), 0)))
            .to_vec()
    }

    fn picked(s: Option<&str>) -> Vec<String> {
        pick(s, &machine()).unwrap().iter().map(|a| a.ip().to_string()).collect()
    }

    #[test]
    fn by_default_all_that_may_be_reached_and_loopback() {
        let all = ["10.1.2.3", "fd00::3", "10.9.0.1", "127.0.0.1", "::1"];
        assert_eq!(picked(None), all);
        assert_eq!(picked(Some(" ")), all);
        assert_eq!(picked(Some("default")), all);
        assert_eq!(picked(Some("loopback")), ["127.0.0.1", "::1"]);
        assert_eq!(picked(Some("default,!10.0.0.0/8")), ["fd00::3", "127.0.0.1", "::1"]);
        assert_eq!(picked(Some("!eth0,!ib0")), ["127.0.0.1", "::1"]);
    }

    #[test]
    fn by_default_nothing_that_leads_nowhere() {
        let own = |name: &str, ip: &str| Iface::at(name, SocketAddr::new(ip.parse().unwrap(), 0));
        let default =
            |own: &[Iface]| -> Vec<String> { pick(None, own).unwrap().iter().map(|a| a.ip().to_string()).collect() };
        let mut all = vec![
            own("lo", "127.0.0.1"),
            own("lo", "127.0.0.9"),
            Iface { nowhere: true, ..own("docker0", "172.17.0.1") },
            Iface { running: false, ..own("eth1", "10.3.0.1") },
        ];
        assert_eq!(default(&all), ["127.0.0.1"]);
        // A link-local address is better than none.
        all.push(own("eth0", "fe80::1"));
        all.push(Iface { nowhere: true, ..own("veth1", "fe80::2") });
        assert_eq!(default(&all), ["fe80::1", "127.0.0.1"]);
        // The machine's own address, where its links have none.
        all.push(own("lo", "10.4.0.1"));
        assert_eq!(default(&all), ["10.4.0.1", "127.0.0.1"]);
        assert_eq!(default(&all[..1]), ["127.0.0.1"]);
        let said = pick(None, &[]).unwrap_err().to_string();
        assert!(said.contains("'default'") && said.ends_with("there are none"), "{said}");
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
    fn what_has_an_exclamation_mark_is_left_out() {
        assert_eq!(picked(Some("all,!eth0,!lo")), ["10.9.0.1"]);
        assert_eq!(picked(Some("!10.0.0.0/8, !loopback")), ["fd00::3"]);
        // An exclusion may name what is not there.
        assert_eq!(picked(Some("ib0,!docker0")), ["10.9.0.1"]);
        assert_eq!(pick(Some("ib0,!all"), &machine()), Err(IfaceError::AllExcluded));
    }

    #[test]
    fn those_that_may_lead_somewhere_come_first() {
        let own = |name: &str, ip: &str| Iface::at(name, SocketAddr::new(ip.parse().unwrap(), 0));
        let mut all: Vec<_> =
            (0..40).map(|n| Iface { nowhere: true, ..own("dummy", &format!("10.{n}.0.1")) }).collect();
        all.push(own("eth0", "fe80::1"));
        all.push(Iface { running: false, ..own("docker0", "172.17.0.1") });
        all.push(own("eth0", "192.0.2.1"));
        all.push(Iface { leads_out: true, ..own("eth1", "198.51.100.1") });
        let picked: Vec<_> = pick(Some("all"), &all).unwrap().iter().map(|a| a.ip().to_string()).collect();
        assert_eq!(picked[..5], ["198.51.100.1", "192.0.2.1", "fe80::1", "172.17.0.1", "10.0.0.1"]);
    }

    #[test]
    fn what_matches_nothing_is_an_error_that_says_what_there_is() {
        let said = pick(Some("eth7"), &machine()).unwrap_err().to_string();
        assert!(said.contains("'eth7'") && said.contains("eth0 (10.1.2.3 fd00::3), ib0 (10.9.0.1)"), "{said}");
    }

    #[test]
    fn this_machine_has_loopback() {
        for setting in [None, Some("loopback")] {
            let chosen = choose(setting).unwrap();
            assert!(chosen.iter().any(|a| a.ip() == IpAddr::from(Ipv4Addr::LOCALHOST)));
        }
        assert!(own().unwrap().iter().any(|o| o.name == "lo" && o.bits == 8 && o.running && !o.nowhere));
    }
}
