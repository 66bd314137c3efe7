//! What both sides of a connection for files say, as bytes (docs/protocol.md, "Files").
//!
//! Invariants: decoding is strict and takes memory for bytes that are there; chunks are read where they lie.

use crate::error::{Error, Kind};
use crate::part::Token;
use base::bytes::{Malformed, Put, Take};
use base::protocol::files::{self as numbers, CHUNK_BYTES, MAX_PATH, MAX_TEXT, chunk};

/// How many chunks a file of this size has.
pub fn chunks(size: u64) -> u64 {
    size.div_ceil(CHUNK_BYTES)
}

/// The length of a chunk of a file of this size; 0: there is no such chunk.
pub(crate) fn length(index: u64, size: u64) -> usize {
    let begin = index.checked_mul(CHUNK_BYTES).filter(|begin| *begin < size);
    begin.map_or(0, |begin| (size - begin).min(CHUNK_BYTES) as usize)
}

/// What the side says that wants a file, or has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// This file is to be read.
    Read(Vec<u8>),
    /// These chunks of it are wanted: the first, and each step-th behind it.
    Send {
        /// The first.
        first: u64,
        /// From one to the next, at least 1.
        step: u64,
    },
    /// This file is to be written.
    Write {
        /// Its path.
        path: Vec<u8>,
        /// What its content is known by until it is whole.
        token: Token,
        /// Its size.
        size: u64,
        /// Its permissions.
        mode: u32,
        /// Whether it may be new.
        new: bool,
    },
    /// What was written is to be on the disk.
    Sync,
    /// The file is whole, and gets its name.
    Finish(Vec<u8>, Token),
    /// What was written of it is to be removed.
    Abandon(Vec<u8>, Token),
}

/// What the serving side says, but for chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The file is open.
    Opened {
        /// Its size.
        size: u64,
        /// Its permissions.
        mode: u32,
        /// When it was changed last: nanoseconds since 1970.
        changed: i64,
        /// Its inode.
        inode: u64,
    },
    /// This chunk is written.
    Written(u64),
    /// It is done.
    Done,
    /// It is not done.
    Failed(Kind, String),
}

/// A chunk where it lies in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Which.
    pub index: u64,
    /// Its bytes.
    pub data: &'a [u8],
    /// Whether it has its checksum.
    pub is_good: bool,
}

impl Ask {
    /// The body of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Ask::Read(path) => {
                out.put_u8(numbers::READ);
                out.put_bytes(path);
            }
            Ask::Send { first, step } => {
                out.put_u8(numbers::SEND);
                out.put_u64(*first);
                out.put_u64(*step);
            }
            Ask::Write { path, token, size, mode, new } => {
                out.put_u8(numbers::WRITE);
                out.put_bytes(path);
                out.extend_from_slice(token);
                out.put_u64(*size);
                out.put_u32(*mode);
                out.put_u8((*new).into());
            }
            Ask::Sync => out.put_u8(numbers::SYNC),
            Ask::Finish(path, token) | Ask::Abandon(path, token) => {
                let is_whole = matches!(self, Ask::Finish(..));
                out.put_u8(if is_whole { numbers::FINISH } else { numbers::ABANDON });
                out.put_bytes(path);
                out.extend_from_slice(token);
            }
        }
        out
    }

    /// What this body says.
    pub fn decode(body: &[u8]) -> Result<Ask, Malformed> {
        let mut from = Take(body);
        let kind = from.u8()?;
        let path = |from: &mut Take<'_>| from.bytes(MAX_PATH).map(<[u8]>::to_vec);
        let ask = match kind {
            numbers::READ => Ask::Read(path(&mut from)?),
            numbers::SEND => Ask::Send { first: from.u64()?, step: from.u64()? },
            numbers::WRITE => Ask::Write {
                path: path(&mut from)?,
                token: from.array()?,
                size: from.u64()?,
                mode: from.u32()?,
                new: match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                },
            },
            numbers::SYNC => Ask::Sync,
            numbers::FINISH => Ask::Finish(path(&mut from)?, from.array()?),
            numbers::ABANDON => Ask::Abandon(path(&mut from)?, from.array()?),
            _ => return Err(Malformed),
        };
        from.end()?;
        match ask {
            Ask::Send { step: 0, .. } => Err(Malformed),
            ask => Ok(ask),
        }
    }
}

