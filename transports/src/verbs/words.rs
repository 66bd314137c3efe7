//! Short messages without the words that the one before had at the same place: from one message to the next, most of a frame's
//! header stays as it is.
//!
//! Used by [`super::messages`]. Invariant: both sides of a lane remember the same words, since its messages come once each and in order.

use base::bytes::Malformed;
use base::protocol::rdma::{BODY_WORDS, WORDS};

/// The bytes of a word.
const WORD: usize = 8;
/// The longest content that words are left out of.
pub(super) const SHORT: usize = Words::<WORDS>::SHORT;
/// The longest body that words are left out of.
pub(super) const SHORT_BODY: usize = Words::<BODY_WORDS>::SHORT;

/// The words of the short messages so far, each the last one at its place: so many places.
pub(super) struct Words<const N: usize>([[u8; WORD]; N]);

impl<const N: usize> Default for Words<N> {
    fn default() -> Self {
        Words([[0; WORD]; N])
    }
}

impl<const N: usize> Words<N> {
    const SHORT: usize = N * WORD;

    /// Leaves out of a message of at most [`Words::SHORT`] bytes the words that are known. Returns them, a bit each, and how many bytes are left.
    pub(super) fn leave_out(&mut self, content: &mut [u8]) -> (u32, usize) {
        let (mut left_out, mut kept, len) = (0, 0, content.len());
        let (words, _) = content.as_chunks_mut::<WORD>();
        let whole = words.len();
        for (n, known) in self.0[..whole].iter_mut().enumerate() {
            if words[n] == *known {
                left_out |= 1 << n;
            } else {
                *known = words[n];
                words[kept] = *known;
                kept += 1;
            }
        }
        content.copy_within(whole * WORD.., kept * WORD);
        (left_out, kept * WORD + len % WORD)
    }

    /// Puts them back into the `len` bytes of content that came, which has room to grow to [`Words::SHORT`]. Returns the length.
    pub(super) fn put_back(&mut self, left_out: u32, content: &mut [u8], len: usize) -> Result<usize, Malformed> {
        let (mut kept, rest) = (len / WORD, len % WORD);
        let whole = kept + left_out.count_ones() as usize;
        if whole * WORD + rest > Self::SHORT || left_out.checked_shr(whole as u32).unwrap_or(0) != 0 {
            return Err(Malformed);
        }
        content.copy_within(kept * WORD..len, whole * WORD);
        let (words, _) = content.as_chunks_mut::<WORD>();
        // From the end on, so that nothing is overwritten that is still to be moved.
        for (n, known) in self.0[..whole].iter_mut().enumerate().rev() {
            if left_out & 1 << n == 0 {
                kept -= 1;
                *known = words[kept];
            }
            words[n] = *known;
        }
        Ok(whole * WORD + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Rng;

    /// Sends it from one side to the other. Returns how many bytes went.
    fn send(from: &mut Words<WORDS>, to: &mut Words<WORDS>, message: &[u8]) -> usize {
        let mut sent = message.to_vec();
        let (left_out, len) = from.leave_out(&mut sent);
        let mut came = [0xee; SHORT];
        came[..len].copy_from_slice(&sent[..len]);
        assert_eq!(to.put_back(left_out, &mut came, len), Ok(message.len()));
        assert!(came[..message.len()] == *message);
        len
    }

    #[test]
    fn what_is_left_out_is_put_back() {
        let (mut from, mut to) = (Words::default(), Words::default());
        let mut rng = Rng::new(1);
        for _ in 0..2000 {
            // Few values, so that many words come again.
            let len = rng.below(SHORT as u64 + 1) as usize;
            let message: Vec<u8> = (0..len).map(|n| n as u8 ^ (rng.below(50) == 0) as u8).collect();
            send(&mut from, &mut to, &message);
        }
        assert!(from.0 == to.0);
    }

    #[test]
    fn of_a_message_like_the_one_before_little_is_sent() {
        let (mut from, mut to) = (Words::default(), Words::default());
        let mut message = [7; 102];
        assert_eq!(send(&mut from, &mut to, &message), 102);
        message[40] += 1;
        assert_eq!(send(&mut from, &mut to, &message), WORD + 102 % WORD);
        assert_eq!(send(&mut from, &mut to, &message[..64]), 0);
    }

    #[test]
    fn words_that_are_not_there_are_malformed() {
        let mut content = [1; SHORT + WORD];
        let all = u32::MAX >> (32 - WORDS);
        let bad = [(1, SHORT), (0, SHORT + 1), (0b10, 0), (0b100, 8), (1 << 31, 0), (u32::MAX, 0), (all, 1)];
        for (left_out, len) in bad {
            assert_eq!(
                Words::<WORDS>::default().put_back(left_out, &mut content, len),
                Err(Malformed),
                "{left_out:b} {len}"
            );
        }
        assert_eq!(Words::<WORDS>::default().put_back(all, &mut content, 0), Ok(SHORT));
    }
}
