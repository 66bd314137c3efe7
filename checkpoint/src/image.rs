//! The image of one process in a line, as a file: docs/formats.md has the layout.
//!
//! Invariant: bytes that were not written whole, were changed, or are of another version are told apart, and give no image.

use crate::line::LineId;
use crate::outcomes::Outcomes;
use engine::{ContextId, Kept, Line};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The first bytes of an image.
const MAGIC: [u8; 8] = *b"MPICONNi";
/// The version of the format.
const VERSION: u32 = 1;
/// Magic, version, length of the head, length of the body, CRC-32 of the head, of the body, and of all this.
const FIXED: usize = 36;
/// The longest head.
const MAX_HEAD: usize = 1 << 20;

/// What an image is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The name of the job.
    pub job: String,
    /// The rank of the process.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// The number of the job's cut.
    pub serial: u64,
    /// What the program calls it.
    pub label: String,
    /// The line.
    pub line: LineId,
    /// The names of all jobs of the line.
    pub jobs: BTreeSet<String>,
}

/// The messages between two processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfPair {
    /// Messages that this process's cut had sent, and that had come to the other's.
    pub sent: (u64, u64),
    /// Messages that had come to this process's cut, and that the other's had sent.
    pub arrived: (u64, u64),
    /// What this process has, or wants, of those that come.
    pub line: Line,
    /// Its sends that were pending.
    pub leaving: Vec<Kept>,
}

impl OfPair {
    /// Whether there was any message.
    pub fn is_used(&self) -> bool {
        (self.sent, self.arrived) != ((0, 0), (0, 0))
    }
}

/// Another job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// The number of ranks.
    pub size: u32,
    /// By rank: the processes with which there were messages.
    pub of: Vec<(u32, OfPair)>,
}

/// An inter-communicator that was open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inter {
    /// The other job, by its place in [`Image::remotes`].
    pub remote: u32,
    /// Its context.
    pub context: ContextId,
    /// How many were made from it.
    pub children: u64,
    /// The rank of the process in its local group.
    pub rank: u32,
    /// Its remote group, by rank in the other job.
    pub members: Vec<u32>,
    /// Its name for people.
    pub name: Vec<u8>,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it is of.
    pub head: Head,
    /// The other jobs.
    pub remotes: Vec<Remote>,
    /// The open inter-communicators, in the order of their making.
    pub inters: Vec<Inter>,
    /// The outcomes of calls after the cut that could have been others.
    pub outcomes: Outcomes,
}

/// Why bytes are no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageError {
    /// They begin otherwise.
    Foreign,
    /// They have this other version of the format.
    Version(u32),
    /// There are this many, and more should be there.
    Truncated(u64),
    /// They were changed.
    Damaged,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Foreign => f.write_str("no image of this library"),
            ImageError::Version(v) => write!(f, "version {v} of the format, this release reads {VERSION}"),
            ImageError::Truncated(n) => write!(f, "cut off after {n} bytes"),
            ImageError::Damaged => f.write_str("damaged: a checksum differs"),
        }
    }
}

impl Image {
    /// The image as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let head = postcard::to_stdvec(&self.head).expect("plain data in memory");
        let fields = (&self.remotes, &self.inters, &self.outcomes);
        let mut out = vec![0; FIXED];
        out.extend_from_slice(&head);
        let mut out = postcard::to_extend(&fields, out).expect("plain data in memory");
        let body = out.len() - FIXED - head.len();
        let mut fixed = Vec::with_capacity(FIXED);
        fixed.extend_from_slice(&MAGIC);
        fixed.extend_from_slice(&VERSION.to_le_bytes());
        fixed.extend_from_slice(&(head.len() as u32).to_le_bytes());
        fixed.extend_from_slice(&(body as u64).to_le_bytes());
        fixed.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        fixed.extend_from_slice(&crc32fast::hash(&out[FIXED + head.len()..]).to_le_bytes());
        fixed.extend_from_slice(&crc32fast::hash(&fixed).to_le_bytes());
        out[..FIXED].copy_from_slice(&fixed);
        out
    }

    /// The image of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Image, ImageError> {
        let (head, rest) = read_head(bytes)?;
        let (length, checksum) = (word::<8>(bytes, 16), word::<4>(bytes, 28));
        let body = usize::try_from(length).ok().and_then(|n| rest.get(..n));
        let body = body.ok_or(ImageError::Truncated(bytes.len() as u64))?;
        if u64::from(crc32fast::hash(body)) != checksum || rest.len() != body.len() {
            return Err(ImageError::Damaged);
        }
        let (remotes, inters, outcomes): (Vec<Remote>, Vec<Inter>, Outcomes) =
            postcard::from_bytes(body).map_err(|_| ImageError::Damaged)?;
        if inters.iter().any(|inter| inter.remote as usize >= remotes.len()) {
            return Err(ImageError::Damaged);
        }
        Ok(Image { head, remotes, inters, outcomes })
    }
}

