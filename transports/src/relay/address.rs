//! This transport's entry in the contact record, its places to be dialled, its names, and what the setting says.
//!
//! Pure, but for names of hosts that are looked up.

pub(super) use crate::ip::unplace_through as unplace;
use crate::ip::{place_through, put, take_all};
use base::protocol::relay::MAX_RELAYS;
use base::protocol::transport::RELAY;
use std::net::{SocketAddr, ToSocketAddrs};
use wire::{About, Place, Scope, TransportId};

/// What others know of this transport.
pub const ABOUT: About =
    About { id: TransportId::registered(RELAY), word: "relay", title: "relay", scope: Scope::Passed, limit: 10_000 };

/// The port at which a relay listens if none is named.
pub const DEFAULT_PORT: u16 = 7433;

/// The entry of a process that waits at these relays.
pub(super) fn entry(relays: &[SocketAddr]) -> Vec<u8> {
    let mut out = Vec::new();
    relays.iter().take(MAX_RELAYS).for_each(|address| put(&mut out, address));
    out
}

/// The relays of an entry.
pub(super) fn relays(entry: &[u8]) -> Vec<SocketAddr> {
    let mut all = take_all(entry);
    all.truncate(MAX_RELAYS);
    all
}

/// A process, by way of the relay at this address.
pub(super) fn place(relay: SocketAddr, process: &[u8; 16]) -> Place {
    place_through(ABOUT.id, &relay, process, relay.to_string())
}

/// A relay as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// As it was written.
    pub text: String,
    /// Its addresses.
    pub addresses: Vec<SocketAddr>,
}

/// The relays in a value of the setting, or what is wrong with it.
pub(super) fn parse(value: &str) -> Result<Vec<Named>, String> {
    let mut all: Vec<Named> = Vec::new();
    for text in value.split([',', ';']).map(str::trim).filter(|text| !text.is_empty()) {
        let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let full = if has_port { text.to_owned() } else { format!("{text}:{DEFAULT_PORT}") };
        let addresses = full.to_socket_addrs().map_err(|e| format!("'{text}' is not HOST:PORT of a relay: {e}"))?;
        let named = Named { text: full.clone(), addresses: addresses.collect() };
        if named.addresses.is_empty() {
            return Err(format!("'{text}' has no address"));
        }
        if !all.contains(&named) {
            all.push(named);
        }
    }
    match all.len() {
        0 => Err("it names no relay".into()),
        1..=MAX_RELAYS => Ok(all),
        n => Err(format!("{n} relays are more than {MAX_RELAYS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_the_way_and_the_process() {
        let relay = "10.0.0.1:7".parse().unwrap();
        let one = place(relay, &[5; 16]);
        assert_eq!(unplace(&one), Some((relay, [5; 16])));
        assert!(one.is_sound());
        assert_eq!(unplace(&Place { address: one.address[..20].into(), ..one }), None);
        assert_eq!(relays(&entry(&[relay; 20])), [relay; MAX_RELAYS]);
    }

    #[test]
    fn the_setting_names_relays() {
        let texts = |value| parse(value).map(|all| all.into_iter().map(|one| one.text).collect::<Vec<_>>());
        assert_eq!(texts("127.0.0.1:5, 127.0.0.2;127.0.0.1:5").unwrap(), ["127.0.0.1:5", "127.0.0.2:7433"]);
        assert_eq!(texts("[::1]").unwrap(), ["[::1]:7433"]);
        for bad in ["", "127.0.0.1:x", "127.0.0.1:70000", " , "] {
            assert!(texts(bad).is_err(), "{bad}");
        }
        let many: Vec<_> = (1..10).map(|n| format!("127.0.0.{n}")).collect();
        assert_eq!(texts(&many.join(",")), Err("9 relays are more than 8".into()));
    }
}
