//! One end of the memory that a process and its router share: a room of bytes for each direction, and who is to ring.
//!
//! An end that is *armed* does not look: the other one rings when it has written, and when it has read if this end waits for room. One
//! that looks by itself costs the other no system call. Invariants: each word is written by one side alone, but for `ASLEEP`, which the other
//! side takes when it rings; a full fence lies between a change and the look whether to ring, and between arming and the last look; what the
//! other side says is checked before it is used.

use crate::memory::SegmentView;
use base::bytes::Malformed;
use base::protocol::router::{ASLEEP, OTHERS, READ, ROOM, ROOMS_AT, WAITS, WRITTEN};
use std::ops::Deref;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Where the words of one side and its room begin, and how long a room is.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub words: [usize; 2],
    pub rooms: [usize; 2],
    pub room: usize,
}

impl Plan {
    /// That of the protocol.
    pub const OURS: Plan = Plan { words: [0, OTHERS - WRITTEN], rooms: [ROOMS_AT, ROOMS_AT + ROOM], room: ROOM };
}

/// One end.
pub(super) struct Pipe<G> {
    memory: G,
    plan: Plan,
    /// Which side this is: 0 for the process, 1 for the router.
    side: usize,
    written: u64,
    read: u64,
    /// How many of ours the other side had read when that was looked at last.
    taken: u64,
}

impl<G: Deref<Target: SegmentView>> Pipe<G> {
    pub fn new(memory: G, plan: Plan, side: usize) -> Pipe<G> {
        Pipe { memory, plan, side, written: 0, read: 0, taken: 0 }
    }

    fn own(&self, word: usize) -> usize {
        self.plan.words[self.side] + word
    }

    fn others(&self, word: usize) -> usize {
        self.plan.words[1 - self.side] + word
    }

    /// How much can be written. `wanted` is enough.
    fn room(&mut self, wanted: usize) -> Result<usize, Malformed> {
        let size = self.plan.room as u64;
        if self.taken + size < self.written + wanted as u64 {
            let taken = self.memory.load(self.others(READ), Acquire);
            if !(self.taken..=self.written).contains(&taken) {
                return Err(Malformed);
            }
            self.taken = taken;
        }
        Ok((self.taken + size - self.written) as usize)
    }

    /// How much can be read.
    fn there(&self) -> Result<usize, Malformed> {
        let written = self.memory.load(self.others(WRITTEN), Acquire);
        let there = written.wrapping_sub(self.read);
        if there <= self.plan.room as u64 { Ok(there as usize) } else { Err(Malformed) }
    }

    /// Where byte `n` of this side lies, and how many follow it there.
    fn place(&self, side: usize, n: u64) -> (usize, usize) {
        let at = n as usize & (self.plan.room - 1);
        (self.plan.rooms[side] + at, self.plan.room - at)
    }

    /// Writes as much of these bytes as there is room for, and returns how much. [`Pipe::must_ring`] is to be asked then.
    pub fn write<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) -> Result<usize, Malformed> {
        let wanted = pieces.clone().map(<[u8]>::len).sum();
        let room = self.room(wanted)?;
        let mut n = 0;
        for mut piece in pieces {
            piece = &piece[..piece.len().min(room - n)];
            while !piece.is_empty() {
                let (at, most) = self.place(self.side, self.written + n as u64);
                let part = piece.len().min(most);
                // SAFETY: the other side has read what was there, and learns of the new bytes by the word that is written below.
                unsafe { self.memory.write(at, part, |to| to.copy_from_slice(&piece[..part])) };
                piece = &piece[part..];
                n += part;
            }
        }
        self.written += n as u64;
        self.memory.store(self.own(WRITTEN), self.written, Release);
        Ok(n)
    }

    /// Shows what can be read, or the begin of it. `f` says how much it takes. [`Pipe::must_ring`] is to be asked then.
    pub fn read(&mut self, f: impl FnOnce(&[u8]) -> usize) -> Result<usize, Malformed> {
        let (at, most) = self.place(1 - self.side, self.read);
        let there = self.there()?.min(most);
        // SAFETY: the other side does not write there before the word below says so. One that breaks this runs as the same user as we do,
        // and could write to any memory of ours.
        let n = unsafe { self.memory.read(at, there, f) };
        debug_assert!(n <= there);
        self.read += n as u64;
        self.memory.store(self.own(READ), self.read, Release);
        Ok(n)
    }

    /// Whether the other side is to be rung for, since something was written.
    pub fn must_ring(&self) -> bool {
        self.memory.fence();
        let asleep = self.others(ASLEEP);
        self.memory.load(asleep, Relaxed) != 0 && self.memory.swap(asleep, 0, AcqRel) != 0
    }

    /// Whether the other side is to be rung for, since something was read.
    pub fn must_ring_for_room(&self) -> bool {
        self.memory.fence();
        self.memory.load(self.others(WAITS), Relaxed) != 0 && self.must_ring()
    }

    /// The other side is to ring also when it has read, or no longer.
    pub fn wait_for_room(&self, yes: bool) {
        self.memory.store(self.own(WAITS), yes.into(), SeqCst);
        self.memory.fence();
    }

    /// Whether there is something to be read.
    pub fn has_input(&self) -> bool {
        self.there() != Ok(0)
    }

    /// Whether something can be written.
    pub fn has_room(&mut self) -> bool {
        self.room(1) != Ok(0)
    }

    /// Whether there is something to do.
    pub fn has_news(&mut self) -> bool {
        self.has_input() || self.memory.load(self.own(WAITS), Relaxed) != 0 && self.has_room()
    }

    /// Has the other side ring from now on. [`Pipe::has_news`] is to be asked then.
    pub fn arm(&mut self) {
        self.memory.swap(self.own(ASLEEP), 1, SeqCst);
        self.memory.fence();
    }

    /// Whether the other side has not rung since, nor is about to.
    pub fn is_armed(&self) -> bool {
        self.memory.load(self.own(ASLEEP), Relaxed) != 0
    }

    /// The other side is not to ring. False: it has, or is about to.
    pub fn disarm(&mut self) -> bool {
        self.memory.swap(self.own(ASLEEP), 0, AcqRel) != 0
    }
}

#[cfg(test)]
mod tests;
