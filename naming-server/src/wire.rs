//! What client and server say to each other: its bytes, see `docs/naming.md`. The client (`tcp`) and the server build on
//! it; nothing here knows a socket.
//!
//! Invariant: a length is bounded before anything of that length is allocated, and what was parsed is whole.

use crate::record::{Key, MAX_RECORD};
use base::bytes::{Malformed, Put, Take};
use serde::{Deserialize, Serialize};

/// Where a server listens unless told otherwise.
pub const DEFAULT_PORT: u16 = 7431;

const MAGIC: &[u8; 8] = b"MPICNSRV";
const VERSION: u16 = 2;
/// The hello of either side.
pub const HELLO: usize = 32;
/// What stands before each body.
pub const HEADER: usize = 8;
/// The longest body: a record, and a little beside it.
pub const MAX_BODY: usize = MAX_RECORD + 1024;
/// How many bytes of records go into one answer to [`Request::List`].
pub const PAGE: usize = MAX_RECORD;

/// What only the holder of a name knows.
pub type Token = [u8; 16];

/// What a client asks. The order is the numbers on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The name of this record, which is in its written form.
    Claim {
        token: Token,
        record: Vec<u8>,
    },
    /// The same of a name that is held: a server that has forgotten it learns it again.
    Renew {
        token: Token,
        record: Vec<u8>,
    },
    /// From now on this token means nothing, whatever comes of it later.
    Release {
        token: Token,
        key: Key,
    },
    Lookup {
        key: Key,
    },
    /// All records that come after this one, as many as an answer holds.
    List {
        after: Option<Key>,
    },
    /// What came and went from there on; from now on, without a number.
    Changes {
        after: Option<u64>,
    },
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The name is yours for so many milliseconds from now on.
    Granted {
        lease: u32,
    },
    /// Another has it: its record, without secrets. In doubt: its connection ended after its last renewal.
    Held {
        record: Vec<u8>,
        doubtful: bool,
    },
    Released,
    Found {
        record: Option<Vec<u8>>,
    },
    /// Records without secrets; whether more may follow.
    Names {
        records: Vec<Vec<u8>>,
        more: bool,
    },
    Refused(Refusal),
    /// What came and went, as much as an answer holds and is still known, and from where to go on.
    Changes {
        next: u64,
        changes: Vec<Change>,
    },
}

/// That a record, without secrets, came or went so many milliseconds ago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub came: bool,
    pub age: u64,
    pub record: Vec<u8>,
}

/// Why a server does not do what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    Malformed,
    /// It reads records of this version only.
    RecordVersion(u16),
    /// It has no room for another name.
    Full,
    /// This token was released.
    Ended,
}

/// What a server that refuses is said to do.
pub fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::Malformed => "does not understand what it was asked",
        Refusal::RecordVersion(_) => "is of another version of MPI_Connect; both need the same",
        Refusal::Full => "has no room for another name of this user or host",
        Refusal::Ended => "knows this claim as given back",
    }
}

/// How a server answers a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Welcome {
    Good,
    OtherVersion(u16),
    /// The client asked for what this server does not know, or the server for what the client does not.
    UnknownFlags,
    Unknown(u16),
}

/// Nothing has a flag yet: authentication and encryption will.
const FLAGS: u32 = 0;

pub fn hello() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.put_u16(VERSION);
    out.put_u16(0);
    out.put_u32(FLAGS);
    out.extend_from_slice(&[0; 16]);
    out
}

/// How to answer this hello; an error deserves no answer.
pub fn judge_hello(bytes: &[u8; HELLO]) -> Result<Welcome, Malformed> {
    let mut take = Take(bytes);
    if take.array() != Ok(*MAGIC) {
        return Err(Malformed);
    }
    let (version, _, flags) = (take.u16()?, take.u16()?, take.u32()?);
    Ok(match (version, flags) {
        (VERSION, FLAGS) => Welcome::Good,
        (VERSION, _) => Welcome::UnknownFlags,
        (other, _) => Welcome::OtherVersion(other),
    })
}

pub fn welcome(answer: Welcome) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.put_u16(VERSION);
    out.put_u16(match answer {
        Welcome::Good => 0,
        Welcome::OtherVersion(_) => 1,
        Welcome::UnknownFlags => 2,
        Welcome::Unknown(status) => status,
    });
    out.put_u32(FLAGS);
    out.extend_from_slice(&[0; 16]);
    out
}

pub fn read_welcome(bytes: &[u8; HELLO]) -> Result<Welcome, Malformed> {
    let mut take = Take(bytes);
    if take.array() != Ok(*MAGIC) {
        return Err(Malformed);
    }
    let (version, status, flags) = (take.u16()?, take.u16()?, take.u32()?);
    Ok(match (status, flags) {
        _ if version != VERSION => Welcome::OtherVersion(version),
        (0, FLAGS) => Welcome::Good,
        (0 | 2, _) => Welcome::UnknownFlags,
        (1, _) => Welcome::OtherVersion(version),
        _ => Welcome::Unknown(status),
    })
}

