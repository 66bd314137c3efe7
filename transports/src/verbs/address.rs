//! This transport's names, its entry in the contact record, its places, and the choice of ports.
//!
//! Pure. Invariant: of an entry that another process wrote, only what is whole counts.

use crate::ip::{host_part, put, put_all, take, take_all};
use base::bytes::{Malformed, Put, Take};
use base::protocol::rdma::{BY_GID, BY_LID, MAX_PORTS};
use base::protocol::transport::VERBS;
use base::rdma;
use std::net::SocketAddr;
use wire::{About, Place, Scope, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(VERBS), word: "verbs", title: "verbs", scope: Scope::Anywhere, limit: 10_000 };

/// How a port is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortAddress {
    pub kind: u8,
    pub lid: u16,
    pub gid: [u8; 16],
}

impl From<&rdma::Port> for PortAddress {
    fn from(port: &rdma::Port) -> PortAddress {
        PortAddress { kind: port.kind, lid: port.lid, gid: port.gid }
    }
}

impl PortAddress {
    /// Whether a packet from one may reach the other: over InfiniBand within a subnet, over Ethernet by addresses of one kind.
    fn reaches(&self, other: &PortAddress) -> bool {
        self.kind == other.kind
            && match self.kind {
                BY_LID => self.gid[..8] == other.gid[..8] && self.lid != 0 && other.lid != 0,
                BY_GID => is_v4(&self.gid) == is_v4(&other.gid),
                _ => false,
            }
    }

    /// Whether the addresses of two ports that may reach each other begin alike, as those of one network mostly do.
    fn is_near(&self, other: &PortAddress) -> bool {
        let network = if is_v4(&self.gid) { 15 } else { 8 };
        self.gid[..network] == other.gid[..network]
    }
}

fn is_v4(gid: &[u8; 16]) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff; 2]
}

/// The entry of a process with these ports, set up at these addresses.
pub(super) fn entry(ports: &[rdma::Port], addresses: &[SocketAddr]) -> Vec<u8> {
    let ports = &ports[..ports.len().min(MAX_PORTS)];
    let mut out = vec![ports.len() as u8];
    for port in ports {
        out.put_u8(port.kind);
        out.put_u16(port.lid);
        out.extend_from_slice(&port.gid);
    }
    put_all(&mut out, addresses);
    out
}

/// The ports and the addresses of an entry; none of an entry that is not whole.
pub(super) fn parse(entry: &[u8]) -> (Vec<PortAddress>, Vec<SocketAddr>) {
    let mut from = Take(entry);
    let mut ports = || {
        let count = from.u8()?;
        if usize::from(count) > MAX_PORTS {
            return Err(Malformed);
        }
        (0..count).map(|_| Ok(PortAddress { kind: from.u8()?, lid: from.u16()?, gid: from.array()? })).collect()
    };
    match ports() {
        Ok(ports) => (ports, take_all(from.0)),
        Err(Malformed) => Default::default(),
    }
}

/// All pairs of an own port and one of theirs, as numbers, between which packets may travel: first those whose addresses are of
/// one network. They begin at another one for each `turn`, so that lanes spread over all.
pub(super) fn routes(own: &[rdma::Port], theirs: &[PortAddress], turn: usize) -> Vec<(u8, u8)> {
    let mut all = Vec::new();
    for n in 0..own.len() {
        let ours = (n + turn) % own.len();
        let address = PortAddress::from(&own[ours]);
        let there = (0..theirs.len()).map(|k| (k + n + turn) % theirs.len());
        let mut fits: Vec<_> = there.filter(|k| address.reaches(&theirs[*k])).collect();
        fits.sort_by_key(|k| !address.is_near(&theirs[*k]));
        // No port of ours is used twice before each was once.
        let ranked =
            fits.iter().enumerate().map(|(at, k)| ((!address.is_near(&theirs[*k]), at), (ours as u8, *k as u8)));
        all.extend(ranked);
    }
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, route)| route).collect()
}

/// The place at an address, between these ports.
pub(super) fn place(address: SocketAddr, (own, theirs): (u8, u8)) -> Place {
    let mut bytes = Vec::new();
    put(&mut bytes, &address);
    bytes.extend_from_slice(&[own, theirs]);
    let text = format!("{address} (verbs)").into();
    Place { transport: ABOUT.id, address: bytes.into(), host_part: host_part(&address), text }
}

