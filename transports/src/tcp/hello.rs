//! HELLO and HELLO-ACK, as bytes.
//!
//! Used by both ends of the handshake. Invariant: fixed lengths, read only when all bytes are there.

use base::ProcId;
use base::bytes::{Malformed, Put, Take};
use std::fmt;

pub const HELLO_LEN: usize = 88;
pub const HELLO_ACK_LEN: usize = 48;

const MAGIC: [u8; 8] = *b"MPICONN1";
pub const VERSION: u16 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub source: ProcId,
    pub dest: ProcId,
    pub cookie: [u8; 16],
    /// Process number of the source.
    pub process: [u8; 16],
    pub generation: u16,
    /// 0: a lane. Else one more stream for the lane of this generation: its number.
    pub stripe: u16,
    /// Sequence up to which the source has what the destination sent on this path.
    pub received: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Good,
    BadCookie,
    NoSuchProcess,
    OtherVersion,
    BetterConnection,
    /// There is no place for one who is not known yet: it may come again.
    Later,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloAck {
    pub status: Status,
    pub generation: u16,
    /// Process number of the one who answers.
    pub process: [u8; 16],
    pub received: u64,
}

/// Why a HELLO cannot be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// Not our protocol at all: no answer is owed.
    Foreign,
    OtherVersion,
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_LEN);
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u16(0);
        out.put_u32(0);
        out.put_u64(self.source.incarnation);
        out.put_u64(self.dest.incarnation);
        out.put_u32(self.source.rank);
        out.put_u32(self.dest.rank);
        out.extend_from_slice(&self.cookie);
        out.extend_from_slice(&self.process);
        out.put_u16(self.generation);
        out.put_u16(self.stripe);
        out.put_u64(self.received);
        out.put_u32(0);
        out
    }

    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Hello, HelloError> {
        let mut t = Take(bytes);
        Self::fields(&mut t).unwrap_or(Err(HelloError::Foreign))
    }

    fn fields(t: &mut Take<'_>) -> Result<Result<Hello, HelloError>, Malformed> {
        if t.array()? != MAGIC {
            return Ok(Err(HelloError::Foreign));
        }
        if t.u16()? != VERSION {
            return Ok(Err(HelloError::OtherVersion));
        }
        t.u16()?;
        t.u32()?;
        let (from, to) = (t.u64()?, t.u64()?);
        let source = ProcId { incarnation: from, rank: t.u32()? };
        let dest = ProcId { incarnation: to, rank: t.u32()? };
        let (cookie, process) = (t.array()?, t.array()?);
        let (generation, stripe) = (t.u16()?, t.u16()?);
        let received = t.u64()?;
        Ok(Ok(Hello { source, dest, cookie, process, generation, stripe, received }))
    }
}

impl HelloAck {
    /// To one of another version: which is ours stands in place of the generation.
    pub fn other_version() -> HelloAck {
        HelloAck { status: Status::OtherVersion, generation: VERSION, process: [0; 16], received: 0 }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_ACK_LEN);
        out.extend_from_slice(&MAGIC);
        out.put_u16(match self.status {
            Status::Good => 0,
            Status::BadCookie => 1,
            Status::NoSuchProcess => 2,
            Status::OtherVersion => 3,
            Status::BetterConnection => 4,
            Status::Later => 5,
        });
        out.put_u16(self.generation);
        out.put_u32(0);
        out.extend_from_slice(&self.process);
        out.put_u64(self.received);
        out.put_u64(0);
        out
    }

    pub fn decode(bytes: &[u8; HELLO_ACK_LEN]) -> Result<HelloAck, Malformed> {
        let mut t = Take(bytes);
        if t.array()? != MAGIC {
            return Err(Malformed);
        }
        let status = match t.u16()? {
            0 => Status::Good,
            1 => Status::BadCookie,
            2 => Status::NoSuchProcess,
            3 => Status::OtherVersion,
            4 => Status::BetterConnection,
            5 => Status::Later,
            _ => return Err(Malformed),
        };
        let generation = t.u16()?;
        t.u32()?;
        let (process, received) = (t.array()?, t.u64()?);
        Ok(HelloAck { status, generation, process, received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(incarnation: u64, rank: u32) -> ProcId {
        ProcId { incarnation, rank }
    }

    #[test]
    fn both_have_their_documented_length_and_come_back() {
        let h = Hello {
            source: id(1, 2),
            dest: id(3, 4),
            cookie: [5; 16],
            process: [6; 16],
            generation: 7,
            stripe: 9,
            received: 8,
        };
        let bytes: [u8; HELLO_LEN] = h.encode().try_into().unwrap();
        assert_eq!(Hello::decode(&bytes), Ok(h));
        let a = HelloAck { status: Status::BetterConnection, generation: 1, process: [3; 16], received: 4 };
        let bytes: [u8; HELLO_ACK_LEN] = a.encode().try_into().unwrap();
        assert_eq!(HelloAck::decode(&bytes), Ok(a));
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        assert_eq!(Hello::decode(&[b'G'; HELLO_LEN]), Err(HelloError::Foreign));
        let mut bytes = [0; HELLO_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = 9;
        assert_eq!(Hello::decode(&bytes), Err(HelloError::OtherVersion));
    }
}
