//! This transport's entry in the contact record, its places to be dialled, and its names.
//!
//! Pure.

use crate::ip::{host_part, put, put_all, take, take_all};
use base::bytes::Take;
use base::protocol::transport::TCP;
use std::net::SocketAddr;
use wire::{About, Place, Scope, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(TCP), word: "tcp", title: "tcp", scope: Scope::Anywhere, limit: 10_000 };

/// The entry of a process that listens at these addresses.
pub(crate) fn entry(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut out = Vec::new();
    put_all(&mut out, addresses);
    out
}

/// The addresses at which a process with this entry listens.
pub(crate) fn addresses(entry: &[u8]) -> Vec<SocketAddr> {
    take_all(entry)
}

pub(crate) fn place(address: SocketAddr) -> Place {
    let mut bytes = Vec::new();
    put(&mut bytes, &address);
    let text = address.to_string().into();
    Place { transport: ABOUT.id, address: bytes.into(), host_part: host_part(&address), text }
}

/// The address of a place of this transport.
pub(crate) fn address(place: &Place) -> Option<SocketAddr> {
    take(&mut Take(&place.address)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::MAX_ADDRESSES;
    use std::net::SocketAddrV6;

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
