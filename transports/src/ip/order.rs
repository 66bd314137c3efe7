//! The addresses at which a process is dialled, and their order.
//!
//! Used before each race. Invariant: an address that can only lead back to this machine is not dialled for a process of
//! another one, if there is any other.

use super::ifaces::{Iface, is_link_local, own};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

/// The most addresses of one race; link-local ones are many where both sides have many links.
const MOST: usize = 64;

/// How long a list of this machine's interfaces is used.
const SAME_OWN: Duration = Duration::from_secs(1);

/// This machine's interfaces, and when they were listed.
#[derive(Default)]
pub(crate) struct Ways {
    own: Vec<Iface>,
    since: Option<Instant>,
}

impl Ways {
    /// The addresses at which this machine dials a process that listens at `theirs`, in their order.
    pub(crate) fn to(
        &mut self,
        theirs: &[SocketAddr],
        near: Option<bool>,
        worked: Option<SocketAddr>,
    ) -> Vec<SocketAddr> {
        if near != Some(true) && self.since.is_none_or(|t| t.elapsed() >= SAME_OWN) {
            // With an empty list, no address is left out.
            self.own = own().unwrap_or_default();
            self.since = Some(Instant::now());
        }
        ways(theirs, near, &self.own, worked)
    }
}

/// The addresses of a process as this machine dials them. `own` are this machine's interfaces; `near` says whether the process
/// is on this host, if that is known.
///
/// The order is: the address at which it answered last (`worked`); loopback, if the process is on this host; addresses in a
/// network of ours; all others; link-local ones. The scope of a link-local address is its owner's number for the link, and it
/// may be any link of ours, so each is tried.
fn ways(theirs: &[SocketAddr], near: Option<bool>, own: &[Iface], worked: Option<SocketAddr>) -> Vec<SocketAddr> {
    let (near, far) = (near == Some(true), near == Some(false));
    let leads_back =
        |ip: IpAddr| far && (ip.is_loopback() || own.iter().any(|o| o.address.ip() == ip && !is_link_local(ip)));
    let nothing_else = theirs.iter().all(|a| leads_back(a.ip()));
    let mut out: Vec<(u8, SocketAddr)> = Vec::new();
    for &address in theirs {
        let ip = address.ip();
        match address {
            _ if leads_back(ip) && !nothing_else => continue,
            SocketAddr::V6(v6) if is_link_local(ip) && !near => {
                out.extend(links(own).map(|scope| (3, on_link(v6, scope))));
            }
            _ if ip.is_loopback() => out.push((if near { 0 } else { 4 }, address)),
            _ if is_link_local(ip) => out.push((3, address)),
            _ if own.iter().any(|o| o.running && o.is_neighbour(ip)) => out.push((1, address)),
            _ => out.push((2, address)),
        }
    }
    out.sort_by_key(|(rank, address)| (Some(*address) != worked, *rank));
    out.truncate(MOST);
    out.into_iter().map(|(_, address)| address).collect()
}

/// The scopes of our links that have link-local addresses, those with a carrier first.
fn links(own: &[Iface]) -> impl Iterator<Item = u32> {
    let mut scopes: Vec<(bool, u32)> = own
        .iter()
        .filter_map(|o| match o.address {
            SocketAddr::V6(v6) if is_link_local(o.address.ip()) => Some((!o.running, v6.scope_id())),
            _ => None,
        })
        .collect();
    scopes.sort_unstable();
    scopes.dedup();
    scopes.into_iter().map(|(_, scope)| scope)
}

fn on_link(address: SocketAddrV6, scope: u32) -> SocketAddr {
    let ip: Ipv6Addr = *address.ip();
    SocketAddrV6::new(ip, address.port(), 0, scope).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Option<bool> = Some(true);
    const THEM: Option<bool> = Some(false);

    fn mine(text: &str, bits: u8) -> Iface {
        Iface { bits, ..Iface::at("eth0", text.parse().unwrap()) }
    }

    fn machine() -> Vec<Iface> {
        let mut all = vec![mine("127.0.0.1:0", 8), mine("172.17.0.1:0", 16), mine("10.1.0.7:0", 16)];
        all.push(mine("[fe80::7%3]:0", 64));
        all.push(Iface { name: "eth1".into(), ..mine("[fe80::8%5]:0", 64) });
        all
    }

    fn dialled(near: Option<bool>, addresses: &[&str], worked: Option<&str>) -> Vec<String> {
        let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let worked = worked.map(|a| a.parse().unwrap());
        ways(&addresses, near, &machine(), worked).iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn what_leads_back_here_is_not_dialled() {
        let all = ["172.17.0.1:5", "192.0.2.1:5", "10.1.0.9:5", "127.0.0.1:5", "[::1]:5"];
        assert_eq!(dialled(THEM, &all, None), ["10.1.0.9:5", "192.0.2.1:5"]);
        assert_eq!(dialled(THEM, &all, Some("192.0.2.1:5")), ["192.0.2.1:5", "10.1.0.9:5"]);
        // On this host, every address leads to it.
        assert_eq!(dialled(US, &all, None), ["127.0.0.1:5", "[::1]:5", "172.17.0.1:5", "10.1.0.9:5", "192.0.2.1:5"]);
        // It may be on this host.
        assert_eq!(dialled(None, &["127.0.0.1:5", "192.0.2.1:5"], None), ["192.0.2.1:5", "127.0.0.1:5"]);
        assert_eq!(dialled(THEM, &["127.0.0.1:5"], None), ["127.0.0.1:5"]);
    }

    #[test]
    fn a_link_local_address_is_tried_on_every_link_of_ours() {
        let theirs = "[fe80::99%88]:5";
        assert_eq!(dialled(THEM, &[theirs, "10.1.0.9:5"], None), ["10.1.0.9:5", "[fe80::99%3]:5", "[fe80::99%5]:5"]);
        assert_eq!(dialled(THEM, &[theirs], Some("[fe80::99%5]:5")), ["[fe80::99%5]:5", "[fe80::99%3]:5"]);
        assert_eq!(dialled(US, &["[fe80::7%3]:5"], None), ["[fe80::7%3]:5"]);
    }
}
