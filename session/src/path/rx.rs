//! The receiving half of a path: first-class bodies come out once each, in order; acknowledgements fall due.
//!
//! Part of the path. Invariants: all sequences up to `received` were delivered, and none above. `held` has only
//! sequences above `received + 1`, within the limits.

use super::limits::{Limits, MOST};
use base::bytes::Malformed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::frame::MAX_PAYLOAD;

/// A receiver acknowledges unasked after this many frames or bytes.
const ACK_FRAMES: u32 = 64;
const ACK_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RxHalf {
    /// The sequence of the last body that was delivered.
    pub received: u64,
    /// Bodies that came out of order, by sequence.
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// Frames delivered and not acknowledged yet.
    frames: u32,
    /// Their bytes.
    bytes: usize,
    pub ack_due: bool,
    /// Frames that came a second time.
    pub repeated: u64,
}

impl RxHalf {
    pub fn new() -> Self {
        RxHalf { received: 0, held: BTreeMap::new(), held_bytes: 0, frames: 0, bytes: 0, ack_due: false, repeated: 0 }
    }

    /// Whether what was read from bytes keeps the invariants.
    pub fn is_sound(&self) -> bool {
        let good = |(sequence, body): (&u64, &Vec<u8>)| *sequence > self.received + 1 && body.len() <= MAX_PAYLOAD;
        (self.received < MOST && self.repeated < MOST)
            && (self.frames as u64) < MOST >> 32
            && (self.bytes as u64) < MOST
            && self.held.iter().all(good)
            && self.held_bytes == self.held.values().map(Vec::len).sum::<usize>()
    }

    /// Whether this is the next body, and no other waits for it.
    #[inline(always)]
    pub fn is_next(&self, sequence: u64) -> bool {
        sequence == self.received + 1 && self.held.is_empty()
    }

    /// Whether this is the next body.
    pub fn is_due(&self, sequence: u64) -> bool {
        sequence == self.received + 1
    }

    /// Takes in a body: delivers it, or holds it until its turn. Without room, one of a lossy lane is dropped, since it
    /// comes again; otherwise that is an error. `owed`: the other side keeps it until it is acknowledged.
    pub fn take(
        &mut self,
        sequence: u64,
        body: &[u8],
        lossy: bool,
        owed: bool,
        limits: &Limits,
        deliver: &mut impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if sequence <= self.received || !self.held.is_empty() && self.held.contains_key(&sequence) {
            self.repeated += 1;
            self.ack_due = true;
            #[cfg(feature = "plant")]
            if limits.plant == super::limits::Plant::Duplicate {
                return deliver(body);
            }
            return Ok(());
        }
        if sequence > self.received + 1 {
            let room = self.held.len() < limits.held_frames && self.held_bytes + body.len() <= limits.held_bytes;
            if room {
                self.held_bytes += body.len();
                self.held.insert(sequence, body.to_vec());
            }
            return if room || lossy { Ok(()) } else { Err(Malformed) };
        }
        self.deliver(body, owed, deliver)?;
        if self.held.is_empty() { Ok(()) } else { self.deliver_held(deliver) }
    }

    /// Replaces the held bodies for which `rewrite` gives another one.
    pub fn rewrite(&mut self, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for body in self.held.values_mut() {
            if let Some(other) = rewrite(body) {
                self.held_bytes = self.held_bytes - body.len() + other.len();
                *body = other;
            }
        }
    }

    #[cold]
    fn deliver_held(&mut self, deliver: &mut impl FnMut(&[u8]) -> Result<(), Malformed>) -> Result<(), Malformed> {
        while let Some(body) = self.held.remove(&(self.received + 1)) {
            self.held_bytes -= body.len();
            self.deliver(&body, true, deliver)?;
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        body: &[u8],
        owed: bool,
        deliver: &mut impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        deliver(body)?;
        self.received += 1;
        if !owed {
            return Ok(());
        }
        self.frames += 1;
        self.count(body.len());
        Ok(())
    }

    /// So many bytes of bodies were delivered, of which the other side is to hear some time.
    pub fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.ack_due |= self.frames >= ACK_FRAMES || self.bytes >= ACK_BYTES;
    }

    /// A lane has taken a frame that carries `received`.
    pub fn ack_sent(&mut self) {
        self.frames = 0;
        self.bytes = 0;
        self.ack_due = false;
    }
}
