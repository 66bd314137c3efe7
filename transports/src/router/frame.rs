//! The frames of channels, as bytes (docs/protocol.md, "Routers").
//!
//! Pure. Invariant: what is decoded is encoded as the same bytes again; a head that no frame has is found before its body is
//! waited for.

use crate::ip::{put, take};
use base::bytes::{Malformed, Put, Take};
use base::protocol::router::{self, CLOSE, CREDIT, DATA, MAX_PIECE, OPEN, head};
use std::io::{self, IoSlice};
use std::net::SocketAddr;

/// Bytes of a head.
pub(super) const HEAD: usize = head::BYTES;
/// The bytes of an OPEN without an address, and the most that an address takes.
const NAMES: usize = 32;
const ADDRESS: usize = 23;
/// The longest body of a frame that is no DATA.
pub(super) const MAX_SAID: usize = NAMES + ADDRESS;

/// Channels of one connection.
pub(super) const MOST_CHANNELS: usize = 16_384;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Open,
    Data,
    Credit,
    Close,
}

/// What stands in front of every body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub channel: u32,
    pub kind: Kind,
    /// Bytes of the body.
    pub len: usize,
}

impl Head {
    pub fn encode(self) -> [u8; HEAD] {
        let kind = match self.kind {
            Kind::Open => OPEN,
            Kind::Data => DATA,
            Kind::Credit => CREDIT,
            Kind::Close => CLOSE,
        };
        let [a, b, c, d] = self.channel.to_le_bytes();
        let [x, y, z, _] = (self.len as u32).to_le_bytes();
        [a, b, c, d, x, y, z, kind]
    }

    /// The head of these bytes, if such a frame may be as long as it says.
    pub fn decode(bytes: &[u8; HEAD]) -> Result<Head, Malformed> {
        let [a, b, c, d, x, y, z, kind] = *bytes;
        let (channel, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([x, y, z, 0]) as usize);
        let (kind, fits) = match kind {
            OPEN => (Kind::Open, (NAMES..=MAX_SAID).contains(&len)),
            DATA => (Kind::Data, (1..=MAX_PIECE).contains(&len)),
            CREDIT => (Kind::Credit, len == 4),
            CLOSE => (Kind::Close, len == 1),
            _ => return Err(Malformed),
        };
        if fits { Ok(Head { channel, kind, len }) } else { Err(Malformed) }
    }
}

/// A frame with its body.
pub(super) fn whole(channel: u32, kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut out = Head { channel, kind, len: body.len() }.encode().to_vec();
    out.extend_from_slice(body);
    out
}

/// The most pieces of one frame that is written, with its head.
pub(super) const PIECES: usize = 66;

/// Adds what was not written of these pieces.
pub(super) fn put_rest(out: &mut Vec<u8>, pieces: &[IoSlice<'_>], mut written: usize) {
    for piece in pieces {
        let from = written.min(piece.len());
        out.extend_from_slice(&piece[from..]);
        written -= from;
    }
}

/// Which process asks for which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Open {
    /// The process number that is wanted.
    pub to: [u8; 16],
    /// That of the process which asks.
    pub from: [u8; 16],
    /// The other router: where it is reached, or where the channel comes from.
    pub router: Option<SocketAddr>,
}

impl Open {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_SAID);
        out.extend_from_slice(&self.to);
        out.extend_from_slice(&self.from);
        self.router.iter().for_each(|address| put(&mut out, address));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Open, Malformed> {
        let mut from = Take(bytes);
        let (to, by) = (from.array()?, from.array()?);
        let router = if from.rest().is_empty() { None } else { Some(take(&mut from)?) };
        from.end()?;
        Ok(Open { to, from: by, router })
    }
}

/// Why a channel has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The other end has closed it.
    Over,
    /// Its process was there, and its host has closed the connection.
    Gone,
    /// No such process is there.
    NotThere,
    /// The other router cannot be reached, or was lost.
    NoRouter,
    /// A limit is reached.
    Full,
    /// Its process was there, and has ended, as the kernel of its host says.
    Dead,
    /// Nobody listens where the other router was.
    Nobody,
}

impl Why {
    /// The other router could not be reached.
    pub fn of_dial(e: &io::Error) -> Why {
        if e.kind() == io::ErrorKind::ConnectionRefused { Why::Nobody } else { Why::NoRouter }
    }

    pub fn encode(self) -> [u8; 1] {
        [match self {
            Why::Over => router::OVER,
            Why::Gone => router::GONE,
            Why::NotThere => router::NOT_THERE,
            Why::NoRouter => router::NO_ROUTER,
            Why::Full => router::FULL,
            Why::Dead => router::DEAD,
            Why::Nobody => router::NOBODY,
        }]
    }

    pub fn decode(bytes: &[u8]) -> Result<Why, Malformed> {
        match bytes {
            [router::OVER] => Ok(Why::Over),
            [router::GONE] => Ok(Why::Gone),
            [router::NOT_THERE] => Ok(Why::NotThere),
            [router::NO_ROUTER] => Ok(Why::NoRouter),
            [router::FULL] => Ok(Why::Full),
            [router::DEAD] => Ok(Why::Dead),
            [router::NOBODY] => Ok(Why::Nobody),
            _ => Err(Malformed),
        }
    }
}

/// The bytes of a CREDIT.
pub(super) fn credit(bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(4);
    out.put_u32(bytes);
    out
}

/// How many bytes a CREDIT gives.
pub(super) fn credited(body: &[u8]) -> Result<u32, Malformed> {
    let mut from = Take(body);
    let bytes = from.u32()?;
    from.end()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wire() {
        for (kind, len) in [(Kind::Open, 39), (Kind::Data, MAX_PIECE), (Kind::Credit, 4), (Kind::Close, 1)] {
            let head = Head { channel: 0x0102_0304, kind, len };
            assert_eq!(Head::decode(&head.encode()), Ok(head));
        }
        let addresses: [Option<SocketAddr>; 3] =
            [None, Some("10.0.0.1:7".parse().unwrap()), Some("[fe80::1]:7".parse().unwrap())];
        for router in addresses {
            let open = Open { to: [1; 16], from: [2; 16], router };
            assert_eq!(Open::decode(&open.encode()), Ok(open));
            assert!((NAMES..=MAX_SAID).contains(&open.encode().len()));
        }
        for why in [Why::Over, Why::Gone, Why::NotThere, Why::NoRouter, Why::Full, Why::Dead, Why::Nobody] {
            assert_eq!(Why::decode(&why.encode()), Ok(why));
        }
        assert_eq!(credited(&credit(77)), Ok(77));
    }

    #[test]
    fn what_no_frame_has_is_malformed() {
        for (kind, len) in [(Kind::Open, 31), (Kind::Open, 56), (Kind::Data, 0), (Kind::Data, MAX_PIECE + 1)] {
            assert_eq!(Head::decode(&Head { channel: 1, kind, len }.encode()), Err(Malformed));
        }
        for (kind, len) in [(Kind::Credit, 3), (Kind::Close, 0), (Kind::Close, 2)] {
            assert_eq!(Head::decode(&Head { channel: 1, kind, len }.encode()), Err(Malformed));
        }
        assert_eq!(Head::decode(&[0; HEAD]), Err(Malformed));
        assert_eq!((Why::decode(&[7]), Why::decode(&[])), (Err(Malformed), Err(Malformed)));
        let open = Open { to: [1; 16], from: [2; 16], router: None }.encode();
        assert_eq!(Open::decode(&[&open[..], &[9]].concat()), Err(Malformed));
    }
}
