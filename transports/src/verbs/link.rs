//! A queue pair with its memory and its part of the device's receive slots.
//!
//! Used by the set-up, and then by [`super::messages`]. Invariant: what the queue pair has taken of the shared slots is posted again when it
//! ends, or not counted on any more.

use super::device::{Completions, Memory, QueuePair, Sizes, Which};
use super::pool::{BLOCK, Pool};
use super::{CREDITS, INLINE, WORK};
use base::protocol::rdma::SLOT;
use base::rdma::{LOCAL_WRITE, Port};
use std::io;
use std::sync::Arc;

/// A queue pair with its memory, connected or not.
pub(super) struct Link {
    /// Ended before the memory that it may write.
    pub pair: QueuePair,
    /// Slots for messages that are too long to be sent inline.
    pub sends: Memory,
    pub port: Port,
    reads: u8,
    /// It may have taken slots: it was connected.
    pub connected: bool,
    /// A message may have been cut off.
    pub broken: bool,
    /// The place in the pool of the device, given back last.
    member: Member,
}

/// A lane's part of the shared slots.
struct Member {
    pool: Arc<Pool>,
    /// Some of them may be lost.
    lost: bool,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.pool.leave(!self.lost);
    }
}

/// Waits for the queue pair to take no more slots, and posts those again that it has taken: what is flushed too.
impl Drop for Link {
    fn drop(&mut self) {
        self.pair.fail();
        if self.connected {
            let last = self.pair.has_taken_last();
            // Without a word from the device, what was broken may still hold a slot.
            self.member.lost = !last.unwrap_or(!self.broken);
        }
        let pool = &self.member.pool;
        let mut some = Completions::new();
        while let Ok(done @ [_, ..]) = self.pair.poll(Which::Receives, &mut some) {
            for done in done {
                if let Some(slot) = pool.taken(done.id as u32) {
                    // The pool knows what could not be posted.
                    let _ = pool.post(slot);
                }
            }
        }
    }
}

impl Link {
    /// A new queue pair at a port of the pool's device.
    /// `reads`: the most RDMA reads at a time.
    pub(super) fn new(pool: &Arc<Pool>, port: Port, reads: u8) -> io::Result<Link> {
        pool.join()?;
        let member = Member { pool: pool.clone(), lost: false };
        let device = &pool.device;
        let sizes = Sizes { work: WORK, receives: BLOCK as u32 + 1, inline: INLINE };
        let pair = QueuePair::new(device, pool.shared, port.port, sizes)?;
        let sends = Memory::new(device, usize::from(CREDITS) * SLOT, LOCAL_WRITE)?;
        let reads = device.limits.reads.min(reads.into()) as u8;
        Ok(Link { pair, sends, port, reads, connected: false, broken: false, member })
    }

    /// The slots of the device.
    pub(super) fn pool(&self) -> &Pool {
        &self.member.pool
    }

    /// RDMA reads that are answered at a time.
    pub(super) fn reads(&self) -> u8 {
        self.reads
    }
}
