//! HELLO and HELLO-ACK, as bytes. Both have a fixed length.
//!
//! Both ends of a transport's handshake use them. Invariant: the session gets a HELLO only when all of it has arrived.

use base::ProcId;
use base::bytes::{Malformed, Put, Take};
use base::protocol::hello::{self as numbers, BETTER, FREED, MAGIC, ORDERED, answered, said};
use std::fmt;

pub use base::protocol::hello::VERSION;

/// Bytes of a HELLO.
pub const HELLO_LEN: usize = said::BYTES;
/// Bytes of a HELLO-ACK.
pub const HELLO_ACK_LEN: usize = answered::BYTES;

/// The first message of the dialling side on a new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The process that dials.
    pub source: ProcId,
    /// The process that it wants to reach.
    pub dest: ProcId,
    /// The cookie of the destination's group. Without it, a HELLO is refused.
    pub cookie: [u8; 16],
    /// The process number of the source.
    pub process: [u8; 16],
    /// The generation that the new lane is to have.
    pub generation: u16,
    /// 0 for a lane. Otherwise the connection is one more stream of the lane of this generation, with this number.
    pub stripe: u16,
    /// The sequence up to which the source has received what the destination sent on this path.
    pub received: u64,
    /// The pair has a lane that lives, and moves from that one to this.
    pub moves: Option<Move>,
}

/// A move of a pair from a lane that lives to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The generation of the lane that the pair leaves.
    pub leaves: u16,
    /// Why it is left.
    pub why: Why,
}

/// Why a pair moves to another lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Why {
    /// The transport is better than the one in use.
    Better = BETTER,
    /// An operator wants this transport for the pair, as long as it works.
    Ordered = ORDERED,
    /// An operator wants the best transport for the pair again.
    Freed = FREED,
}

/// The answer to a HELLO. All but [`Status::Good`] refuse the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// The connection is accepted.
    Good = numbers::GOOD,
    /// The cookie is not that of the group.
    BadCookie = numbers::BAD_COOKIE,
    /// No such process answers at this address.
    NoSuchProcess = numbers::NO_SUCH_PROCESS,
    /// The HELLO is of another version of the protocol.
    OtherVersion = numbers::OTHER_VERSION,
    /// The pair has a better connection already.
    BetterConnection = numbers::BETTER_CONNECTION,
    /// The dialling process is not known here yet, and the limit of such processes is reached. It may try again.
    Later = numbers::LATER,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Good => "welcome",
            Status::BadCookie => "its cookie is wrong",
            Status::NoSuchProcess => "there is no such process here",
            Status::OtherVersion => "it speaks another version",
            Status::BetterConnection => "there is a better connection",
            Status::Later => "there is no place for those who are not known yet",
        })
    }
}

/// The first message of the accepting side on a new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloAck {
    /// Whether the connection is accepted.
    pub status: Status,
    /// The generation of the lane. With [`Status::OtherVersion`]: the version of the protocol that the answering side
    /// speaks.
    pub generation: u16,
    /// The process number of the answering process.
    pub process: [u8; 16],
    /// The sequence up to which the answering process has received what the other sent on this path.
    pub received: u64,
}

/// Why bytes are no HELLO of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// They are not of this protocol, or malformed. The connection is closed without an answer.
    Foreign,
    /// They are of another version of the protocol. The answer is [`HelloAck::other_version`].
    OtherVersion,
}

impl Hello {
    /// The HELLO as it is on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_LEN);
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u16(self.moves.map_or(0, |m| m.why as u16));
        out.put_u16(self.moves.map_or(0, |m| m.leaves));
        out.put_u16(0);
        out.put_u64(self.source.incarnation);
        out.put_u64(self.dest.incarnation);
        out.put_u32(self.source.rank);
        out.put_u32(self.dest.rank);
        out.extend_from_slice(&self.cookie);
        out.extend_from_slice(&self.process);
        out.put_u16(self.generation);
        out.put_u16(self.stripe);
        out.put_u64(self.received);
        out
    }

    /// The HELLO that these bytes are: all of it, and nothing behind.
    pub fn decode(bytes: &[u8]) -> Result<Hello, HelloError> {
        let mut t = Take(bytes);
        Self::fields(&mut t).unwrap_or(Err(HelloError::Foreign))
    }

    /// [`Malformed`] if bytes are missing.
    fn fields(t: &mut Take<'_>) -> Result<Result<Hello, HelloError>, Malformed> {
        if t.array()? != MAGIC {
            return Ok(Err(HelloError::Foreign));
        }
        if t.u16()? != VERSION {
            return Ok(Err(HelloError::OtherVersion));
        }
        let (moves, leaves) = (t.u16()?, t.u16()?);
        t.u16()?;
        let (from, to) = (t.u64()?, t.u64()?);
        let source = ProcId { incarnation: from, rank: t.u32()? };
        let dest = ProcId { incarnation: to, rank: t.u32()? };
        let (cookie, process) = (t.array()?, t.array()?);
        let (generation, stripe) = (t.u16()?, t.u16()?);
        let received = t.u64()?;
        t.end()?;
        let moves = match moves {
            0 => None,
            BETTER => Some(Move { leaves, why: Why::Better }),
            ORDERED => Some(Move { leaves, why: Why::Ordered }),
            FREED => Some(Move { leaves, why: Why::Freed }),
            _ => return Ok(Err(HelloError::Foreign)),
        };
        Ok(Ok(Hello { source, dest, cookie, process, generation, stripe, received, moves }))
    }
}

impl HelloAck {
    /// The answer to a HELLO of another version. Our version stands in place of the generation.
    pub fn other_version() -> HelloAck {
        HelloAck { status: Status::OtherVersion, generation: VERSION, process: [0; 16], received: 0 }
    }