/// Header and body.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>, Malformed> {
    let mut out = postcard::to_extend(message, vec![0; HEADER]).map_err(|_| Malformed)?;
    let length = out.len() - HEADER;
    if length > MAX_BODY {
        return Err(Malformed);
    }
    out[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(out)
}

/// How long the body behind this header is.
pub fn body_length(header: &[u8; HEADER]) -> Result<usize, Malformed> {
    let mut take = Take(header);
    let (length, reserved) = (take.u32()? as usize, take.u32()?);
    if length > MAX_BODY || reserved != 0 { Err(Malformed) } else { Ok(length) }
}

/// A whole body and nothing behind it.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn requests() -> Vec<Request> {
        let (token, record) = ([7; 16], vec![1, 2, 3]);
        let key = |kind| Key::of("case7", kind, "urn:site:ocean");
        vec![
            Request::Claim { token, record: record.clone() },
            Request::Renew { token, record },
            Request::Release { token, key: key(Kind::Port) },
            Request::Lookup { key: key(Kind::Job) },
            Request::List { after: Some(key(Kind::Job)) },
            Request::Changes { after: Some(7) },
        ]
    }

    fn body(frame: &[u8]) -> &[u8] {
        let (header, body) = frame.split_first_chunk().unwrap();
        assert_eq!(body_length(header), Ok(body.len()));
        body
    }

    #[test]
    fn messages_go_there_and_back() {
        for (number, request) in requests().into_iter().enumerate() {
            let frame = frame(&request).unwrap();
            assert_eq!(usize::from(frame[HEADER]), number, "the numbers are on the wire");
            assert_eq!(parse::<Request>(body(&frame)), Ok(request));
        }
        for answer in [
            Answer::Granted { lease: 15000 },
            Answer::Held { record: vec![1], doubtful: true },
            Answer::Released,
            Answer::Found { record: None },
            Answer::Names { records: vec![vec![1], vec![]], more: true },
            Answer::Refused(Refusal::RecordVersion(2)),
            Answer::Changes { next: 7, changes: vec![Change { came: true, age: 5, record: vec![1] }] },
        ] {
            assert_eq!(parse::<Answer>(body(&frame(&answer).unwrap())), Ok(answer));
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_read_or_refused() {
        for request in requests() {
            let frame = frame(&request).unwrap();
            let body = body(&frame);
            for n in 0..body.len() {
                assert_eq!(parse::<Request>(&body[..n]), Err(Malformed));
                for flip in [1, 0x80, 0xff] {
                    let mut other = body.to_vec();
                    other[n] ^= flip;
                    let _ = parse::<Request>(&other);
                    let _ = parse::<Answer>(&other);
                }
            }
            assert_eq!(parse::<Request>(&[body, &[0]].concat()), Err(Malformed));
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let header = |length: u32, reserved: u32| [length.to_le_bytes(), reserved.to_le_bytes()].concat();
        let length = |length, reserved| body_length(header(length, reserved).as_slice().try_into().unwrap());
        assert_eq!(length(MAX_BODY as u32, 0), Ok(MAX_BODY));
        assert_eq!(length(MAX_BODY as u32 + 1, 0), Err(Malformed));
        assert_eq!(length(u32::MAX, 0), Err(Malformed));
        assert_eq!(length(1, 1), Err(Malformed));
        assert!(frame(&Answer::Found { record: Some(vec![0; MAX_BODY]) }).is_err());
        assert!(frame(&Request::Claim { token: [0; 16], record: vec![0; MAX_RECORD] }).is_ok());
        // A length within that goes beyond what there is.
        assert_eq!(parse::<Answer>(&[3, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(Malformed));
    }

    #[test]
    fn hellos() {
        let mut bytes: [u8; HELLO] = hello().try_into().unwrap();
        assert_eq!(judge_hello(&bytes), Ok(Welcome::Good));
        bytes[12] = 1;
        assert_eq!(judge_hello(&bytes), Ok(Welcome::UnknownFlags));
        bytes[8] = 9;
        assert_eq!(judge_hello(&bytes), Ok(Welcome::OtherVersion(9)));
        bytes[0] = b'G';
        assert_eq!(judge_hello(&bytes), Err(Malformed));

        let read = |w| read_welcome(welcome(w).as_slice().try_into().unwrap());
        for w in [Welcome::Good, Welcome::UnknownFlags, Welcome::Unknown(77)] {
            assert_eq!(read(w), Ok(w));
        }
        assert_eq!(read(Welcome::OtherVersion(9)), Ok(Welcome::OtherVersion(VERSION)));
        assert_eq!(read_welcome(&[0; HELLO]), Err(Malformed));
    }
}