impl Answer {
    /// The body of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Answer::Opened { size, mode, changed, inode } => {
                out.put_u8(numbers::OPENED);
                out.put_u64(*size);
                out.put_u32(*mode);
                out.put_i64(*changed);
                out.put_u64(*inode);
            }
            Answer::Written(index) => {
                out.put_u8(numbers::WRITTEN);
                out.put_u64(*index);
            }
            Answer::Done => out.put_u8(numbers::DONE),
            Answer::Failed(kind, text) => {
                out.put_u8(numbers::FAILED);
                out.put_u8(kind.number().unwrap_or(numbers::IO));
                let end = (0..=MAX_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
                out.put_bytes(&text.as_bytes()[..end.unwrap_or(0)]);
            }
        }
        out
    }

    /// What this body says.
    pub fn decode(body: &[u8]) -> Result<Answer, Malformed> {
        let mut from = Take(body);
        let answer = match from.u8()? {
            numbers::OPENED => Answer::Opened {
                size: from.u64()?,
                mode: from.u32()?,
                changed: i64::from_le_bytes(from.array()?),
                inode: from.u64()?,
            },
            numbers::WRITTEN => Answer::Written(from.u64()?),
            numbers::DONE => Answer::Done,
            numbers::FAILED => {
                let kind = Kind::from_number(from.u8()?).ok_or(Malformed)?;
                let text = std::str::from_utf8(from.bytes(MAX_TEXT)?).map_err(|_| Malformed)?;
                Answer::Failed(kind, text.replace(char::is_control, "?"))
            }
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(answer)
    }

    /// The answer to what was asked, if it is no failure.
    pub(crate) fn good(self) -> Result<Answer, Error> {
        match self {
            Answer::Failed(kind, text) => Err(Error::there(kind, text)),
            answer => Ok(answer),
        }
    }
}

/// Begins the message of a chunk, with its length in front, in `out`, and gives the place for its bytes.
pub(crate) fn begin_chunk(out: &mut Vec<u8>, length: usize) -> &mut [u8] {
    let before = base::protocol::operator::message::BYTES + chunk::BYTES;
    out.resize(before + length, 0);
    &mut out[before..]
}

/// Ends it: its bytes are there.
pub(crate) fn end_chunk(out: &mut [u8], kind: u8, index: u64) {
    let (length, body) = out.split_at_mut(base::protocol::operator::message::BYTES);
    length.copy_from_slice(&(body.len() as u32).to_le_bytes());
    let (head, data) = body.split_at_mut(chunk::BYTES);
    head[chunk::KIND] = kind;
    head[chunk::INDEX..chunk::SUM].copy_from_slice(&index.to_le_bytes());
    head[chunk::SUM..].copy_from_slice(&crc32fast::hash(data).to_le_bytes());
}

impl<'a> Chunk<'a> {
    /// The chunk in this body, if it is one of this kind.
    pub fn decode(body: &'a [u8], kind: u8) -> Option<Chunk<'a>> {
        if *body.first()? != kind {
            return None;
        }
        let (head, data) = body.split_at_checked(chunk::BYTES)?;
        let index = u64::from_le_bytes(head[chunk::INDEX..chunk::SUM].try_into().ok()?);
        let sum = u32::from_le_bytes(head[chunk::SUM..].try_into().ok()?);
        Some(Chunk { index, data, is_good: crc32fast::hash(data) == sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_alike() {
        let asks = [
            Ask::Read(b"out.nc".to_vec()),
            Ask::Send { first: 7, step: 2 },
            Ask::Write { path: b"a/b".to_vec(), token: [3; 16], size: 1 << 40, mode: 0o644, new: true },
            Ask::Sync,
            Ask::Finish(b"a".to_vec(), [1; 16]),
            Ask::Abandon(Vec::new(), [2; 16]),
        ];
        for ask in asks {
            let body = ask.encode();
            assert_eq!(Ask::decode(&body), Ok(ask));
            assert_eq!(Ask::decode(&body[..body.len() - 1]), Err(Malformed));
            assert_eq!(Ask::decode(&[&body[..], &[0]].concat()), Err(Malformed));
        }
        assert_eq!(Ask::decode(&Ask::Send { first: 0, step: 0 }.encode()), Err(Malformed));
        assert_eq!(Ask::decode(&Ask::Read(vec![b'a'; MAX_PATH + 1]).encode()), Err(Malformed));
        let answers = [
            Answer::Opened { size: 5, mode: 0o600, changed: -1, inode: 9 },
            Answer::Written(4),
            Answer::Done,
            Answer::Failed(Kind::Changed, "it has changed".into()),
        ];
        for answer in answers {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
        let long = Answer::Failed(Kind::Io, "é".repeat(MAX_TEXT));
        assert!(matches!(Answer::decode(&long.encode()), Ok(Answer::Failed(Kind::Io, text)) if text.len() == MAX_TEXT));
    }

    #[test]
    fn a_chunk_knows_when_it_is_damaged() {
        let mut out = Vec::new();
        begin_chunk(&mut out, 3).copy_from_slice(b"abc");
        end_chunk(&mut out, numbers::CHUNK, 5);
        let good = Chunk::decode(&out[4..], numbers::CHUNK).unwrap();
        assert_eq!(good, Chunk { index: 5, data: b"abc", is_good: true });
        assert_eq!(Chunk::decode(&out[4..], numbers::PUT), None);
        let last = out.len() - 1;
        out[last] ^= 1;
        assert!(!Chunk::decode(&out[4..], numbers::CHUNK).unwrap().is_good);
    }

    #[test]
    fn chunks_cover_a_file() {
        for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES] {
            let all: u64 = (0..chunks(size)).map(|index| length(index, size) as u64).sum();
            assert_eq!((all, length(chunks(size), size)), (size, 0));
        }
        assert_eq!(length(u64::MAX, u64::MAX), 0);
    }
}
