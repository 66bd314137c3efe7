//! Which chunks of a file one process moves: the first, and each step-th behind it. Any share can be divided into any number of
//! shares, so what a process leaves undone is divided among the others.

use base::bytes::{Malformed, Put, Take};

/// A share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The first chunk.
    pub first: u64,
    /// From one to the next, at least 1.
    pub step: u64,
}

impl Share {
    /// All chunks.
    pub const ALL: Share = Share { first: 0, step: 1 };

    /// As many shares as `n` says, one at least, which have all chunks of this one.
    pub fn divide(self, n: u64) -> impl Iterator<Item = Share> {
        let n = n.max(1);
        (0..n).map(move |i| Share {
            first: self.first.saturating_add(i.saturating_mul(self.step)),
            step: self.step.saturating_mul(n),
        })
    }

    /// What is left behind its first chunk.
    pub fn rest(self) -> Share {
        Share { first: self.first.saturating_add(self.step), step: self.step }
    }

    /// Its chunks in a file that has so many.
    pub fn chunks(self, all: u64) -> impl Iterator<Item = u64> {
        let next = move |index: &u64| index.checked_add(self.step);
        std::iter::successors(Some(self.first), next).take_while(move |index| *index < all)
    }

    /// Appends it.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.put_u64(self.first);
        out.put_u64(self.step);
    }

    /// Reads what was appended.
    pub fn decode(from: &mut Take<'_>) -> Result<Share, Malformed> {
        let share = Share { first: from.u64()?, step: from.u64()? };
        if share.step == 0 { Err(Malformed) } else { Ok(share) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divided_share_has_the_same_chunks() {
        let whole = Share { first: 3, step: 2 };
        for n in [1, 2, 3, 7] {
            let mut chunks: Vec<u64> = whole.divide(n).flat_map(|part| part.chunks(40)).collect();
            chunks.sort_unstable();
            assert_eq!(chunks, whole.chunks(40).collect::<Vec<_>>());
        }
        assert_eq!(whole.rest().chunks(8).collect::<Vec<_>>(), [5, 7]);
        assert_eq!(Share { first: u64::MAX, step: u64::MAX }.rest().chunks(9).count(), 0);
        assert_eq!(Share::ALL.divide(0).count(), 1);
    }
}
