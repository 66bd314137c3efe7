//! Greetings as bytes, what both sides wish of encryption, and why a connection is refused.
//!
//! Pure. Used by the handshake, before anything is trusted. Invariant: decoding takes 32 bytes and allocates nothing.

use crate::file::FileError;
use crate::key::KeyId;
use base::bytes::{Malformed, Put, Take};
use base::protocol::greeting::{self as numbers, head};
use base::protocol::{hello, naming, operator, relay, router};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a greeting, without its proof.
pub const GREETING: usize = head::BYTES;
/// The longest proof behind a greeting, in bytes.
pub use base::protocol::greeting::MAX_PROOF as MOST_PROOF;

/// What is spoken on a connection once it is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HELLO and frames, between processes of jobs.
    Jobs,
    /// Requests and answers of the naming service.
    Naming,
    /// Commands of an operator to the processes of a job, and their answers.
    Control,
    /// What a process, or another relay, asks of a relay.
    Relay,
    /// Channels between a process and the router of its node, and between two routers.
    Router,
}

impl Protocol {
    fn magic(self) -> [u8; 8] {
        match self {
            Protocol::Jobs => numbers::JOBS,
            Protocol::Naming => numbers::NAMING,
            Protocol::Control => numbers::CONTROL,
            Protocol::Relay => numbers::RELAY,
            Protocol::Router => numbers::ROUTER,
        }
    }

    /// Whether a greeting begins as one of this protocol does.
    pub(crate) fn begins(self, greeting: &[u8; GREETING]) -> bool {
        greeting.starts_with(&self.magic())
    }

    /// The version that this side speaks.
    pub fn version(self) -> u16 {
        match self {
            Protocol::Jobs => hello::VERSION,
            Protocol::Naming => naming::VERSION,
            Protocol::Control => operator::VERSION,
            Protocol::Relay => relay::VERSION,
            Protocol::Router => router::VERSION,
        }
    }
}

/// When connections are encrypted: `MPI_CONNECT_ENCRYPT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encrypt {
    /// Also within a host, over TCP.
    Always,
    /// Between hosts.
    #[default]
    Network,
    /// Never, and a side that wants it is refused.
    Never,
}

impl Encrypt {
    /// The setting of this word; `None` if there is none.
    pub fn parse(word: &str) -> Option<Encrypt> {
        match word {
            "always" => Some(Encrypt::Always),
            "network" => Some(Encrypt::Network),
            "never" => Some(Encrypt::Never),
            _ => None,
        }
    }

    /// The setting of the environment. A word that means nothing is an error: the default might protect less than was wanted.
    pub fn from_env() -> Result<Encrypt, FileError> {
        let value = std::env::var_os(base::settings::ENCRYPT).unwrap_or_default();
        Encrypt::of_setting(&value.to_string_lossy())
    }

    pub(crate) fn of_setting(value: &str) -> Result<Encrypt, FileError> {
        match value.trim() {
            "" => Ok(Encrypt::default()),
            word => Encrypt::parse(word).ok_or_else(|| FileError::Encrypt(word.into())),
        }
    }

    /// What this side wishes for a connection. `near`: it does not leave this host.
    pub(crate) fn wish(self, near: bool) -> Wish {
        match self {
            Encrypt::Always => Wish::Encrypted,
            Encrypt::Network if !near => Wish::Encrypted,
            Encrypt::Network => Wish::Either,
            Encrypt::Never => Wish::Plain,
        }
    }
}

/// Whether a connection between these addresses does not leave this host.
pub fn is_near(there: SocketAddr, here: SocketAddr) -> bool {
    let [there, here] = [there, here].map(|address| address.ip().to_canonical());
    there.is_loopback() || there == here
}

/// The part of an address that one host cannot choose: all of one of IPv4, and IPv6 without the last 64 bits. All addresses of
/// loopback are of one host.
pub fn host_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        ip if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        v4 => v4,
    }
}

