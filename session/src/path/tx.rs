//! The sending half of a path: numbers first-class bodies, keeps them until they are acknowledged, queues bulk.
//!
//! Part of the path. Invariants: `retained` holds exactly the sequences `acked + 1 ..= last()`, and
//! `acked < cursor <= last() + 1`.

use super::limits::MOST;
use base::BufId;
use base::bytes::Malformed;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use wire::frame::MAX_PAYLOAD;

/// The wait for an acknowledgement grows to 64 times its first length.
const MOST_DOUBLINGS: u32 = 6;
/// Memory of acknowledged bodies that is kept for the next: as much as is under way before the other side acknowledges
/// unasked, the longest eager message with its head among it.
const MOST_SPARE: usize = 128;
const MOST_SPARE_BYTES: usize = 260 << 10;
/// Smaller pieces of memory are not kept: few messages would fit.
const LEAST_SPARE: usize = 64;

/// A piece of bulk: a part of a user's buffer that goes to one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkTx {
    /// The number of the receive, as its process knows it.
    pub receiver_op: u64,
    /// The user's buffer.
    pub buf: BufId,
    /// Where the piece begins in the message, in packed bytes.
    pub offset: u64,
    /// Its length in bytes: at least 1, at most [`wire::frame::MAX_PAYLOAD`].
    pub len: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TxHalf {
    /// The sequence up to which the other side has acknowledged.
    pub acked: u64,
    /// The bodies after that, in order.
    pub retained: VecDeque<Vec<u8>>,
    /// Their bytes.
    pub bytes: usize,
    /// Memory of acknowledged bodies, to be used again.
    #[serde(skip)]
    spare: Vec<Vec<u8>>,
    #[serde(skip)]
    spare_bytes: usize,
    /// How many of them are kept at most: as many as were asked for while there was none. So memory that comes from elsewhere, such
    /// as that of CONTROL messages, is not kept for messages that nobody sends.
    #[serde(skip)]
    most_spare: usize,
    /// The sequence that goes next.
    pub cursor: u64,
    /// Pieces of bulk that wait for room on a lane.
    pub bulk: VecDeque<BulkTx>,
    /// The other side is asked to acknowledge all that it gets.
    pub flush: bool,
    /// A frame that only asks for an acknowledgement is due.
    pub ask: bool,
    /// What `on_tick` saw last: the sequence acknowledged, since when in milliseconds, and how often bodies were sent again
    /// since.
    #[serde(skip)]
    tick: (u64, u64, u32),
}

impl TxHalf {
    pub fn new() -> Self {
        TxHalf {
            acked: 0,
            retained: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            most_spare: 0,
            cursor: 1,
            bulk: VecDeque::new(),
            flush: false,
            ask: false,
            tick: (0, 0, 0),
        }
    }

    /// Whether what was read from bytes keeps the invariants, and no bulk is left of a lane.
    pub fn is_sound(&self) -> bool {
        let good = |body: &Vec<u8>| (1..=MAX_PAYLOAD).contains(&body.len());
        self.acked < MOST
            && (self.acked + 1..=self.last() + 1).contains(&self.cursor)
            && self.retained.iter().all(good)
            && self.bytes == self.retained.iter().map(Vec::len).sum::<usize>()
            && self.bulk.is_empty()
    }

    /// The sequence of the last body; 0: there was none.
    pub fn last(&self) -> u64 {
        self.acked + self.retained.len() as u64
    }

    pub fn push(&mut self, body: Vec<u8>) {
        self.bytes += body.len();
        self.retained.push_back(body);
    }

    /// An empty vector with room for `len` bytes.
    pub fn take_spare(&mut self, len: usize) -> Vec<u8> {
        let Some(mut body) = self.spare.pop() else { return self.one_more(len) };
        self.spare_bytes -= body.capacity();
        body.clear();
        body.reserve(len.max(LEAST_SPARE));
        body
    }

