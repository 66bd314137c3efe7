//! The image of one process in a line: what it has. `layout` has the bytes.
//!
//! Invariant: bytes that were not written whole, were changed, or are of another version are told apart, and give no image.

use crate::layout::{ImageError, ReadError, Reader, write};
use crate::line::LineId;
use crate::outcomes::Outcomes;
use crate::packing::Packing;
use engine::{ContextId, Kept, Line};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

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
    /// The last number that the leaders gave to an inter-communicator.
    pub contexts: u64,
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

/// What an image has besides its head, as it is written: one more field is another version.
type Body = (Vec<Remote>, Vec<Inter>, Outcomes);

impl Image {
    /// Writes the image.
    pub fn write(&self, packing: Packing, to: &mut dyn Write) -> io::Result<()> {
        write(&self.head, &(&self.remotes, &self.inters, &self.outcomes), packing, to)
    }

    /// Reads the image whose head was read.
    pub(crate) fn read(head: Head, body: Reader<'_>) -> Result<Image, ReadError> {
        let (remotes, inters, outcomes): Body = body.body()?;
        if inters.iter().any(|inter| inter.remote as usize >= remotes.len()) {
            return Err(ImageError::Damaged.into());
        }
        Ok(Image { head, remotes, inters, outcomes })
    }

    /// The bytes of its messages: about as many as the image has.
    pub fn bytes(&self) -> u64 {
        let of = self.remotes.iter().flat_map(|remote| &remote.of);
        let kept = of.flat_map(|(_, of)| of.line.kept.iter().chain(&of.leaving));
        kept.map(|kept| kept.data.len() as u64).sum()
    }

    /// The image as bytes.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(Packing::None, &mut bytes)?;
        Ok(bytes)
    }

    /// The image of these bytes.
    pub fn decode(mut bytes: &[u8]) -> Result<Image, ImageError> {
        let from: &mut dyn Read = &mut bytes;
        let read = Reader::begin(from).and_then(|(head, body)| Image::read(head, body));
        match read {
            Ok(image) if bytes.is_empty() => Ok(image),
            Err(ReadError::Image(e)) => Err(e),
            _ => Err(ImageError::Damaged),
        }
    }
}

impl Head {
    /// Whether both are of the same line of the same job.
    pub fn is_beside(&self, other: &Head) -> bool {
        let of = |head: &Head| (head.line, head.serial, head.size);
        of(self) == of(other) && self.job == other.job && self.jobs == other.jobs
    }
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
        let remotes = vec![Remote { name: "ocean".into(), size: 2, contexts: 3, of: vec![(1, of)] }];
        let inter =
            Inter { remote: 0, context: ContextId::root(1), children: 2, rank: 3, members: vec![0, 1], name: vec![] };
        Image { head, remotes, inters: vec![inter], outcomes: Outcomes::default() }
    }

    fn encoded(image: &Image, packing: Packing) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write(packing, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_image_is_what_was_written() {
        for packing in [Packing::None, Packing::Lz4] {
            let bytes = encoded(&image(), packing);
            assert_eq!(Image::decode(&bytes), Ok(image()));
            let mut from = &bytes[..];
            assert_eq!(Reader::begin::<Head>(&mut from).unwrap().0, image().head);
        }
    }

    /// Of many chunks, and values that lie in several of them.
    #[test]
    fn a_large_image_is_what_was_written() {
        let mut large = image();
        let lengths = [0, 1, 1 << 20, (1 << 20) - 100, 3_500_000, 5];
        for (number, length) in (0u64..).zip(lengths) {
            let data = (0..length).map(|i: u64| ((i * i) >> 7) as u8).collect();
            let kept = Kept { number, context: ContextId::root(1), source: 0, tag: -7, note: vec![1; 30], data };
            large.remotes[0].of[0].1.line.kept.push(kept);
        }
        assert_eq!(large.bytes(), lengths.iter().sum::<u64>() + 100);
        for packing in [Packing::None, Packing::Lz4] {
            let bytes = encoded(&large, packing);
            assert_eq!(packing == Packing::Lz4, (bytes.len() as u64) < large.bytes());
            assert!(Image::decode(&bytes).as_ref() == Ok(&large));
            // One byte of each chunk, of what is before it, and of the end; and what is cut there.
            for at in (0..bytes.len()).step_by(99_991).chain(bytes.len() - 16..bytes.len()) {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(Image::decode(&changed).is_err(), "byte {at}");
                assert_eq!(Image::decode(&bytes[..at]).err(), Some(ImageError::Truncated(at as u64)));
            }
        }
    }

    /// Chunks that are whole, and not where they were written.
    #[test]
    fn chunks_keep_their_order() {
        let mut large = image();
        let data = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
        large.remotes[0].of[0].1.leaving[0].data = data;
        let bytes = encoded(&large, Packing::None);
        let length = 16 + (1 << 20);
        let begin = 28 + u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        for at in [0, 2] {
            let (one, other) = (begin + at * length, begin + (at + 1) * length);
            let swapped = [&bytes[..one], &bytes[other..other + length], &bytes[one..other], &bytes[other + length..]];
            assert_eq!(Image::decode(&swapped.concat()).err(), Some(ImageError::Damaged));
            let doubled = [&bytes[..other], &bytes[one..]].concat();
            assert_eq!(Image::decode(&doubled).err(), Some(ImageError::Damaged));
            let missing = [&bytes[..one], &bytes[other..]].concat();
            assert_eq!(Image::decode(&missing).err(), Some(ImageError::Damaged));
        }
    }

    #[test]
    fn another_way_of_packing_is_told() {
        let mut bytes = encoded(&image(), Packing::None);
        bytes[12] = 9;
        let checksum = crc32fast::hash(&bytes[..24]).to_le_bytes();
        bytes[24..28].copy_from_slice(&checksum);
        assert_eq!(Image::decode(&bytes), Err(ImageError::Packing(9)));
    }

    #[test]
    fn cut_changed_and_foreign_bytes_are_told_apart() {
        let bytes = image().encode().unwrap();
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