/// What one side wishes for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Encrypted,
    Either,
    Plain,
}

impl Wish {
    /// Whether a connection of two sides with these wishes is encrypted; `None` if they contradict each other.
    pub(crate) fn meet(self, other: Wish) -> Option<bool> {
        match (self, other) {
            (Wish::Encrypted, Wish::Plain) | (Wish::Plain, Wish::Encrypted) => None,
            (Wish::Encrypted, _) | (_, Wish::Encrypted) => Some(true),
            _ => Some(false),
        }
    }
}

/// Why a connection comes to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The bytes are not of this protocol.
    Foreign,
    /// The other side speaks this version.
    OtherVersion(u16),
    /// The other side has a flag that this one does not know, or the reverse.
    UnknownFlags,
    /// The two sides have no key in common.
    OtherKey {
        /// The identifier of this side's key.
        ours: KeyId,
        /// That of the other side's.
        theirs: KeyId,
    },
    /// The proof was not made with the key whose identifier it has, or what was said was changed on the way.
    WrongProof,
    /// One side wants encryption, and the other refuses it.
    Encryption,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Foreign => f.write_str("what it says is not of this protocol"),
            Refused::OtherVersion(theirs) => {
                write!(f, "it speaks version {theirs}: both sides need the same release of mpi-connect")
            }
            Refused::UnknownFlags => {
                f.write_str("one side wants what the other does not know: both need the same release of mpi-connect")
            }
            Refused::OtherKey { ours, theirs } => write!(
                f,
                "its key is {theirs}, and the key here is {ours}: copy the file that `mpi-connect key path` names from one side to \
                 the other, with mode 0600"
            ),
            Refused::WrongProof => f.write_str("its proof of the key is wrong"),
            Refused::Encryption => f.write_str(
                "one side wants encryption and the other has MPI_CONNECT_ENCRYPT=never: set it alike on both",
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// A greeting of either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) status: u16,
    flags: u32,
    pub(crate) proof: usize,
    pub(crate) key: KeyId,
}

impl Greeting {
    pub(crate) fn new(status: u16, wish: Wish, proof: usize, key: KeyId) -> Greeting {
        let wish = match wish {
            Wish::Encrypted => numbers::WANTS,
            Wish::Either => 0,
            Wish::Plain => numbers::REFUSES,
        };
        let flags = wish | if crate::records::is_aes_fast() { numbers::AES } else { 0 };
        Greeting { status, flags, proof, key }
    }

    pub(crate) fn encode(&self, protocol: Protocol) -> Vec<u8> {
        let mut out = Vec::with_capacity(GREETING + self.proof);
        out.extend_from_slice(&protocol.magic());
        out.put_u16(protocol.version());
        out.put_u16(self.status);
        out.put_u32(self.flags);
        out.put_u32(self.proof as u32);
        out.extend_from_slice(&self.key.0);
        out.put_u32(0);
        out
    }

    /// The greeting of these bytes, if it is of this version.
    pub(crate) fn decode(bytes: &[u8; GREETING], protocol: Protocol) -> Result<Greeting, Refused> {
        let fields = || -> Result<Result<Greeting, Refused>, Malformed> {
            let mut t = Take(bytes);
            if t.array()? != protocol.magic() {
                return Ok(Err(Refused::Foreign));
            }
            let version = t.u16()?;
            if version != protocol.version() {
                return Ok(Err(Refused::OtherVersion(version)));
            }
            let (status, flags, proof, key) = (t.u16()?, t.u32()?, t.u32()? as usize, KeyId(t.array()?));
            if proof > MOST_PROOF {
                return Ok(Err(Refused::Foreign));
            }
            Ok(Ok(Greeting { status, flags, proof, key }))
        };
        fields().unwrap_or(Err(Refused::Foreign))
    }