/// What [`place`] was made of.
pub(super) fn unplace(place: &Place) -> Option<(SocketAddr, (u8, u8))> {
    let mut from = Take(&place.address);
    let address = take(&mut from).ok()?;
    let ports = (from.u8().ok()?, from.u8().ok()?);
    from.end().ok()?;
    Some((address, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(kind: u8, lid: u16, gid: [u8; 16]) -> rdma::Port {
        rdma::Port { device: [0; 64], gid, lid, port: 1, gid_index: 0, kind, mtu: 3 }
    }

    fn v4(last: u8) -> [u8; 16] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
    }

    fn subnet(prefix: u8) -> [u8; 16] {
        [prefix; 16]
    }

    #[test]
    fn an_entry_survives_the_wire_and_half_of_it_is_none() {
        let (ports, at) = ([port(BY_GID, 0, v4(1)), port(BY_LID, 7, subnet(2))], ["127.0.0.1:80".parse().unwrap()]);
        let bytes = entry(&ports, &at);
        let (back, addresses) = parse(&bytes);
        assert_eq!((back, addresses), (ports.iter().map(PortAddress::from).collect(), at.to_vec()));
        assert_eq!(parse(&bytes[..20]), Default::default());
        assert_eq!(parse(&[9; 500]), Default::default());
        let many = vec![ports[0]; 20];
        let all = vec!["[fe80::1]:1".parse().unwrap(); 40];
        assert!(entry(&many, &all).len() <= wire::contact::MAX_ENTRY);
        assert_eq!(parse(&entry(&many, &all)).0.len(), MAX_PORTS);
    }

    #[test]
    fn ports_meet_where_packets_travel() {
        let own = [port(BY_LID, 1, subnet(1)), port(BY_LID, 2, subnet(2)), port(BY_GID, 0, v4(1))];
        let theirs = [
            PortAddress { kind: BY_GID, lid: 0, gid: v4(2) },
            PortAddress { kind: BY_LID, lid: 9, gid: subnet(2) },
            PortAddress { kind: BY_LID, lid: 0, gid: subnet(1) },
        ];
        // No subnet manager has given the last one a LID.
        assert_eq!(routes(&own, &theirs, 0), [(1, 1), (2, 0)]);
        assert_eq!(routes(&own, &theirs, 2), [(2, 0), (1, 1)]);
        assert_eq!(routes(&own, &[], 0), []);
        let link_local = PortAddress { kind: BY_GID, lid: 0, gid: [0xfe; 16] };
        assert_eq!(routes(&own, &[link_local], 1), []);
    }

    #[test]
    fn equal_ports_are_used_in_turn() {
        let own = [port(BY_GID, 0, v4(1)), port(BY_GID, 0, v4(2))];
        let theirs: Vec<_> = own.iter().map(PortAddress::from).collect();
        assert_eq!((routes(&own, &theirs, 0)[0], routes(&own, &theirs, 1)[0]), ((0, 0), (1, 1)));
    }

    /// Two networks that do not meet, and ports that another host counts the other way round.
    #[test]
    fn all_pairs_are_routes_and_those_of_one_network_come_first() {
        let net = |n: u8, last: u8| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, n, last];
        let own = [port(BY_GID, 0, net(1, 1)), port(BY_GID, 0, net(2, 1))];
        let theirs = [net(2, 2), net(1, 2)].map(|gid| PortAddress { kind: BY_GID, lid: 0, gid });
        assert_eq!(routes(&own, &theirs, 0), [(0, 1), (1, 0), (0, 0), (1, 1)]);
        assert_eq!(routes(&own, &theirs, 1), [(1, 0), (0, 1), (1, 1), (0, 0)]);
    }

    #[test]
    fn a_place_says_what_it_was_made_of() {
        let address = "10.0.0.1:7".parse().unwrap();
        let one = place(address, (1, 2));
        assert_eq!(unplace(&one), Some((address, (1, 2))));
        assert!(one.is_sound() && one.is_same_host(&place("10.0.0.1:8".parse().unwrap(), (0, 0))));
        assert_eq!(unplace(&Place { address: one.address[1..].into(), ..one }), None);
    }
}
