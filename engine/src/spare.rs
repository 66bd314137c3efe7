//! The data of unexpected messages: little of it is in the message itself, and more is in memory that is used again. Used by the
//! receiving side of the engine. Invariant: no more than [`MOST_BYTES`] in [`MOST_PIECES`] are kept for that.

use serde::{Deserialize, Serialize, Serializer};
use std::ops::Deref;

/// Bytes that are kept. Memory beyond that is freed.
const MOST_BYTES: usize = 256 << 10;
/// Vectors that are kept.
const MOST_PIECES: usize = 1024;

/// Up to this number of bytes is in the message itself, where they take the room that a vector needs in any case, and a little more.
const NEAR: usize = 30;

/// The data of a message that waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<u8>")]
pub(crate) enum Data {
    Near { len: u8, bytes: [u8; NEAR] },
    Far(Vec<u8>),
}

impl Deref for Data {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match self {
            Data::Near { len, bytes } => &bytes[..usize::from(*len).min(NEAR)],
            Data::Far(bytes) => bytes,
        }
    }
}

impl Data {
    /// `None`: it is too long for the message itself.
    #[inline(always)]
    fn near(data: &[u8]) -> Option<Data> {
        let mut bytes = [0; NEAR];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(Data::Near { len: data.len() as u8, bytes })
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data::near(&bytes).unwrap_or(Data::Far(bytes))
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

/// Vectors whose memory can be used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spare {
    pieces: Vec<Vec<u8>>,
    bytes: usize,
    /// Where the next RTS gets its description from.
    pub described: Vec<u8>,
}

impl Spare {
    /// A copy of `data`, in memory that is used again if there is some.
    #[inline]
    pub fn copy(&mut self, data: &[u8]) -> Data {
        Data::near(data).unwrap_or_else(|| Data::Far(self.copy_far(data)))
    }

    fn copy_far(&mut self, data: &[u8]) -> Vec<u8> {
        let mut piece = self.pieces.pop().unwrap_or_default();
        self.bytes -= piece.capacity();
        piece.clear();
        piece.extend_from_slice(data);
        piece
    }

    /// Keeps the memory of data that is needed no more.
    #[inline(always)]
    pub fn give(&mut self, data: &mut Data) {
        if let Data::Far(piece) = data {
            self.give_far(std::mem::take(piece));
        }
    }

    fn give_far(&mut self, piece: Vec<u8>) {
        let size = piece.capacity();
        if size > 0 && self.pieces.len() < MOST_PIECES && self.bytes + size <= MOST_BYTES {
            self.bytes += size;
            self.pieces.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_used_again() {
        let mut spare = Spare::default();
        for size in [0usize, 1, 100, 16 << 10] {
            for _ in 0..5000 {
                spare.give(&mut Data::Far(vec![7; size]));
            }
            assert!(spare.bytes <= MOST_BYTES && spare.pieces.len() <= MOST_PIECES);
            assert_eq!(spare.bytes, spare.pieces.iter().map(Vec::capacity).sum());
        }
        for _ in 0..5000 {
            assert_eq!(*spare.copy(&[1; NEAR + 1]), [1; NEAR + 1]);
        }
        assert_eq!((spare.bytes, spare.pieces.len()), (0, 0));
    }

    #[test]
    fn data_of_any_length_is_what_it_was() {
        let mut spare = Spare::default();
        for len in 0..=2 * NEAR {
            let bytes: Vec<_> = (1..=len as u8).collect();
            let data = spare.copy(&bytes);
            assert_eq!((&*data, matches!(data, Data::Near { .. })), (&*bytes, len <= NEAR));
            let written = postcard::to_allocvec(&data).unwrap();
            assert_eq!(written, postcard::to_allocvec(&bytes).unwrap());
            assert_eq!(*postcard::from_bytes::<Data>(&written).unwrap(), *bytes);
        }
    }
}
