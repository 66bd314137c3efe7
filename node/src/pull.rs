//! Data that we read from the sender's memory: one copy, and the sender need do nothing.
//!
//! Part of the core. Transfers take turns, slice by slice, so that a large one holds up nobody. Invariant: a slice counts
//! only if the sender lived when it had been read; where memory cannot be read, the data is asked for as ever.

use crate::core::Core;
use base::Memory;
use engine::{OpId, PeerId};
use std::io::{self, IoSliceMut};
use transports::shm::ShmLane;

/// A message that lies in more pieces goes through the lane.
const MOST_GRIPS: usize = 64;
/// Bytes read at a time. Each takes two system calls.
const SLICE: u64 = 1 << 20;
/// Pieces of our memory at a time.
const PIECES: usize = 256;
/// Memory of ours that comes in smaller bits than this at a time is filled from a buffer, of this size.
const WORTH: usize = 64 << 10;
const BUFFER: usize = 128 << 10;

/// One transfer.
pub(crate) struct Pull {
    peer: PeerId,
    op: OpId,
    /// Where the data lies there: (address, length), in order.
    pieces: Vec<(u64, u64)>,
    size: u64,
    done: u64,
}

impl Core {
    pub(crate) fn start_pull(&mut self, peer: PeerId, op: OpId, pieces: Vec<(u64, u64)>, size: u64) {
        self.pulls.push_back(Pull { peer, op, pieces, size, done: 0 });
    }

    /// A pair has got a lane: whether memory can be read over it, either way.
    pub(crate) fn judge_pulls(&mut self, i: usize) {
        let lane = self.shm_lane(i);
        let read_by = lane.is_some_and(ShmLane::read_by);
        let reads = lane.is_some_and(ShmLane::reads);
        let peer = self.pairs[i].peer;
        self.engine.set_grips(peer, if read_by { MOST_GRIPS } else { 0 });
        self.engine.set_pull(peer, reads);
    }

    /// The lane to this pair is gone.
    pub(crate) fn end_pulls(&mut self, i: usize) {
        self.pulls.retain(|pull| pull.peer.0 as usize != i);
        self.judge_pulls(i);
    }

    /// Goes on with the transfer whose turn it is; whether there was one.
    pub(crate) fn pull_some(&mut self) -> bool {
        let Some(mut pull) = self.pulls.pop_front() else { return false };
        let len = (pull.size - pull.done).min(SLICE);
        // The receive may be over by now.
        if !self.engine.bulk_wanted(pull.peer, pull.op.0, pull.done, len) {
            return true;
        }
        match self.pull_slice(&pull, len as usize) {
            Ok(n) if n > 0 => {
                self.bytes_in += n as u64;
                self.engine.on_bulk(pull.peer, pull.op.0, pull.done, n as u64);
                pull.done += n as u64;
                if pull.done < pull.size {
                    self.pulls.push_back(pull);
                }
            }
            failed => {
                let why = failed.err().map_or("there is nothing".into(), |e| e.to_string());
                base::log!(Debug, "cannot read the memory of {}: {why}", self.pairs[pull.peer.0 as usize].remote);
                self.engine.pull_failed(pull.op);
            }
        }
        true
    }

    fn pull_slice(&mut self, pull: &Pull, len: usize) -> io::Result<usize> {
        let lane = self.pairs[pull.peer.0 as usize].lane.as_ref().and_then(|l| l.lane.shm());
        let lane = lane.ok_or(io::ErrorKind::NotConnected)?;
        let (op, at, buffer, from) = (pull.op.0, pull.done, &mut self.pull_buffer, &mut self.pull_window);
        window(&pull.pieces, pull.done, len as u64, from);
        let direct = self.mem.with_slices_mut(op, at, len, PIECES, |to| {
            let there: usize = to.iter().map(|piece| piece.len()).sum();
            (there >= len.min(WORTH)).then(|| lane.pull(from, to))
        });
        if let Some(n) = direct {
            return n;
        }
        buffer.resize(BUFFER, 0);
        let n = lane.pull(from, &mut [IoSliceMut::new(&mut buffer[..len.min(BUFFER)])])?;
        self.mem.write(op, at, &buffer[..n]);
        Ok(n)
    }
}

/// The parts of the pieces that hold `len` bytes from `skip` on, as many as one call may name.
fn window(pieces: &[(u64, u64)], mut skip: u64, mut len: u64, out: &mut Vec<(u64, u64)>) {
    out.clear();
    for &(at, size) in pieces {
        if skip >= size {
            skip -= size;
            continue;
        }
        let n = (size - skip).min(len);
        out.push((at.wrapping_add(skip), n));
        (skip, len) = (0, len - n);
        if len == 0 || out.len() == PIECES {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_pieces() {
        let pieces = [(100, 10), (200, 0), (300, 5), (400, 100)];
        let window = |skip, len| {
            let mut out = vec![(1, 1)];
            window(&pieces, skip, len, &mut out);
            out
        };
        assert_eq!(window(0, 115), [(100, 10), (300, 5), (400, 100)]);
        assert_eq!(window(4, 3), [(104, 3)]);
        assert_eq!(window(10, 6), [(300, 5), (400, 1)]);
        assert_eq!(window(114, 9), [(499, 1)]);
    }
}
