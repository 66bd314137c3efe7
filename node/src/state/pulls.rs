//! The pulls and the puts: transfers that read from the memory of other processes, and write to it.

use crate::state::ways::Ways;
use engine::{OpId, PeerId};
use std::collections::VecDeque;

/// One transfer.
pub(crate) struct Pull {
    pub(crate) peer: PeerId,
    pub(crate) op: OpId,
    /// Where the data lies in the sender's memory: (address, length), in order.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Bytes in all, and bytes that were read.
    pub(crate) size: u64,
    pub(crate) done: u64,
}

/// Data of a send that goes to the receiver's memory.
pub(crate) struct Put {
    pub(crate) peer: PeerId,
    pub(crate) op: OpId,
    pub(crate) receiver_op: u64,
    /// Where the data begins in the message.
    pub(crate) offset: u64,
    /// Where it goes in the receiver's memory: (address, length), in order.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Bytes in all, and bytes that were written.
    pub(crate) size: u64,
    pub(crate) done: u64,
}

/// All transfers, and which buffers are written to without the lock.
#[derive(Default)]
pub(crate) struct Pulls {
    /// The transfers in the order of their turns.
    pub(crate) queue: VecDeque<Pull>,
    /// What is written, likewise.
    pub(crate) puts: VecDeque<Put>,
    /// Operations into whose buffers a slice is read, or a message converted, without the lock at this moment.
    pub(crate) running: Vec<OpId>,
    /// Which way each transfer goes.
    pub(crate) ways: Ways,
    /// The scratch memory of the next slice. In a box, so that a slice is a few words to move.
    pub(crate) spare: Option<Box<Scratch>>,
}

/// Scratch memory for one slice.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The pieces of the other process's memory.
    pub(crate) theirs: Vec<(u64, u64)>,
    /// The pieces of the user buffer that is read into.
    pub(crate) ours: Vec<(*mut u8, usize)>,
    /// A contiguous buffer, for user buffers in many small pieces.
    pub(crate) buffer: Vec<u8>,
}

// SAFETY: the pointers are used only while a slice is read, by the thread that has taken the scratch with it.
unsafe impl Send for Scratch {}

impl Pulls {
    /// Drops the transfers of a pair that has lost its lane.
    pub(crate) fn end(&mut self, pair: usize) {
        self.queue.retain(|pull| pull.peer.0 as usize != pair);
        self.ways.forget(pair);
    }

    /// Whether no operation has to be looked for here.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.ways.is_idle()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.puts.is_empty()
    }

    /// From now on, this operation's buffer is written to without the lock.
    pub fn begin(&mut self, op: OpId) {
        self.running.push(op);
    }

    pub fn done(&mut self, op: OpId) {
        if let Some(at) = self.running.iter().position(|one| *one == op) {
            self.running.swap_remove(at);
        }
    }

    /// Whether this operation's buffer is written to without the lock. Meanwhile the operation must not be reported as
    /// complete.
    #[inline]
    pub(crate) fn is_running(&self, op: OpId) -> bool {
        !self.running.is_empty() && self.running.contains(&op)
    }
}
