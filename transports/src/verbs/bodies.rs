//! MSG frames that are messages of their own: what is left out of them, since it follows from the lane and from the one before.
//!
//! Used by [`super::messages`]. Invariant: both sides of a lane remember the same numbers and words, since its messages come once each
//! and in order.

use super::words::{SHORT_BODY, Words};
use base::bytes::{Malformed, Take};
use base::protocol::rdma::{BODY_WORDS, FIRST_MSG, first_msg, message};

/// The numbers of a MSG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// 0: there was none.
    pub sequence: u64,
    pub acknowledged: u64,
}

impl Numbers {
    /// How many more sequences that MSG acknowledges, if it is the next one and can be told so.
    fn advance(&self, to: &Numbers) -> Option<u16> {
        let is_next = self.sequence != 0 && to.sequence == self.sequence.wrapping_add(1);
        if is_next { to.acknowledged.checked_sub(self.acknowledged)?.try_into().ok() } else { None }
    }

    /// Writes them as they are in a FIRST_MSG.
    pub(super) fn write(&self, out: &mut [u8]) {
        out[first_msg::SEQUENCE..][..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[first_msg::ACKNOWLEDGED..][..8].copy_from_slice(&self.acknowledged.to_le_bytes());
    }
}

/// What both sides of one direction remember.
#[derive(Default)]
pub(super) struct Bodies {
    last: Numbers,
    words: Words<BODY_WORDS>,
}

impl Bodies {
    /// The next MSG has these numbers. Returns how many more sequences it acknowledges, if it can be told so as a NEXT_MSG.
    pub(super) fn tell(&mut self, numbers: Numbers) -> Option<u16> {
        std::mem::replace(&mut self.last, numbers).advance(&numbers)
    }

    /// Leaves out the words that are known of the body of a NEXT_MSG, as [`Words::leave_out`] does, if it is short.
    pub(super) fn leave_out(&mut self, body: &mut [u8]) -> (u32, usize) {
        if body.len() <= SHORT_BODY { self.words.leave_out(body) } else { (0, body.len()) }
    }

    /// Takes a message from where its numbers or its body begin in `slot`, up to `end`. Returns its numbers, and where its body lies.
    pub(super) fn hear(
        &mut self,
        kind: u8,
        number: u32,
        slot: &mut [u8],
        end: usize,
    ) -> Result<(Numbers, usize, usize), Malformed> {
        let at = message::BYTES;
        if kind == FIRST_MSG {
            let mut t = Take(slot.get(at..end).ok_or(Malformed)?);
            self.last = Numbers { sequence: t.u64()?, acknowledged: t.u64()? };
            let is_good = number == 0 && self.last.sequence > 0 && !t.0.is_empty();
            return if is_good { Ok((self.last, at + first_msg::BYTES, end)) } else { Err(Malformed) };
        }
        let Numbers { sequence, acknowledged } = self.last;
        if sequence == 0 {
            return Err(Malformed);
        }
        let (left_out, more) = (number & 0xffff, u64::from(number >> 16));
        let sequence = sequence.checked_add(1).ok_or(Malformed)?;
        self.last = Numbers { sequence, acknowledged: acknowledged.checked_add(more).ok_or(Malformed)? };
        // Words can be left out of short ones alone.
        let n = end - at;
        let len = match left_out != 0 || n <= SHORT_BODY {
            true => self.words.put_back(left_out, &mut slot[at..], n)?,
            false => n,
        };
        if len > 0 { Ok((self.last, at, at + len)) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use base::protocol::rdma::{NEXT_MSG, SLOT};

    const AT: usize = message::BYTES;

    /// What comes of a message with this content.
    fn hear(bodies: &mut Bodies, kind: u8, number: u32, content: &[u8]) -> Result<(Numbers, Vec<u8>), Malformed> {
        let mut slot = vec![0xee; SLOT];
        slot[AT..AT + content.len()].copy_from_slice(content);
        let (numbers, at, end) = bodies.hear(kind, number, &mut slot, AT + content.len())?;
        Ok((numbers, slot[at..end].to_vec()))
    }

    fn first(sequence: u64, acknowledged: u64, body: &[u8]) -> Vec<u8> {
        [&sequence.to_le_bytes(), &acknowledged.to_le_bytes(), body].concat()
    }

    #[test]
    fn numbers_follow_from_those_before() {
        let mut bodies = Bodies::default();
        assert_eq!(hear(&mut bodies, NEXT_MSG, 0, b"abc"), Err(Malformed), "there was none before");
        let numbers = |sequence, acknowledged| Numbers { sequence, acknowledged };
        let (five, body) = (first(5, 70, b"abc"), b"abc".to_vec());
        assert_eq!(hear(&mut bodies, FIRST_MSG, 0, &five), Ok((numbers(5, 70), body.clone())));
        assert_eq!(hear(&mut bodies, NEXT_MSG, 3 << 16, &body), Ok((numbers(6, 73), body.clone())));
        let zeros = [vec![0; 8], body.clone()].concat();
        assert_eq!(hear(&mut bodies, NEXT_MSG, 0xffff << 16 | 1, &body), Ok((numbers(7, 73 + 0xffff), zeros)));
        assert_eq!(numbers(7, 9).advance(&numbers(8, 9 + 0xffff)), Some(0xffff));
        for (from, to) in [((7, 9), (8, 9 + 0x1_0000)), ((7, 9), (8, 8)), ((7, 9), (9, 9)), ((0, 0), (1, 0))] {
            assert_eq!(numbers(from.0, from.1).advance(&numbers(to.0, to.1)), None, "{from:?} {to:?}");
        }
    }

    #[test]
    fn nonsense_is_malformed() {
        let good = first(5, 0, b"x");
        for (number, bad) in [(1, &good[..]), (0, &good[..16]), (0, &good[..15]), (0, &first(0, 0, b"x"))] {
            assert_eq!(hear(&mut Bodies::default(), FIRST_MSG, number, bad), Err(Malformed), "{bad:?}");
        }
        let long = vec![1; SHORT_BODY + 1];
        let next: [(u32, &[u8]); 4] = [(0, b""), (1 << 15, b"x"), (1, &long), (1, &long[1..])];
        for (number, bad) in next {
            let mut bodies = Bodies::default();
            hear(&mut bodies, FIRST_MSG, 0, &good).unwrap();
            assert_eq!(hear(&mut bodies, NEXT_MSG, number, bad), Err(Malformed), "{number:x} {bad:?}");
        }
        for (sequence, acknowledged) in [(u64::MAX, 0), (1, u64::MAX)] {
            let mut bodies = Bodies::default();
            hear(&mut bodies, FIRST_MSG, 0, &first(sequence, acknowledged, b"x")).unwrap();
            assert_eq!(hear(&mut bodies, NEXT_MSG, 1 << 16, b"x"), Err(Malformed));
        }
    }
}
