//! Pulls: the receiver reads a message from the sender's memory, by single copy and without work of the sender.
//!
//! Part of the core. Transfers take turns, slice by slice, so that a large one does not delay the others. A slice is
//! read without the lock, unless it is short. Invariants: a slice counts only if the sender was alive after it was read; if memory cannot
//! be read, the data is asked for through the lane (CTS); while a slice is read, its operation is not complete, so that both
//! buffers stay valid: the lane may have changed, and the new one may bring the same bytes.

use crate::lock::Guard;
use crate::shared::Shared;
use crate::state::Core;
use crate::state::pulls::{Pull, Scratch};
use crate::state::ways::Way;
use base::Memory;
use engine::{Ctx, NOW, Outcome, PeerId, Readable, Source, Tag};
use std::io::{self, IoSliceMut};
use std::time::Instant;
use transports::registry::{Polled, RemoteMemory};

/// Bytes of one slice.
const SLICE: u64 = 1 << 20;
/// A slice of at most this many bytes is read under the lock: that takes as long as to release it and come back.
const SMALL: u64 = 64 << 10;
/// Most pieces of memory, on either side, in one slice.
pub(crate) const PIECES: usize = 256;
/// If [`PIECES`] pieces of the user buffer hold fewer bytes than this, a slice is read into a contiguous buffer and
/// then unpacked.
const WORTH: usize = 64 << 10;
/// The size of that buffer in bytes.
const BUFFER: usize = 128 << 10;

/// A slice that is read without the lock.
struct Slice {
    pull: Pull,
    remote: RemoteMemory,
    scratch: Box<Scratch>,
    /// The number of bytes to read into the scratch's buffer. `None`: the slice is read into the user buffer directly.
    buffered: Option<usize>,
}

/// Reads one slice of the transfer whose turn it is, and releases the lock meanwhile. False: there is no transfer.
#[inline(always)]
pub(crate) fn pull_some<'a>(shared: &'a Shared, mut core: Guard<'a, Core>) -> (Guard<'a, Core>, bool) {
    if core.pulls.queue.is_empty() {
        return (core, false);
    }
    if let Some(mut slice) = core.begin_pull() {
        let read = if slice.pull.size - slice.pull.done <= SMALL {
            slice.read()
        } else {
            core.session.engine.begin_read(slice.pull.op);
            drop(core);
            let read = slice.read();
            core = shared.lock();
            core.session.engine.end_read(slice.pull.op);
            read
        };
        core.end_pull(slice, read);
    }
    (core, true)
}

impl Slice {
    /// Reads the slice; called without the lock. Returns the number of bytes.
    #[inline]
    fn read(&mut self) -> io::Result<usize> {
        let Scratch { theirs, ours, buffer } = &mut *self.scratch;
        if let Some(len) = self.buffered {
            return self.remote.read(theirs, &mut [IoSliceMut::new(&mut buffer[..len])]);
        }
        // SAFETY: these are pieces of the operation's buffer, which stays valid while the operation is listed as
        // running, and which is not read before the operation has completed. If the same bytes come through a lane too, they
        // are equal: the sender keeps its buffer until the operation has completed.
        unsafe { self.remote.read_into(theirs, ours) }
    }
}

impl Core {
    /// A message is announced whose data can be read. It is, or the sender is asked to copy it through the lane: that is for a
    /// sender which is in a call and polls, and would wait all the same.
    pub(crate) fn begin_bulk(&mut self, pull: Pull) {
        let pair = pull.peer.0 as usize;
        let polls = self.polled_lane(pair).is_some_and(Polled::is_other_awake);
        let way = if polls { self.pulls.ways.begin(pair, pull.op, pull.size) } else { Way::Pull };
        match way {
            Way::Pull => self.pulls.queue.push_back(pull),
            Way::Both => {
                let pull = self.share(pull);
                self.pulls.queue.push_back(pull);
            }
            Way::Push => {
                self.session.engine.ask_for_rest(pull.op);
                self.session.settle();
            }
        }
    }

    /// Reads the message that waits for a receive without an operation, if it is announced and short. `None`: nothing has changed, but
    /// that the front of the buffer may have been written, of a message that has to come another way.
    #[inline(never)]
    pub(crate) fn read_now(&mut self, from: (Ctx, Source, Tag), capacity: u64) -> Option<Outcome> {
        let message = self.session.engine.readable(from, capacity).filter(|message| message.size <= SMALL)?;
        let Readable { peer, at, size, .. } = message;
        let pair = peer.0 as usize;
        let polls = self.polled_lane(pair).is_some_and(Polled::is_other_awake);
        let is_timed = polls && self.pulls.ways.reading_next(pair, size)?;
        let (mem, lane) = self.session.mem_and_lane(pair);
        let remote = lane?.remote_memory()?;
        let since = is_timed.then(Instant::now);
        let read = mem.with_slices_mut(NOW.0, 0, size as usize, 1, |ours| remote.read(&[(at, size)], ours));
        if read.ok()? as u64 != size {
            return None;
        }
        if polls && self.pulls.ways.was_read(pair, size, since.map(|since| since.elapsed())) {
            self.note_sooner(pair);
        }
        self.session.count_read(size as usize);
        self.session.take_read(message).map(Outcome::Received)
    }