    /// The HELLO-ACK as it is on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_ACK_LEN);
        out.extend_from_slice(&MAGIC);
        out.put_u16(self.status as u16);
        out.put_u16(self.generation);
        out.put_u32(0);
        out.extend_from_slice(&self.process);
        out.put_u64(self.received);
        out
    }

    /// The HELLO-ACK that these bytes are: all of it, and nothing behind. What a side of another version says behind its
    /// version is not looked at.
    pub fn decode(bytes: &[u8]) -> Result<HelloAck, Malformed> {
        let mut t = Take(bytes);
        if t.array()? != MAGIC {
            return Err(Malformed);
        }
        let status = match t.u16()? {
            numbers::GOOD => Status::Good,
            numbers::BAD_COOKIE => Status::BadCookie,
            numbers::NO_SUCH_PROCESS => Status::NoSuchProcess,
            numbers::OTHER_VERSION => Status::OtherVersion,
            numbers::BETTER_CONNECTION => Status::BetterConnection,
            numbers::LATER => Status::Later,
            _ => return Err(Malformed),
        };
        let generation = t.u16()?;
        if status == Status::OtherVersion {
            return Ok(HelloAck { generation, ..HelloAck::other_version() });
        }
        t.u32()?;
        let (process, received) = (t.array()?, t.u64()?);
        t.end()?;
        Ok(HelloAck { status, generation, process, received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(incarnation: u64, rank: u32) -> ProcId {
        ProcId { incarnation, rank }
    }

    fn hello() -> Hello {
        let (source, dest) = (id(1, 2), id(3, 4));
        Hello { source, dest, cookie: [5; 16], process: [6; 16], generation: 7, stripe: 9, received: 8, moves: None }
    }

    fn ack() -> HelloAck {
        HelloAck { status: Status::Later, generation: 1, process: [3; 16], received: 4 }
    }

    #[test]
    fn both_have_their_documented_length_and_come_back() {
        let bytes = hello().encode();
        assert_eq!((bytes.len(), Hello::decode(&bytes)), (HELLO_LEN, Ok(hello())));
        let bytes = ack().encode();
        assert_eq!((bytes.len(), HelloAck::decode(&bytes)), (HELLO_ACK_LEN, Ok(ack())));
    }

    /// docs/protocol.md has its offsets from the same tables.
    #[test]
    fn fields_lie_where_the_tables_say() {
        let bytes = hello().encode();
        let number = |at: usize| (bytes[at], bytes[at + 1]);
        let places = [said::SOURCE, said::DEST, said::SOURCE_RANK, said::DEST_RANK, said::COOKIE, said::PROCESS];
        assert_eq!(places.map(|at| bytes[at]), [1, 3, 2, 4, 5, 6]);
        assert_eq!([said::VERSION, said::GENERATION, said::STRIPE].map(number), [(VERSION as u8, 0), (7, 0), (9, 0)]);
        assert_eq!(number(said::RECEIVED), (8, 0));
        for why in [Why::Better, Why::Ordered, Why::Freed] {
            let moves = Hello { moves: Some(Move { leaves: 10, why }), ..hello() };
            let bytes = moves.encode();
            assert_eq!([said::MOVES, said::LEAVES].map(|at| bytes[at]), [why as u8, 10]);
            assert_eq!(Hello::decode(&bytes), Ok(moves));
        }
        let bytes = ack().encode();
        let places = [answered::STATUS, answered::GENERATION, answered::PROCESS, answered::RECEIVED];
        assert_eq!(places.map(|at| bytes[at]), [numbers::LATER as u8, 1, 3, 4]);
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        assert_eq!(Hello::decode(&[b'G'; HELLO_LEN]), Err(HelloError::Foreign));
        let mut bytes = hello().encode();
        bytes[said::MOVES] = 4;
        assert_eq!(Hello::decode(&bytes), Err(HelloError::Foreign), "no reason that is known");
        bytes[8] = VERSION as u8 + 1;
        assert_eq!(Hello::decode(&bytes), Err(HelloError::OtherVersion));
    }

    /// A later version may have another length, and other fields.
    #[test]
    fn of_another_version_nothing_but_that_is_looked_at() {
        let mut bytes = hello().encode();
        bytes[8] = VERSION as u8 + 1;
        bytes[said::MOVES..].fill(0xff);
        bytes.resize(HELLO_LEN + 100, 0xff);
        for len in [said::MOVES, HELLO_LEN - 1, HELLO_LEN, bytes.len()] {
            assert_eq!(Hello::decode(&bytes[..len]), Err(HelloError::OtherVersion), "{len}");
        }
        let right = HelloAck { generation: 9, ..HelloAck::other_version() };
        let mut bytes = right.encode();
        bytes[answered::RESERVED..].fill(0xff);
        bytes.resize(HELLO_ACK_LEN + 1000, 0xff);
        for len in [answered::RESERVED, HELLO_ACK_LEN, bytes.len()] {
            assert_eq!(HelloAck::decode(&bytes[..len]), Ok(right.clone()), "{len}");
        }
    }

    #[test]
    fn neither_is_shorter_or_longer() {
        let mut bytes = hello().encode();
        assert_eq!(Hello::decode(&bytes[..bytes.len() - 1]), Err(HelloError::Foreign));
        bytes.push(0);
        assert_eq!(Hello::decode(&bytes), Err(HelloError::Foreign));
        let mut bytes = ack().encode();
        assert_eq!(HelloAck::decode(&bytes[..bytes.len() - 1]), Err(Malformed));
        bytes.push(0);
        assert_eq!(HelloAck::decode(&bytes), Err(Malformed));
        assert_eq!(HelloAck::decode(&[0; HELLO_ACK_LEN]), Err(Malformed));
    }
}
