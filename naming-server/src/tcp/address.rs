//! Addresses of servers: `host:port,host:port`, as in a URL. Client and server parse addresses only here.

use crate::error::AddressError;
use crate::metadata::LIST;
use crate::wire::DEFAULT_PORT;
use std::fmt::{Display, Formatter, Result as Formatted};
use std::net::Ipv6Addr;

/// The most servers of a URL, since each costs time when it is down.
const MAX_SERVERS: usize = 8;

/// The address of a server, before its host is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    /// Parses `host`, `host:port`, `[address]` or `[address]:port`.
    pub(crate) fn parse(text: &str) -> Result<Address, AddressError> {
        let (host, port) = match text.strip_prefix('[').and_then(|t| t.split_once(']')) {
            Some((host, rest)) if is_ipv6(host) => match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(AddressError::Port(rest.into())),
            },
            Some(_) => return Err(AddressError::Host(text.into())),
            None if is_ipv6(text) => return Err(AddressError::Brackets(text.into())),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let fits = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        // The system would take a number for an IPv4 address, and 0 for all addresses.
        if host.bytes().all(|b| b.is_ascii_digit()) {
            return Err(AddressError::OnlyPort(host.into()));
        }
        if host.len() > 255 || !host.chars().all(fits) {
            return Err(AddressError::Host(host.into()));
        }
        let port = match port {
            Some(p) if p.bytes().all(|b| b.is_ascii_digit()) => p.parse().map_err(|_| AddressError::Port(p.into()))?,
            Some(p) => return Err(AddressError::Port(p.into())),
            None => DEFAULT_PORT,
        };
        Ok(Address { host: host.into(), port })
    }

    /// Parses what follows `tcp:` in a URL.
    pub(crate) fn parse_url(rest: &str) -> Result<Vec<Address>, AddressError> {
        Address::parse_all(rest.strip_prefix("//").ok_or(AddressError::NoHost)?)
    }

    /// Parses several addresses with commas or semicolons between. Repeated ones are dropped.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Address>, AddressError> {
        let mut all = Vec::new();
        for part in text.split(LIST) {
            let address = Address::parse(part.trim())?;
            if address.port == 0 {
                return Err(AddressError::Port("0".into()));
            }
            if !all.contains(&address) {
                all.push(address);
            }
        }
        if all.len() > MAX_SERVERS { Err(AddressError::TooMany(all.len())) } else { Ok(all) }
    }

    /// Whether it is a loopback address, or `localhost`.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }
}

/// Whether this is an IPv6 address, with or without the interface of a link-local one.
fn is_ipv6(host: &str) -> bool {
    host.split('%').next().is_some_and(|h| h.parse::<Ipv6Addr>().is_ok())
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_addresses() {
        let read = |text| Address::parse_all(text).map(|all| all.iter().map(Address::to_string).collect::<Vec<_>>());
        assert_eq!(read("host:1").unwrap(), ["host:1"]);
        assert_eq!(read("host").unwrap(), [format!("host:{DEFAULT_PORT}")]);
        assert_eq!(read("[::1]").unwrap(), [format!("[::1]:{DEFAULT_PORT}")]);
        assert_eq!(
            read("a.b-c:65535,[fe80::1%eth0]:2, 10.0.0.1:3").unwrap(),
            ["a.b-c:65535", "[fe80::1%eth0]:2", "10.0.0.1:3"]
        );
        assert_eq!(read("a:1;a:1,b:1").unwrap(), ["a:1", "b:1"], "each once");
        for (text, said) in [
            ("", "no host"),
            ("a,,b", "no host"),
            (":1", "no host"),
            ("0", "a port, 0, has its host in front"),
            ("7431", "a port, 7431, has"),
            ("a:", "\"\" is no port"),
            ("a:0", "\"0\" is no port"),
            ("a:65536", "no port"),
            ("a:+1", "no port"),
            ("a:1/", "no port"),
            ("a:1:2", "no port"),
            ("::1", "[::1]"),
            ("[a]:1", "no host"),
            ("[::1]7", "no port"),
            ("a b:1", "no host"),
            ("tcp://a:1", "no port"),
            ("a,b,c,d,e,f,g,h,i", "9 servers"),
        ] {
            let got = read(text).unwrap_err().to_string();
            assert!(got.contains(said), "{text}: {got}");
        }
    }

    #[test]
    fn loopback_is_known() {
        let is = |text| Address::parse(text).unwrap().is_loopback();
        assert!(is("127.0.0.1:1") && is("localhost") && is("[::1]:2"));
        assert!(!is("10.0.0.1") && !is("node1"));
    }
}
