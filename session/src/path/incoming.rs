//! The receiving half of a path: first-class bodies come out once each, in order; acknowledgements fall due.
//!
//! Only the path uses it. Invariant: everything up to `received` has been delivered and nothing above; `held` has
//! only sequences above `received + 1`, within the limits.

use super::limits::Limits;
use base::bytes::Malformed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A receiver acknowledges of its own accord after so many frames or bytes.
const ACK_FRAMES: u32 = 64;
const ACK_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Incoming {
    pub received: u64,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    frames: u32,
    bytes: usize,
    pub ack_due: bool,
    pub repeated: u64,
}

impl Incoming {
    pub fn new() -> Self {
        Incoming { received: 0, held: BTreeMap::new(), held_bytes: 0, frames: 0, bytes: 0, ack_due: false, repeated: 0 }
    }

    /// A frame that came over a lossy lane may be dropped for want of room: it will come again. `owed`: the other side
    /// keeps it until it is acknowledged.
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

    /// Replaces bodies that are held.
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
        self.bytes += body.len();
        if self.frames >= ACK_FRAMES || self.bytes >= ACK_BYTES {
            self.ack_due = true;
        }
        Ok(())
    }

    /// A frame that says how far we have received is on its way.
    pub fn ack_sent(&mut self) {
        self.frames = 0;
        self.bytes = 0;
        self.ack_due = false;
    }
}