    #[cold]
    fn one_more(&mut self, len: usize) -> Vec<u8> {
        self.most_spare = (self.most_spare + 1).min(MOST_SPARE);
        Vec::with_capacity(len.max(LEAST_SPARE))
    }

    fn spare(&mut self, body: Vec<u8>) {
        let bytes = self.spare_bytes + body.capacity();
        if body.capacity() >= LEAST_SPARE && self.spare.len() < self.most_spare && bytes <= MOST_SPARE_BYTES {
            self.spare_bytes = bytes;
            self.spare.push(body);
        }
    }

    pub fn body_at_cursor(&self) -> Option<&[u8]> {
        self.retained.get((self.cursor - self.acked - 1) as usize).map(Vec::as_slice)
    }

    /// Frees what the other side has. An old acknowledgement is ignored; one of what was never sent is an error.
    #[inline]
    pub fn acknowledged(&mut self, up_to: u64) -> Result<(), Malformed> {
        if up_to <= self.acked { Ok(()) } else { self.let_go(up_to) }
    }

    fn let_go(&mut self, up_to: u64) -> Result<(), Malformed> {
        if up_to > self.last() {
            return Err(Malformed);
        }
        while self.acked < up_to {
            let body = self.retained.pop_front().expect("up_to is at most last()");
            self.bytes -= body.len();
            self.acked += 1;
            self.spare(body);
        }
        self.cursor = self.cursor.max(self.acked + 1);
        if self.retained.is_empty() {
            self.flush = false;
            self.ask = false;
        }
        Ok(())
    }

    /// A lane that needs no retention has taken the body at the cursor, which is freed if it is the oldest that is kept.
    pub fn handed_over(&mut self) {
        if self.cursor == self.acked + 1 {
            self.let_go(self.cursor).expect("the body at the cursor is kept");
        } else {
            self.cursor += 1;
        }
    }

    /// A lane that needs no retention has taken a body that was never kept.
    pub fn handed_over_directly(&mut self) {
        debug_assert!(self.retained.is_empty());
        self.acked += 1;
        self.cursor = self.acked + 1;
    }

    /// Keeps again what such a lane had taken and the other side may not have: `bodies`, of consecutive sequences from
    /// `first`.
    pub fn take_back(&mut self, first: u64, bodies: Vec<Vec<u8>>) {
        if first + (bodies.len() as u64) <= self.acked {
            // The other side has acknowledged more: it had them from an earlier lane.
            return;
        }
        if first == 0 {
            // Some of them went twice, so that their numbers are not known; then all are kept already.
            return;
        }
        // What follows them is kept already.
        let n = (self.acked + 1).saturating_sub(first).min(bodies.len() as u64);
        // What comes between them and what is kept was acknowledged before it was sent: so says a process that lies.
        if first + n != self.acked + 1 {
            return;
        }
        for body in bodies.into_iter().take(n as usize).rev() {
            self.bytes += body.len();
            self.retained.push_front(body);
            self.acked -= 1;
        }
    }

    /// Replaces the kept bodies for which `rewrite` gives another one.
    pub fn rewrite(&mut self, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for body in &mut self.retained {
            if let Some(other) = rewrite(body) {
                self.bytes = self.bytes - body.len() + other.len();
                *body = other;
            }
        }
    }

    /// Sends all that is not acknowledged once more.
    pub fn rewind(&mut self) {
        self.cursor = self.acked + 1;
    }

    /// Sends all again when something is under way and `timeout` milliseconds have passed without an acknowledgement.
    pub fn on_tick(&mut self, now: u64, timeout: u64) {
        let (acked, since, tries) = self.tick;
        if acked != self.acked || self.retained.is_empty() {
            self.tick = (self.acked, now, 0);
        } else if self.cursor == self.acked + 1 || now < since {
            self.tick = (acked, now, tries);
        } else if now - since >= timeout << tries.min(MOST_DOUBLINGS) {
            self.rewind();
            self.tick = (acked, now, tries + 1);
        }
    }
}
