//! Memory for unexpected messages, which is used again. Used by the receiving side of the engine. Invariant: it never
//! holds more than [`MOST_BYTES`] in [`MOST_PIECES`].

/// Bytes that are kept. Memory beyond that is freed.
const MOST_BYTES: usize = 256 << 10;
/// Vectors that are kept.
const MOST_PIECES: usize = 1024;

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
    pub fn copy(&mut self, data: &[u8]) -> Vec<u8> {
        let mut piece = self.pieces.pop().unwrap_or_default();
        self.bytes -= piece.capacity();
        piece.clear();
        piece.extend_from_slice(data);
        piece
    }

    /// Keeps the memory of a vector that is needed no more.
    pub fn give(&mut self, piece: Vec<u8>) {
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
                spare.give(vec![7; size]);
            }
            assert!(spare.bytes <= MOST_BYTES && spare.pieces.len() <= MOST_PIECES);
            assert_eq!(spare.bytes, spare.pieces.iter().map(Vec::capacity).sum());
        }
        for _ in 0..5000 {
            assert_eq!(spare.copy(&[1, 2, 3]), [1, 2, 3]);
        }
        assert_eq!((spare.bytes, spare.pieces.len()), (0, 0));
    }
}
