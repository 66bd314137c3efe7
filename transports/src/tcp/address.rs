//! Addresses as bytes, in the entry of a contact record and in places to be dialled; and this transport's names.
//!
//! Pure. Invariant: an entry never holds more than [`MAX_ADDRESSES`]; of a malformed entry, the addresses before the error
//! count.

use base::bytes::{Malformed, Put, Take};
use base::protocol::address::{V4, V6};
use base::protocol::transport::TCP;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::{About, Place, Scope, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(TCP), word: "tcp", title: "tcp", scope: Scope::Anywhere, limit: 10_000 };

pub(super) use base::protocol::address::MAX_ADDRESSES;

/// The entry of a process that listens at these addresses.
pub(crate) fn entry(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut out = Vec::new();
    addresses.iter().take(MAX_ADDRESSES).for_each(|address| put(&mut out, address));
    out
}

/// The addresses at which a process with this entry listens.
pub(crate) fn addresses(entry: &[u8]) -> Vec<SocketAddr> {
    let mut from = Take(entry);
    std::iter::from_fn(|| take(&mut from).ok()).take(MAX_ADDRESSES).collect()
}

/// Writes an address: the family (4 or 6), its bytes, for 6 the scope as u32, the port as u16.
fn put(out: &mut Vec<u8>, address: &SocketAddr) {
    match address {
        SocketAddr::V4(a) => {
            out.put_u8(V4);
            out.extend_from_slice(&a.ip().octets());
        }
        SocketAddr::V6(a) => {
            out.put_u8(V6);
            out.extend_from_slice(&a.ip().octets());
            out.put_u32(a.scope_id());
        }
    }
    out.put_u16(address.port());
}

fn take(from: &mut Take<'_>) -> Result<SocketAddr, Malformed> {
    Ok(match from.u8()? {
        V4 => {
            let ip: IpAddr = Ipv4Addr::from(from.array::<4>()?).into();
            (ip, from.u16()?).into()
        }
        V6 => {
            let (ip, scope) = (Ipv6Addr::from(from.array::<16>()?), from.u32()?);
            SocketAddrV6::new(ip, from.u16()?, 0, scope).into()
        }
        _ => return Err(Malformed),
    })
}

pub(crate) fn place(address: SocketAddr) -> Place {
    let mut bytes = Vec::new();
    put(&mut bytes, &address);
    let host_part = if address.is_ipv4() { 5 } else { 17 };
    Place { transport: ABOUT.id, address: bytes.into(), host_part, text: address.to_string().into() }
}

/// The address of a place of this transport.
pub(crate) fn address(place: &Place) -> Option<SocketAddr> {
    take(&mut Take(&place.address)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [SocketAddr; 2] {
        ["127.0.0.1:80".parse().unwrap(), SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3).into()]
    }

    #[test]
    fn addresses_survive_the_wire() {
        assert_eq!(addresses(&entry(&sample())), sample());
        let many = vec![sample()[1]; 40];
        assert_eq!(addresses(&entry(&many)).len(), MAX_ADDRESSES);
        assert!(entry(&many).len() <= wire::contact::MAX_ENTRY);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let mut bytes = entry(&sample());
        bytes.pop();
        assert_eq!(addresses(&bytes), sample()[..1]);
        bytes[0] = 5;
        assert_eq!(addresses(&bytes), []);
    }

    #[test]
    fn places_of_one_host_have_it_in_common() {
        let [v4, v6] = sample().map(place);
        assert_eq!(address(&v4), Some(sample()[0]));
        assert_eq!(v4.host(), place("127.0.0.1:81".parse().unwrap()).host());
        assert_eq!(v6.host(), place("[fe80::1%7]:1".parse().unwrap()).host());
        assert_ne!(v4.host(), place("127.0.0.2:80".parse().unwrap()).host());
    }
}
