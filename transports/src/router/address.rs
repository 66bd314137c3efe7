//! This transport's entry in the contact record, its places to be dialled, and its names.
//!
//! Pure.

use super::frame::Open;
pub(super) use crate::ip::unplace_through as unplace;
use crate::ip::{place_through, put_all, take_all};
use base::protocol::transport::ROUTER;
use std::net::SocketAddr;
use wire::{About, Place, Scope, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(ROUTER), word: "router", title: "router", scope: Scope::Passed, limit: 10_000 };

/// The entry of a process whose router listens at these addresses.
pub(super) fn entry(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut out = Vec::new();
    put_all(&mut out, addresses);
    out
}

/// The addresses of an entry.
pub(super) fn routers(entry: &[u8]) -> Vec<SocketAddr> {
    take_all(entry)
}

/// A process, by way of its router at this address.
pub(super) fn place(router: SocketAddr, process: &[u8; 16]) -> Place {
    place_through(ABOUT.id, &router, process, format!("the router at {router}"))
}

/// Where a channel comes from that this has opened.
pub(super) fn origin(open: &Open) -> Place {
    match open.router {
        Some(router) => place(router, &open.from),
        None => Place { transport: ABOUT.id, address: open.from.into(), host_part: 0, text: "our router".into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_the_router_and_the_process() {
        let router = "10.0.0.1:7".parse().unwrap();
        let one = place(router, &[5; 16]);
        assert_eq!(unplace(&one), Some((router, [5; 16])));
        assert!(one.is_sound());
        assert_eq!(unplace(&Place { address: one.address[..20].into(), ..one }), None);
        assert_eq!(routers(&entry(&[router; 2])), [router; 2]);
        for router in [None, Some(router)] {
            assert!(origin(&Open { to: [1; 16], from: [2; 16], router }).is_sound());
        }
    }
}
