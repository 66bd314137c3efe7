//! Port names: all that another job needs to reach one process, as text.
//!
//! A name is `mpic:` and the bytes below in base64url: letters, digits, `-` and `_`, which survive text files, shells
//! and Fortran. The short form is for a process with a single IPv4 address; it fits the 35 characters that LAM has room
//! for.
//!
//! | short | long |
//! |---|---|
//! | token (14), address (4), port u16, check u16 | token (14), process number (16), host number (16), addresses, check u16 |
//!
//! An address is its family (4; 6; 7 for IPv6 with a scope), its bytes, the scope u32 for 7, port u16. Numbers are
//! little-endian. The check tells a mistyped name from a port that is gone. Incarnation and cookie are derived from the
//! token.

use base::bytes::{Put, Take};
use base::hash::fnv128;
use base::ident::random;
use base::protocol::address::{V4, V6, V6_SCOPED};
use base::protocol::port::{PREFIX, short};
use data_encoding::BASE64URL_NOPAD;
use node::{Contact, at_addresses};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

pub use base::protocol::port::MAX_PORT_NAME as MAX;

const TOKEN: usize = short::ADDRESS;
const SHORT: usize = short::BYTES;

/// A port, as its name describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    token: [u8; TOKEN],
    /// The process number. The short form does not have it: then it is zero.
    process: [u8; 16],
    host: [u8; 16],
    /// The addresses at which the process listens.
    pub places: Vec<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// It does not have the form of our names.
    Malformed,
    /// It has the form of our names, but a part was lost or changed.
    Damaged,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameError::Malformed => "this is no port name, or only a part of one",
            NameError::Damaged => "the port name is damaged: a part of it is missing or has been changed",
        })
    }
}

/// Whether this is one of our names, be it damaged or not.
pub fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// A part of a name that may be shown, enough to tell two names apart. The whole name is the secret of its port.
pub fn sign(name: &str) -> String {
    let shown: String = name.chars().take(PREFIX.len() + 6).collect();
    if shown.len() < name.len() { shown + "…" } else { shown }
}

impl Address {
    /// A port of the process with this record, reached at these places.
    pub fn new(contact: &Contact, places: Vec<SocketAddr>) -> Address {
        Address { token: random(), process: contact.process, host: contact.host, places }
    }

    /// A contact record of its process, as far as the name tells.
    pub fn contact(&self) -> Contact {
        at_addresses(self.process, self.host, &self.places)
    }

    pub fn incarnation(&self) -> u64 {
        fnv128(&self.token) as u64
    }

    pub fn cookie(&self) -> [u8; 16] {
        let mut cookie = [0; 16];
        cookie[..TOKEN].copy_from_slice(&self.token);
        cookie
    }

    /// The name in at most `room` characters. Addresses that do not fit are left out, the last ones first. `None`: no
    /// address fits.
    pub fn name(&self, room: usize) -> Option<String> {
        let far: Vec<_> = self.places.iter().filter(|a| !a.ip().is_loopback()).collect();
        let v4 = |a: &&&SocketAddr| a.is_ipv4();
        let near = self.places.iter().find(|a| a.is_ipv4());
        let tells_all = if far.len() < 2 { far.first().copied().or(near).filter(|a| a.is_ipv4()) } else { None };
        let bytes = match tells_all {
            Some(address) => self.short(address),
            None => self.long(room).or_else(|| self.short(far.iter().find(v4).copied().or(near)?)),
        };
        let mut bytes = bytes?;
        bytes.put_u16(fnv128(&bytes) as u16);
        let name = PREFIX.to_owned() + &BASE64URL_NOPAD.encode(&bytes);
        (name.len() <= room).then_some(name)
    }

    fn short(&self, address: &SocketAddr) -> Option<Vec<u8>> {
        let IpAddr::V4(ip) = address.ip() else { return None };
        let mut out = self.token.to_vec();
        out.extend_from_slice(&ip.octets());
        out.put_u16(address.port());
        Some(out)
    }

    fn long(&self, room: usize) -> Option<Vec<u8>> {
        // A character holds six bits, and the check takes two bytes.
        let most = (room.checked_sub(PREFIX.len())? * 6 / 8).checked_sub(2)?;
        let mut out = self.token.to_vec();
        out.extend_from_slice(&self.process);
        out.extend_from_slice(&self.host);
        let without = out.len();
        for address in &self.places {
            let mut one = Vec::new();
            match address {
                SocketAddr::V4(a) => {
                    one.put_u8(V4);
                    one.extend_from_slice(&a.ip().octets());
                }
                SocketAddr::V6(a) => {
                    one.put_u8(if a.scope_id() == 0 { V6 } else { V6_SCOPED });
                    one.extend_from_slice(&a.ip().octets());
                    if a.scope_id() != 0 {
                        one.put_u32(a.scope_id());
                    }
                }
            }
            one.put_u16(address.port());
            if out.len() + one.len() <= most {
                out.extend_from_slice(&one);
            }
        }
        (without <= most && (out.len() > without || self.places.is_empty())).then_some(out)
    }

