//! Port names: all that another job needs to reach one process, as text.
//!
//! A name is `mpic:` and the bytes below in base64url: letters, digits, `-` and `_`, which survive text files, shells
//! and Fortran. The short form is for a process with a single IPv4 address; it fits the 35 characters that LAM has room
//! for. The long form begins with a short one, and so leads to its port also where a program has room for those characters alone.
//!
//! | short | behind it in the long form, encoded by itself |
//! |---|---|
//! | token (14), IPv4 address (4; zeros if there is none), port u16, check u16 | process number (16), host number (16), addresses, check u16 |
//!
//! An address is its family (4; 6; 7 for IPv6 with a scope), its bytes, the scope u32 for 7, port u16. Numbers are
//! little-endian. The checks tell a mistyped name from a port that is gone; that of the first part is inverted in the long
//! form, so a short name with something behind it is wrong. Incarnation and cookie are derived from the
//! token.

use base::bytes::{Put, Take};
use base::hash::fnv128;
use base::ident::random;
use base::protocol::address::{V4, V6, V6_SCOPED};
use base::protocol::port::{PREFIX, long, short};
use data_encoding::BASE64URL_NOPAD;
use node::{Contact, at_addresses, public_number};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

pub use base::protocol::port::MAX_PORT_NAME as MAX;

