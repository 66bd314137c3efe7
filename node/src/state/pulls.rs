//! What is being read from the memory of others.

use engine::{OpId, PeerId};
use std::collections::VecDeque;

/// One transfer.
pub(crate) struct Pull {
    pub(crate) peer: PeerId,
    pub(crate) op: OpId,
    /// Where the data lies there: (address, length), in order.
    pub(crate) pieces: Vec<(u64, u64)>,
    pub(crate) size: u64,
    pub(crate) done: u64,
}

/// All of them, and memory for what one slice needs.
#[derive(Default)]
pub(crate) struct Pulls {
    pub(crate) queue: VecDeque<Pull>,
    /// Operations into whose buffers a slice is being read, without the lock.
    pub(crate) running: Vec<OpId>,
    pub(crate) spare: Scratch,
}

/// Memory for one slice.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The parts of their memory, and of ours.
    pub(crate) from: Vec<(u64, u64)>,
    pub(crate) to: Vec<(*mut u8, usize)>,
    pub(crate) buffer: Vec<u8>,
}

// SAFETY: the pointers count only while a slice is read, by the thread that has taken the scratch with it.
unsafe impl Send for Scratch {}

impl Pulls {
    pub fn start(&mut self, peer: PeerId, op: OpId, pieces: Vec<(u64, u64)>, size: u64) {
        self.queue.push_back(Pull { peer, op, pieces, size, done: 0 });
    }

    /// The lane to this pair is gone.
    pub fn end(&mut self, pair: usize) {
        self.queue.retain(|pull| pull.peer.0 as usize != pair);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a slice is being read into this operation's buffer: until it is, nobody may be told that it is over.
    #[inline]
    pub fn is_running(&self, op: OpId) -> bool {
        !self.running.is_empty() && self.running.contains(&op)
    }
}