    /// Reads a name. Blanks and line ends around it are ignored.
    pub fn parse(name: &str) -> Result<Address, NameError> {
        let text = name.strip_prefix(PREFIX).ok_or(NameError::Malformed)?;
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| NameError::Malformed)?;
        let (body, check) = bytes.split_last_chunk::<2>().ok_or(NameError::Malformed)?;
        if u16::from_le_bytes(*check) != fnv128(body) as u16 {
            return Err(NameError::Damaged);
        }
        Address::read(body, bytes.len() == SHORT).ok_or(NameError::Malformed)
    }

    fn read(body: &[u8], is_short: bool) -> Option<Address> {
        let mut from = Take(body);
        let token = from.array().ok()?;
        let mut address = Address { token, process: [0; 16], host: [0; 16], places: Vec::new() };
        if is_short {
            let ip = Ipv4Addr::from(from.array::<4>().ok()?);
            address.places.push((ip, from.u16().ok()?).into());
            return Some(address);
        }
        address.process = from.array().ok()?;
        address.host = from.array().ok()?;
        while !from.0.is_empty() {
            let family = from.u8().ok()?;
            let ip: IpAddr = match family {
                V4 => Ipv4Addr::from(from.array::<4>().ok()?).into(),
                V6 | V6_SCOPED => Ipv6Addr::from(from.array::<16>().ok()?).into(),
                _ => return None,
            };
            let scope = if family == V6_SCOPED { from.u32().ok()? } else { 0 };
            let port = from.u16().ok()?;
            address.places.push(match ip {
                IpAddr::V4(ip) => (ip, port).into(),
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
            });
        }
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addresses: &[&str]) -> Address {
        let places = addresses.iter().map(|a| a.parse().unwrap()).collect();
        Address { token: random(), process: [7; 16], host: [9; 16], places }
    }

    #[test]
    fn one_address_takes_35_characters() {
        for addresses in [&["127.0.0.1:4000", "[::1]:4001"][..], &["10.1.2.3:65535", "127.0.0.1:4000"]] {
            let port = at(addresses);
            let name = port.name(35).unwrap();
            assert_eq!((name.len(), port.name(MAX)), (35, Some(name.clone())));
            let read = Address::parse(&name).unwrap();
            assert_eq!((read.incarnation(), read.cookie()), (port.incarnation(), port.cookie()));
            assert_eq!(read.places, port.places[..1]);
        }
    }

    #[test]
    fn several_come_back_as_far_as_they_fit() {
        let mut port = at(&["10.1.2.3:1", "[fd00::1]:2", "192.168.0.1:3", "127.0.0.1:4"]);
        port.places.push(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3).into());
        assert_eq!(Address::parse(&port.name(MAX).unwrap()), Ok(port.clone()));
        port.places = (0..30).map(|i| format!("10.0.0.{i}:80").parse().unwrap()).collect();
        let name = port.name(MAX).unwrap();
        assert!(name.len() <= MAX && name.bytes().all(|b| b.is_ascii_graphic()));
        assert_eq!(Address::parse(&name).unwrap().places, port.places[..19]);
        // Where there is room for the short form alone, the first will do.
        let short = Address::parse(&port.name(35).unwrap()).unwrap();
        assert_eq!(short.places, port.places[..1]);
        assert_eq!(port.name(34), None);
    }

    #[test]
    fn without_addresses_there_is_shared_memory() {
        let port = at(&[]);
        assert_eq!(Address::parse(&port.name(MAX).unwrap()), Ok(port.clone()));
        assert_eq!(port.name(35), None);
    }

    #[test]
    fn little_of_a_name_is_shown() {
        let name = at(&["127.0.0.1:4000"]).name(35).unwrap();
        let shown = sign(&name);
        assert_eq!(shown, format!("{}…", &name[..11]));
        assert_eq!((sign("mpic:"), sign("")), ("mpic:".into(), String::new()));
    }

    #[test]
    fn slips_are_noticed() {
        for port in [at(&["127.0.0.1:4000"]), at(&["10.1.2.3:1", "[fd00::1]:2"])] {
            let name = port.name(MAX).unwrap();
            for n in 0..name.len() {
                assert!(Address::parse(&name[..n]).is_err(), "{n}");
                let mut changed = name.clone().into_bytes();
                changed[n] = if changed[n] == b'x' { b'y' } else { b'x' };
                assert!(Address::parse(std::str::from_utf8(&changed).unwrap()).is_err(), "{n}");
            }
            assert!(Address::parse(&(name + "A")).is_err());
        }
        for other in ["", "mpic:", "tag#0$description#host$", "mpic:AAAA", "mpic:ä"] {
            assert!(Address::parse(other).is_err(), "{other}");
        }
    }
}
