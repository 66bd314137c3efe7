//! Data that we read from the sender's memory: one copy, and the sender need do nothing.
//!
//! Part of the core. Transfers take turns, slice by slice, so that a large one holds up nobody; a slice is read without the
//! lock. Invariants: a slice counts only if the sender lived when it had been read; where memory cannot be read, the data is
//! asked for as ever; while a slice is read, its operation is over for nobody, so its buffer stands.

use crate::shared::Shared;
use crate::state::Core;
use crate::state::pulls::{Pull, Scratch};
use base::Memory;
use std::io::{self, IoSliceMut};
use std::sync::MutexGuard;
use transports::registry::Reader;

/// Bytes read at a time. Each takes two system calls.
const SLICE: u64 = 1 << 20;
/// Pieces of our memory at a time.
const PIECES: usize = 256;
/// Memory of ours that comes in smaller bits than this at a time is filled from a buffer, of this size.
const WORTH: usize = 64 << 10;
const BUFFER: usize = 128 << 10;

/// A slice to be read.
struct Slice {
    pull: Pull,
    reader: Reader,
    scratch: Scratch,
    /// It goes into the scratch's buffer first: so many bytes.
    buffered: Option<usize>,
}

/// Goes on with the transfer whose turn it is, if there is one, and gives the lock back meanwhile. Whether there was one.
pub fn pull_some<'a>(shared: &'a Shared, mut core: MutexGuard<'a, Core>) -> (MutexGuard<'a, Core>, bool) {
    if core.pulls.is_empty() {
        return (core, false);
    }
    let before = core.session.bytes_in();
    if let Some(mut slice) = core.begin_pull() {
        drop(core);
        let read = slice.read();
        core = shared.lock();
        core.end_pull(slice, read);
    }
    core.follow_up(before);
    (core, true)
}

impl Slice {
    /// Without the lock.
    fn read(&mut self) -> io::Result<usize> {
        let Scratch { from, to, buffer } = &mut self.scratch;
        if let Some(len) = self.buffered {
            return self.reader.read(from, &mut [IoSliceMut::new(&mut buffer[..len])]);
        }
        // SAFETY: these are pieces of the operation's buffer, which stands while the operation is listed as running, and which
        // nobody looks at before it is over. Should the same bytes come another way too, they are the same.
        unsafe { self.reader.read_into(from, to) }
    }
}

impl Core {
    fn begin_pull(&mut self) -> Option<Slice> {
        let pull = self.pulls.queue.pop_front()?;
        let len = (pull.size - pull.done).min(SLICE) as usize;
        // The receive may be over by now.
        if !self.session.engine.bulk_wanted(pull.peer, pull.op.0, pull.done, len as u64) {
            return None;
        }
        let reader = self.session.pair(pull.peer.0 as usize).lane().and_then(|up| up.lane.reader());
        let Some(reader) = reader else {
            self.session.engine.pull_failed(pull.op);
            return None;
        };
        let mut scratch = std::mem::take(&mut self.pulls.spare);
        window(&pull.pieces, pull.done, len as u64, &mut scratch.from);
        scratch.to.clear();
        self.session.mem.with_slices_mut(pull.op.0, pull.done, len, PIECES, |pieces| {
            scratch.to.extend(pieces.iter_mut().map(|piece| (piece.as_mut_ptr(), piece.len())));
        });
        let there: usize = scratch.to.iter().map(|(_, len)| len).sum();
        let buffered = (there < len.min(WORTH)).then_some(len.min(BUFFER));
        if buffered.is_some() {
            scratch.buffer.resize(BUFFER, 0);
        }
        self.pulls.running.push(pull.op);
        Some(Slice { pull, reader, scratch, buffered })
    }

    fn end_pull(&mut self, slice: Slice, read: io::Result<usize>) {
        let Slice { mut pull, scratch, buffered, .. } = slice;
        if let Some(at) = self.pulls.running.iter().position(|op| *op == pull.op) {
            self.pulls.running.swap_remove(at);
        }
        match read {
            Ok(n) if n > 0 => {
                // Much may have happened meanwhile.
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
                self.session.engine.pull_failed(pull.op);
            }
        }
        self.pulls.spare = scratch;
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
