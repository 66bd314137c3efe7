//! Puts: the sender writes the second half of a message to the receiver's memory while the receiver reads the first half from the sender's,
//! so that two processors copy.
//!
//! Part of the core, for both sides. Invariants: a slice is written under the lock, and only while the send waits and the lane stands, so
//! that nothing is written after the receiver was answered; each put is answered once.

use crate::memory::Buffers;
use crate::pull::{PIECES, window};
use crate::state::Core;
use crate::state::pulls::{Pull, Put};
use crate::state::ways::HALVED_FROM;
use base::Memory;
use base::protocol::message::MOST_DESCRIBED;
use engine::PeerId;
use std::collections::VecDeque;
use std::io;
use wire::lane::Lane;

/// Bytes of one slice: other threads wait for the lock while it is written.
const SLICE: u64 = 256 << 10;
/// The halves meet at a multiple of this.
const GRAIN: u64 = 4 << 10;
/// So much more the receiver reads: it begins before the sender, which has to be asked and has to tell.
const AHEAD: u64 = 12 << 10;

impl Core {
    /// Has the sender write the second half of a transfer that begins, if our buffer's half is in few pieces. Returns what is to be read.
    pub(crate) fn share(&mut self, pull: Pull) -> Pull {
        let is_short = pull.size < HALVED_FROM;
        let half = if is_short { pull.size } else { ((pull.size + AHEAD) / 2).next_multiple_of(GRAIN) };
        let mut pieces = Vec::new();
        let rest = (pull.size - half) as usize;
        self.session.mem.with_slices_mut(pull.op.0, half, rest, MOST_DESCRIBED, |ours| {
            pieces.extend(ours.iter_mut().map(|piece| (piece.as_mut_ptr() as u64, piece.len() as u64)));
        });
        if !self.session.engine.ask_to_put(pull.op, half, &pieces) {
            if let Some(pair) = self.pulls.ways.reads_alone(pull.op) {
                self.note_sooner(pair);
            }
            return pull;
        }
        // The sender begins while we read.
        self.session.settle();
        Pull { size: half, ..pull }
    }

    /// Writes one slice of the put whose turn it is. False: there is none.
    pub(crate) fn put_some(&mut self) -> bool {
        let Some(mut put) = self.pulls.puts.pop_front() else { return false };
        match self.put_slice(&put) {
            Ok(Some(n)) if put.done + n < put.size => {
                put.done += n;
                self.pulls.puts.push_back(put);
                return true;
            }
            Ok(written) => self.session.engine.put_over(put.peer, put.receiver_op, written.is_some()),
            Err(why) => {
                let remote = self.session.pair(put.peer.0 as usize).remote();
                base::log!(Debug, "cannot write to the memory of {remote}: {why}");
                self.session.engine.put_over(put.peer, put.receiver_op, false);
            }
        }
        // The receiver waits for that.
        self.session.settle();
        true
    }

    /// Returns the number of bytes, which is not 0. `None`: nothing is to be written any more.
    fn put_slice(&mut self, put: &Put) -> io::Result<Option<u64>> {
        let lane = self.session.pair(put.peer.0 as usize).lane().map(|up| &up.lane);
        let open = lane.filter(|lane| Lane::<Buffers>::is_open(*lane) != Some(false));
        let remote = open.and_then(|lane| lane.remote_memory()).cloned();
        let Some(remote) = remote.filter(|_| self.session.engine.may_put(put.peer, put.op)) else { return Ok(None) };
        let len = (put.size - put.done).min(SLICE);
        let mut scratch = self.pulls.spare.take().unwrap_or_default();
        window(&put.pieces, put.done, len, &mut scratch.theirs);
        let written = self.session.mem.with_slices(put.op.0, put.offset + put.done, len as usize, PIECES, |ours| {
            remote.write(ours, &scratch.theirs)
        });
        self.pulls.spare = Some(scratch);
        // Where less was written than lies in the pieces of both sides, the next slice is refused at once.
        match written? {
            0 => Err(io::Error::other("nothing was written")),
            n => Ok(Some(n as u64)),
        }
    }

    /// Ends the transfers of a pair that has lost its lane.
    pub(crate) fn end_transfers(&mut self, pair: usize) {
        self.pulls.end(pair);
        let (peer, all) = (PeerId(pair as u32), std::mem::take(&mut self.pulls.puts));
        let (ended, others): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(|put| put.peer == peer);
        self.pulls.puts = others;
        for put in ended {
            self.session.engine.put_over(put.peer, put.receiver_op, false);
        }
    }
}
