//! Contact records: where a process can be reached.
//!
//! Used by the node and by set-up messages. Invariant: a record never holds more than [`MAX_ADDRESSES`].

use base::bytes::{Malformed, Put, Take};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

pub const MAX_ADDRESSES: usize = 32;

/// What others need to know to dial a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Random, one per process: who answers elsewhere is somebody else.
    pub process: [u8; 16],
    /// Equal for processes that share a kernel and a network namespace; zero if unknown.
    pub host: [u8; 16],
    pub addresses: Vec<SocketAddr>,
}

impl Contact {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.process);
        out.extend_from_slice(&self.host);
        let n = self.addresses.len().min(MAX_ADDRESSES);
        out.put_u8(n as u8);
        for a in &self.addresses[..n] {
            let scope = match a {
                SocketAddr::V4(v4) => {
                    out.put_u8(4);
                    out.extend_from_slice(&v4.ip().octets());
                    0
                }
                SocketAddr::V6(v6) => {
                    out.put_u8(6);
                    out.extend_from_slice(&v6.ip().octets());
                    v6.scope_id()
                }
            };
            out.put_u32(scope);
            out.put_u16(a.port());
        }
    }

    pub fn decode(from: &mut Take<'_>) -> Result<Contact, Malformed> {
        let (process, host) = (from.array()?, from.array()?);
        let n = from.u8()? as usize;
        if n > MAX_ADDRESSES {
            return Err(Malformed);
        }
        let mut addresses = Vec::with_capacity(n);
        for _ in 0..n {
            let ip: IpAddr = match from.u8()? {
                4 => Ipv4Addr::from(from.array::<4>()?).into(),
                6 => Ipv6Addr::from(from.array::<16>()?).into(),
                _ => return Err(Malformed),
            };
            let (scope, port) = (from.u32()?, from.u16()?);
            addresses.push(match ip {
                IpAddr::V4(ip) => SocketAddr::from((ip, port)),
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
            });
        }
        Ok(Contact { process, host, addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Contact {
        Contact {
            process: [7; 16],
            host: [9; 16],
            addresses: vec![
                "127.0.0.1:80".parse().unwrap(),
                SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3).into(),
            ],
        }
    }

    #[test]
    fn a_record_survives_the_wire() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        let mut take = Take(&bytes);
        assert_eq!(Contact::decode(&mut take), Ok(sample()));
        assert_eq!(take.end(), Ok(()));
    }

    #[test]
    fn a_cut_or_bent_record_is_refused() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        for n in 0..bytes.len() {
            assert!(Contact::decode(&mut Take(&bytes[..n])).is_err());
        }
        bytes[32] = 255;
        assert!(Contact::decode(&mut Take(&bytes)).is_err());
        bytes[32] = 2;
        bytes[33] = 5;
        assert!(Contact::decode(&mut Take(&bytes)).is_err());
    }
}
