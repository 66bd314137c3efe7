//! How images are packed.
//!
//! Invariant: what is unpacked has the size that was told, or is nothing; memory is taken for a size that the packed bytes can have.

/// So many bytes become one at best.
const LEAST: usize = 255;

/// How the chunks of an image are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    #[default]
    None,
    /// LZ4, each chunk a block of its own. A chunk that would not get smaller is left as it is.
    Lz4,
}

impl Packing {
    /// Its number in a file.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    pub(crate) fn of(number: u32) -> Option<Packing> {
        [Packing::None, Packing::Lz4].into_iter().find(|packing| packing.number() == number)
    }

    /// Packs the end of some bytes, from `at` on.
    pub(crate) fn pack(self, bytes: &mut Vec<u8>, at: usize) {
        if self == Packing::Lz4 {
            let packed = lz4_flex::block::compress(&bytes[at..]);
            if packed.len() < bytes.len() - at {
                bytes.truncate(at);
                bytes.extend_from_slice(&packed);
            }
        }
    }

    /// What was packed, if it was so many bytes.
    pub(crate) fn unpack(self, packed: &[u8], size: usize) -> Option<Vec<u8>> {
        if self == Packing::None || size > LEAST * packed.len() {
            return None;
        }
        let mut bytes = vec![0; size];
        lz4_flex::block::decompress_into(packed, &mut bytes).is_ok_and(|n| n == size).then_some(bytes)
    }
}