const TOKEN: usize = short::ADDRESS;
/// The characters of the short form.
const HEAD: usize = PREFIX.len() + (short::BYTES * 8).div_ceil(6);
/// Those that the long form has behind it at least, with no address.
const SHORTEST_TAIL: usize = ((long::BYTES + 2) * 8).div_ceil(6);

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
        public_number("mpi-connect port", &self.token)
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
        let one = far.iter().find(v4).copied().or_else(|| self.places.iter().find(|a| a.is_ipv4()));
        let tells_all = one.is_some() && far.iter().all(|a| Some(*a) == one);
        let long = (!tells_all).then(|| self.head(one, true)).and_then(|head| Some((self.tail(&head, room)?, head)));
        if long.is_none() && one.is_none() {
            return None;
        }
        let (tail, head) = long.map_or_else(|| (None, self.head(one, false)), |(tail, head)| (Some(tail), head));
        let encode = |bytes: Vec<u8>| BASE64URL_NOPAD.encode(&bytes);
        let name = PREFIX.to_owned() + &encode(head) + &tail.map_or(String::new(), encode);
        (name.len() <= room).then_some(name)
    }

    /// The short form, with this address, or what the long form begins with.
    fn head(&self, address: Option<&SocketAddr>, is_long: bool) -> Vec<u8> {
        let (ip, port) = match address {
            Some(SocketAddr::V4(a)) => (*a.ip(), a.port()),
            _ => (Ipv4Addr::UNSPECIFIED, 0),
        };
        let mut out = self.token.to_vec();
        out.extend_from_slice(&ip.octets());
        out.put_u16(port);
        out.put_u16(check(&out, is_long));
        out
    }

    /// What the long form has behind this head. `None`: not one of the addresses fits.
    fn tail(&self, head: &[u8], room: usize) -> Option<Vec<u8>> {
        // A character holds six bits, and the check takes two bytes.
        let most = (room.checked_sub(HEAD)? * 6 / 8).checked_sub(2)?;
        let mut out = Vec::new();
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
        let fits = without <= most && (out.len() > without || self.places.is_empty());
        out.put_u16(check(&[head, &out].concat(), false));
        fits.then_some(out)
    }

    /// Reads a name. Blanks and line ends around it are ignored. So is what is left behind the short form where a program with
    /// little room has cut off the rest.
    pub fn parse(name: &str) -> Result<Address, NameError> {
        let text = name.strip_prefix(PREFIX).ok_or(NameError::Malformed)?;
        let (head, tail) = text.split_at_checked(HEAD - PREFIX.len()).ok_or(NameError::Malformed)?;
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| NameError::Malformed);
        let head = decode(head)?;
        let is_short = tail.is_empty() && is_whole(&head, false);
        if !is_short && !is_whole(&head, true) {
            return Err(NameError::Damaged);
        }
        let tail = if tail.len() < SHORTEST_TAIL { None } else { Some(decode(tail)?) };
        if tail.as_ref().is_some_and(|tail| !is_whole(&[&head[..], tail].concat(), false)) {
            return Err(NameError::Damaged);
        }
        Address::read(&head, tail.as_deref()).ok_or(NameError::Malformed)
    }

    /// What a name has, if its checks are right.
    fn read(head: &[u8], tail: Option<&[u8]>) -> Option<Address> {
        let mut from = Take(head);
        let token = from.array().ok()?;
        let mut address = Address { token, process: [0; 16], host: [0; 16], places: Vec::new() };
        let Some(tail) = tail else {
            let ip = Ipv4Addr::from(from.array::<4>().ok()?);
            if ip.is_unspecified() {
                return None;
            }
            address.places.push((ip, from.u16().ok()?).into());
            return Some(address);
        };
        let (tail, _check) = tail.split_last_chunk::<2>()?;
        let mut from = Take(tail);
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

/// Of the first part of a long name it is inverted.
fn check(of: &[u8], inverted: bool) -> u16 {
    let check = fnv128(of) as u16;
    if inverted { !check } else { check }
}

/// Whether the last two bytes are the check of those before.
fn is_whole(bytes: &[u8], inverted: bool) -> bool {
    let parts = bytes.split_last_chunk::<2>();
    parts.is_some_and(|(body, last)| u16::from_le_bytes(*last) == check(body, inverted))
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
        assert_eq!(Address::parse(&name).unwrap().places, port.places[..18]);
        // Where there is room for the short form alone, the first will do.
        let short = Address::parse(&port.name(35).unwrap()).unwrap();
        assert_eq!(short.places, port.places[..1]);
        assert_eq!(port.name(34), None);
    }

    #[test]
    fn the_beginning_of_a_long_name_is_a_short_one() {
        let port = at(&["[fd00::1]:2", "10.1.2.3:1", "192.168.0.1:3", "127.0.0.1:4"]);
        let name = port.name(MAX).unwrap();
        assert!(name.len() > 35);
        let cut = Address::parse(&name[..35]).unwrap();
        assert_eq!((cut.incarnation(), cut.cookie()), (port.incarnation(), port.cookie()));
        assert_eq!(cut.places, port.places[1..2]);
        // A little more of it does no harm, and nobody takes more for a whole one.
        for room in 35..name.len() {
            let read = Address::parse(&name[..room]);
            assert_eq!(read.as_ref().ok(), (room < 35 + SHORTEST_TAIL).then_some(&cut), "{room}");
        }
        // A short name has nothing behind it.
        let short = port.name(35).unwrap();
        assert_eq!((Address::parse(&short).unwrap(), Address::parse(&(short + "A"))), (cut, Err(NameError::Damaged)));
        // Nobody can connect to the one that has no IPv4 address at all.
        let port = at(&["[fd00::1]:2"]);
        let name = port.name(MAX).unwrap();
        assert_eq!((Address::parse(&name), port.name(35)), (Ok(port), None));
        assert_eq!(Address::parse(&name[..35]), Err(NameError::Malformed));
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
                assert!(Address::parse(&name[..n]).is_err() || n >= 35, "{n}");
                let mut changed = name.clone().into_bytes();
                changed[n] = if changed[n] == b'x' { b'y' } else { b'x' };
                assert!(Address::parse(std::str::from_utf8(&changed).unwrap()).is_err(), "{n}");
            }
        }
        for other in ["", "mpic:", "tag#0$description#host$", "mpic:AAAA", "mpic:ä"] {
            assert!(Address::parse(other).is_err(), "{other}");
        }
    }
}