    /// What its sender wishes; `None` if it has a flag that is not known.
    pub(crate) fn wish(&self) -> Option<Wish> {
        match self.flags & !numbers::AES {
            0 => Some(Wish::Either),
            numbers::WANTS => Some(Wish::Encrypted),
            numbers::REFUSES => Some(Wish::Plain),
            _ => None,
        }
    }

    /// Whether its sender computes AES-GCM in hardware.
    pub(crate) fn is_aes_fast(&self) -> bool {
        self.flags & numbers::AES != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_survives_the_way() {
        let key = KeyId([1, 2, 3, 4, 5, 6, 7, 8]);
        for wish in [Wish::Encrypted, Wish::Either, Wish::Plain] {
            let greeting = Greeting::new(numbers::GOOD, wish, 96, key);
            let bytes = greeting.encode(Protocol::Jobs);
            assert_eq!((bytes.len(), bytes[head::VERSION], bytes[head::PROOF]), (GREETING, hello::VERSION as u8, 96));
            assert_eq!(bytes[head::KEY..head::RESERVED], key.0);
            let bytes = bytes.first_chunk().unwrap();
            assert_eq!(Greeting::decode(bytes, Protocol::Jobs), Ok(greeting));
            assert_eq!(greeting.wish(), Some(wish));
            assert_eq!(Greeting::decode(bytes, Protocol::Naming), Err(Refused::Foreign));
        }
    }

    #[test]
    fn of_another_version_nothing_but_that_is_looked_at() {
        let mut bytes = [0xff; GREETING];
        assert_eq!(Greeting::decode(&bytes, Protocol::Naming), Err(Refused::Foreign));
        bytes[..8].copy_from_slice(&numbers::NAMING);
        assert_eq!(Greeting::decode(&bytes, Protocol::Naming), Err(Refused::OtherVersion(0xffff)));
        bytes[8..10].copy_from_slice(&naming::VERSION.to_le_bytes());
        assert_eq!(Greeting::decode(&bytes, Protocol::Naming), Err(Refused::Foreign), "too long a proof");
    }

    #[test]
    fn a_host_cannot_choose_which_one_it_is() {
        let host = |ip: &str| host_of(ip.parse().unwrap()).to_string();
        assert!(["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.1.2.3"].iter().all(|ip| host(ip) == "127.0.0.1"));
        assert_eq!([host("10.0.0.1"), host("10.0.0.2")], ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), host("2001:db8:1:2:ffff::"));
        assert_ne!(host("2001:db8:1:2::"), host("2001:db8:1:3::"));
    }

    #[test]
    fn what_leaves_the_host_is_told_by_addresses() {
        let near = |there: &str, here: &str| is_near(there.parse().unwrap(), here.parse().unwrap());
        assert!(near("127.0.0.1:1", "127.0.0.1:2") && near("[::1]:1", "[::1]:2") && near("127.9.9.9:1", "10.0.0.1:2"));
        assert!(near("10.0.0.1:1", "10.0.0.1:2") && near("[::ffff:10.0.0.1]:1", "10.0.0.1:2"));
        assert!(!near("10.0.0.2:1", "10.0.0.1:2") && !near("[2001:db8::1]:1", "[2001:db8::2]:1"));
    }

    #[test]
    fn wishes_that_contradict_each_other_do_not_meet() {
        use Wish::*;
        for (a, b, met) in [
            (Encrypted, Encrypted, Some(true)),
            (Encrypted, Either, Some(true)),
            (Either, Either, Some(false)),
            (Either, Plain, Some(false)),
            (Plain, Plain, Some(false)),
            (Encrypted, Plain, None),
        ] {
            assert_eq!((a.meet(b), b.meet(a)), (met, met), "{a:?} {b:?}");
        }
        assert_eq!(Encrypt::Network.wish(true), Either);
        assert_eq!(Encrypt::Network.wish(false), Encrypted);
        assert_eq!((Encrypt::Always.wish(true), Encrypt::Never.wish(false)), (Encrypted, Plain));
    }
}
