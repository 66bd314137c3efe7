//! What the other side reads of our memory: pieces of user buffers, registered while it reads them.
//!
//! Used by the lane and by [`super::messages`]. A registration lasts as long as one transfer, so nothing has to follow what the
//! program does with its memory afterwards. Invariant: a piece stays registered until the other side has said that it is read,
//! or the lane ends.

use super::device::{Device, Lent};
use base::bytes::{Malformed, Put, Take};
use base::protocol::rdma::{MAX_PIECES, MAX_READS, SLOT, message, piece};
use base::rdma::REMOTE_READ;
use std::io::{self, IoSlice};
use std::sync::Arc;
use wire::frame::{HEADER, Header};

// A READ_THIS fits in a slot.
const _: () = assert!(message::BYTES + HEADER + MAX_PIECES * piece::BYTES < SLOT);

#[derive(Default)]
pub(super) struct Lending {
    /// By their numbers.
    all: Vec<(u32, u32, Vec<Lent>)>,
    last: u32,
}

impl Lending {
    /// Whether one more READ_THIS may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.all.len() < MAX_READS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The bytes that the other side has not read yet.
    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, len, _)| u64::from(*len)).sum()
    }

    /// Registers a frame's data. Returns the number and the content of the READ_THIS.
    pub(super) fn lend(
        &mut self,
        device: &Arc<Device>,
        header: &Header,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<(u32, Vec<u8>)> {
        let lent = pieces.iter().map(|bytes| device.lend(bytes, REMOTE_READ)).collect::<io::Result<Vec<_>>>()?;
        let mut content = header.encode().to_vec();
        for (bytes, lent) in pieces.iter().zip(&lent) {
            content.put_u64(bytes.as_ptr() as u64);
            content.put_u32(bytes.len() as u32);
            content.put_u32(lent.region.remote);
        }
        self.last = self.last.wrapping_add(1);
        self.all.push((self.last, header.len, lent));
        Ok((self.last, content))
    }

    /// The last READ_THIS was not sent after all.
    pub(super) fn take_back(&mut self) {
        self.all.pop();
    }

    /// The other side has read these.
    pub(super) fn done(&mut self, mut numbers: Take<'_>) -> Result<(), Malformed> {
        while !numbers.0.is_empty() {
            let number = numbers.u32()?;
            let at = self.all.iter().position(|(n, ..)| *n == number).ok_or(Malformed)?;
            self.all.swap_remove(at);
        }
        Ok(())
    }
}