impl Head {
    /// Whether both are of the same line of the same job.
    pub fn is_beside(&self, other: &Head) -> bool {
        let of = |head: &Head| (head.line, head.serial, head.size);
        of(self) == of(other) && self.job == other.job && self.jobs == other.jobs
    }

    /// The most bytes from which a head is read.
    pub const BYTES: usize = FIXED + MAX_HEAD;

    /// The head of an image that begins with these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Head, ImageError> {
        Ok(read_head(bytes)?.0)
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(word)
}

fn read_head(bytes: &[u8]) -> Result<(Head, &[u8]), ImageError> {
    let truncated = ImageError::Truncated(bytes.len() as u64);
    let begins = bytes.len().min(MAGIC.len());
    if bytes[..begins] != MAGIC[..begins] {
        return Err(ImageError::Foreign);
    }
    if bytes.len() < FIXED {
        return Err(truncated);
    }
    match word::<4>(bytes, 8) as u32 {
        VERSION => (),
        other => return Err(ImageError::Version(other)),
    }
    if u64::from(crc32fast::hash(&bytes[..FIXED - 4])) != word::<4>(bytes, FIXED - 4) {
        return Err(ImageError::Damaged);
    }
    let length = word::<4>(bytes, 12) as usize;
    if length > MAX_HEAD {
        return Err(ImageError::Damaged);
    }
    let head = bytes.get(FIXED..FIXED + length).ok_or(truncated)?;
    if u64::from(crc32fast::hash(head)) != word::<4>(bytes, 24) {
        return Err(ImageError::Damaged);
    }
    let read = postcard::from_bytes(head).map_err(|_| ImageError::Damaged)?;
    Ok((read, &bytes[FIXED + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        let head = Head {
            job: "air".into(),
            rank: 3,
            size: 4,
            serial: 7,
            label: "step-1200".into(),
            line: LineId { by: 9, count: 2 },
            jobs: ["air".to_owned(), "ocean".to_owned()].into(),
        };
        let kept = Kept { number: 5, context: ContextId::root(1), source: 0, tag: 1, note: vec![], data: vec![7; 100] };
        let of = OfPair { sent: (4, 5), leaving: vec![kept], ..OfPair::default() };
        let remotes = vec![Remote { name: "ocean".into(), size: 2, of: vec![(1, of)] }];
        let inter =
            Inter { remote: 0, context: ContextId::root(1), children: 2, rank: 3, members: vec![0, 1], name: vec![] };
        Image { head, remotes, inters: vec![inter], outcomes: Outcomes::default() }
    }

    #[test]
    fn an_image_is_what_was_written() {
        let bytes = image().encode();
        assert_eq!(Image::decode(&bytes), Ok(image()));
        assert_eq!(Head::decode(&bytes), Ok(image().head));
    }

    #[test]
    fn cut_changed_and_foreign_bytes_are_told_apart() {
        let bytes = image().encode();
        for length in 0..bytes.len() {
            assert_eq!(Image::decode(&bytes[..length]), Err(ImageError::Truncated(length as u64)));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let want = match at {
                0..8 => ImageError::Foreign,
                8..12 => ImageError::Version(u32::from_le_bytes(changed[8..12].try_into().unwrap())),
                _ => ImageError::Damaged,
            };
            assert_eq!(Image::decode(&changed), Err(want), "byte {at}");
        }
        assert_eq!(Image::decode(&[&bytes[..], &[0]].concat()), Err(ImageError::Damaged));
        assert_eq!(Image::decode(b"something else that is longer than a head"), Err(ImageError::Foreign));
    }
}
