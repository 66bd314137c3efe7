//! The messages between client and server as bytes, once both have proved the key: see `docs/naming.md`. The client (`tcp`) and the server use it; nothing here
//! knows a socket.
//!
//! Invariant: a length is bounded before anything of that length is allocated; a message that was parsed has no bytes left.

use crate::fate::Fate;
use crate::record::{Key, MAX_RECORD};
use base::bytes::{Malformed, Take};
use serde::{Deserialize, Serialize};

/// The TCP port of a server whose address names none.
pub const DEFAULT_PORT: u16 = 7431;

/// The bytes before each body: its length as u32, and 4 zeros.
pub(crate) const HEADER: usize = 8;
/// The most bytes of a body: a record, and a little besides.
pub(crate) const MAX_BODY: usize = MAX_RECORD + 1024;
/// The most bytes of records in one answer to [`Request::List`].
pub(crate) const PAGE: usize = MAX_RECORD;

/// A random number that only the holder of a name and the servers know.
pub(crate) type Token = [u8; 16];

/// A client's request. The order of the variants is their numbers on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Claims the name of this written record.
    Claim { token: Token, record: Vec<u8> },
    /// Renews a claim. A server that does not know it learns it. `number` is what this server granted it with last, or 0.
    Renew { token: Token, number: u64, record: Vec<u8> },
    /// Ends a claim. Any later claim or renewal with this token is refused.
    Release { token: Token, key: Key },
    /// Asks for the record with this key.
    Lookup { key: Key },
    /// Asks for the records behind this key, as many as an answer holds.
    List { after: Option<Key> },
    /// Asks for the changes from this number on; without one, for the number of the next change.
    Changes { after: Option<u64> },
}

/// A server's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The client has the name for `lease` milliseconds from now on. Every claim that this server grants has a larger number
    /// than the ones before. With `common`, here and below, it speaks for all servers before its store.
    Granted {
        lease: u32,
        number: u64,
        common: bool,
    },
    /// Another process has the name: its record, without secrets. It is `doubtful` if its connection has ended since its last
    /// renewal.
    Held {
        record: Vec<u8>,
        doubtful: bool,
    },
    /// The claim is ended.
    Released,
    /// The record that was looked up, and the number of its claim.
    Found {
        record: Option<Vec<u8>>,
        number: u64,
        common: bool,
    },
    /// Records without secrets, and whether there may be more behind them.
    Names {
        records: Vec<Vec<u8>>,
        more: bool,
        common: bool,
    },
    Refused(Refusal),
    /// The changes that are still known, as many as an answer holds, and the number from which to ask on.
    Changes {
        next: u64,
        changes: Vec<Change>,
        common: bool,
    },
}

/// What happened `age` milliseconds ago to the name of this record, which is without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub fate: Fate,
    pub age: u64,
    pub record: Vec<u8>,
}

/// Why a server refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    Malformed,
    /// The server reads records of this version only.
    RecordVersion(u16),
    /// The server has no room for another name of this owner.
    Full,
    /// The claim with this token was ended.
    Ended,
    /// Another claim was granted since this one, and is over.
    Superseded,
    /// The disk has no room, so nothing can be kept.
    DiskFull,
    /// The store could not be written.
    Disk,
    /// The store that this server shares with others is not reached.
    StoreAway,
}

/// A refusal in words, behind "the naming server".
pub(crate) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::Malformed => "does not understand what it was asked",
        Refusal::RecordVersion(_) => "is of another version of MPI_Connect; both need the same",
        Refusal::Full => "has no room for another name of this user or host",
        Refusal::Ended => "knows this claim as given back",
        Refusal::Superseded => "has given the name to another process since",
        Refusal::DiskFull => "has no room on its disk to keep what it was asked; make room there",
        Refusal::Disk => "cannot write to its store; it tells why on its host",
        Refusal::StoreAway => {
            "does not reach the store that it shares, or too few of its nodes; it tells why on its host"
        }
    }
}

/// The header and the body of a message.
pub(crate) fn frame(message: &impl Serialize) -> Result<Vec<u8>, Malformed> {
    let mut out = postcard::to_extend(message, vec![0; HEADER]).map_err(|_| Malformed)?;
    let length = out.len() - HEADER;
    if length > MAX_BODY {
        return Err(Malformed);
    }
    out[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(out)
}

/// The length of the body behind this header.
pub(crate) fn body_length(header: &[u8; HEADER]) -> Result<usize, Malformed> {
    let mut take = Take(header);
    let (length, reserved) = (take.u32()? as usize, take.u32()?);
    if length > MAX_BODY || reserved != 0 { Err(Malformed) } else { Ok(length) }
}

/// Parses a whole body; an error if bytes are left behind it.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Malformed> {
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
            Request::Renew { token, number: 1 << 50, record },
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
            Answer::Granted { lease: 15000, number: u64::MAX, common: true },
            Answer::Held { record: vec![1], doubtful: true },
            Answer::Released,
            Answer::Found { record: None, number: 0, common: false },
            Answer::Refused(Refusal::StoreAway),
            Answer::Names { records: vec![vec![1], vec![]], more: true, common: false },
            Answer::Refused(Refusal::RecordVersion(2)),
            Answer::Changes {
                next: 7,
                changes: vec![Change { fate: Fate::Over, age: 5, record: vec![1] }],
                common: true,
            },
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
        assert!(frame(&Answer::Found { record: Some(vec![0; MAX_BODY]), number: 0, common: false }).is_err());
        assert!(frame(&Request::Claim { token: [0; 16], record: vec![0; MAX_RECORD] }).is_ok());
        // A length in the body that goes beyond its end.
        assert_eq!(parse::<Answer>(&[3, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(Malformed));
    }
}