    /// The memory of a pair's remote process, if its lane says that it can be read.
    pub(crate) fn remote_memory(&self, pair: usize) -> Option<&RemoteMemory> {
        self.session.pair(pair).lane()?.lane.remote_memory()
    }

    /// Has the next DONE for this pair say what is read sooner, as it is known now.
    pub(crate) fn note_sooner(&mut self, pair: usize) {
        self.session.engine.set_read_sooner(PeerId(pair as u32), self.pulls.ways.sooner(pair));
    }

    /// Reads messages that meet no receive, so that their senders do not wait, as [`engine::Engine::buffer_unexpected`] says; under the lock, and so
    /// not too many.
    #[cold]
    pub(crate) fn buffer_unexpected(&mut self) {
        let remotes: Vec<_> = (0..self.session.pairs_made()).map(|i| self.remote_memory(i).cloned()).collect();
        let mut all = 0;
        self.session.engine.buffer_unexpected(|peer, pieces, size| {
            let remote = remotes.get(peer.0 as usize)?.as_ref()?;
            let mut data = vec![0; size as usize];
            let read = remote.read(pieces, &mut [IoSliceMut::new(&mut data)]);
            let is_whole = read.is_ok_and(|n| n == data.len());
            all += if is_whole { data.len() } else { 0 };
            is_whole.then_some(data)
        });
        self.session.count_read(all);
    }

    /// Takes the next transfer and prepares its next slice. `None`: its data is not wanted any more, or cannot be read.
    #[inline(always)]
    fn begin_pull(&mut self) -> Option<Slice> {
        let pull = self.pulls.queue.pop_front()?;
        let len = (pull.size - pull.done).min(SLICE) as usize;
        // The receive may have completed meanwhile.
        if !self.session.engine.bulk_wanted(pull.peer, pull.op.0, pull.done, len as u64) {
            return None;
        }
        let Some(remote) = self.remote_memory(pull.peer.0 as usize).cloned() else {
            self.session.engine.ask_for_rest(pull.op);
            return None;
        };
        let mut scratch = self.pulls.spare.take().unwrap_or_default();
        window(&pull.pieces, pull.done, len as u64, &mut scratch.theirs);
        scratch.ours.clear();
        self.session.mem.with_slices_mut(pull.op.0, pull.done, len, PIECES, |pieces| {
            scratch.ours.extend(pieces.iter_mut().map(|piece| (piece.as_mut_ptr(), piece.len())));
        });
        let there: usize = scratch.ours.iter().map(|(_, len)| len).sum();
        let buffered = (there < len.min(WORTH)).then_some(len.min(BUFFER));
        if buffered.is_some() {
            scratch.buffer.resize(BUFFER, 0);
        }
        self.pulls.begin(pull.op);
        Some(Slice { pull, remote, scratch, buffered })
    }

    /// Tells the engine of a slice that was read, and queues the rest of its transfer.
    #[inline(always)]
    fn end_pull(&mut self, slice: Slice, read: io::Result<usize>) {
        let Slice { mut pull, scratch, buffered, .. } = slice;
        self.pulls.done(pull.op);
        match read {
            Ok(n) if n > 0 => {
                // The receive may have ended while the lock was released.
                if self.session.engine.bulk_wanted(pull.peer, pull.op.0, pull.done, n as u64) {
                    if buffered.is_some() {
                        self.session.mem.write(pull.op.0, pull.done, &scratch.buffer[..n]);
                    }
                    self.session.count_read(n);
                    self.session.engine.on_bulk(pull.peer, pull.op.0, pull.done, n as u64);
                    pull.done += n as u64;
                    if pull.done < pull.size {
                        self.pulls.queue.push_back(pull);
                    }
                }
            }
            failed => {
                let why = failed.err().map_or("there is nothing".into(), |e| e.to_string());
                let remote = self.session.pair(pull.peer.0 as usize).remote();
                base::log!(Debug, "cannot read the memory of {remote}: {why}");
                self.session.engine.ask_for_rest(pull.op);
            }
        }
        self.pulls.spare = Some(scratch);
    }
}

/// The parts of the pieces that hold `len` bytes from `skip` on, but at most [`PIECES`] of them.
pub(crate) fn window(pieces: &[(u64, u64)], mut skip: u64, mut len: u64, out: &mut Vec<(u64, u64)>) {
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
