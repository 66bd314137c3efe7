//! Memory for a message that comes, in which the bytes of a chunk lie as a disk takes them: from there they are written without a
//! copy, also past the kernel's cache.
//!
//! Invariant: memory is taken for bytes that have come, and once taken it is used again as it is.

use crate::part::ALIGN;
use base::protocol::files::chunk;

/// The room at first, as one record of an encrypted stream has. Then it grows with what has come.
const FIRST: usize = 64 << 10;

/// The memory of one message.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where the body begins, so that the data of a chunk is aligned.
    begin: usize,
}

impl Buffer {
    /// Room for what follows the `have` bytes of a body of `length` bytes: some of it at least, if something is to follow.
    pub(crate) fn room(&mut self, have: usize, length: usize) -> &mut [u8] {
        if have < length && self.begin + have >= self.bytes.len() {
            self.grow(have, length.min((2 * have).max(FIRST)));
        }
        let end = (self.begin + length).min(self.bytes.len());
        &mut self.bytes[self.begin + have..end]
    }

    fn grow(&mut self, have: usize, length: usize) {
        let mut bytes = vec![0; ALIGN + length];
        let begin = (bytes.as_ptr().addr() + chunk::BYTES).wrapping_neg() % ALIGN;
        bytes.truncate(begin + length);
        bytes[begin..][..have].copy_from_slice(self.body(have));
        (self.bytes, self.begin) = (bytes, begin);
    }

    /// The body, of which so many bytes are here.
    pub(crate) fn body(&self, length: usize) -> &[u8] {
        &self.bytes[self.begin..][..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::protocol::files::MAX_MESSAGE;

    #[test]
    fn it_grows_with_what_has_come_and_a_chunk_stays_aligned() {
        let mut buffer = Buffer::default();
        let mut have = 0;
        while have < MAX_MESSAGE {
            let room = buffer.room(have, MAX_MESSAGE);
            assert!(!room.is_empty() && room.len() <= have.max(FIRST));
            // Not always all that there is room for.
            let come = room.len().div_ceil(3);
            room[..come].fill(have as u8);
            assert_eq!(buffer.body(have + come)[have], have as u8);
            have += come;
            assert_eq!(buffer.body(have)[0], 0, "what has come stays");
            assert!(buffer.body(have)[chunk::BYTES..].as_ptr().addr().is_multiple_of(ALIGN));
        }
        assert!(buffer.room(MAX_MESSAGE, MAX_MESSAGE).is_empty());
        let at = buffer.body(0).as_ptr();
        assert_eq!(buffer.room(0, 10).len(), 10);
        assert_eq!(buffer.body(0).as_ptr(), at, "it is used again");
        assert!(Buffer::default().room(0, 0).is_empty());
    }
}
