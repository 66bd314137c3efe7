//! One round: what has arrived goes up, what the engine puts out goes down. Never blocks.
//!
//! Part of the core; called by whoever makes progress. Invariant: after a round, everything that the lanes had room
//! for has been handed to the kernel, and epoll is asked about every lane that had none.

use crate::core::Core;
use crate::memory::Buffers;
use crate::pair::{Lane, MAX_CONTROL_BYTES, MAX_CONTROLS, Pair};
use crate::watch::Owner;
use base::Memory;
use base::bytes::Malformed;
use engine::setup::still_missing;
use engine::{Engine, Gone, Output, PeerId};
use std::io::{self, IoSliceMut};
use std::time::Instant;
use transports::frame::Header;
use transports::lane::{Event, Sink};
use transports::path::{BulkTx, Path};
use transports::stream::Death;

/// Read from one lane before the others get their turn.
const BUDGET: usize = 1 << 20;
/// Pieces of user memory per read.
const PIECES: usize = 256;
/// Sockets that are read without asking epoll: to ask costs as much as to read two.
const MOST_BUSY: usize = 2;
const LOOKS_AT_SOCKETS: u32 = 2;
const LOOKS_AT_MEMORY: u32 = 32;
/// Turns that all writers get before the readers are looked at again.
const TURNS: usize = 8;

impl Core {
    /// One nonblocking round; whether anything has come or gone.
    pub(crate) fn round(&mut self, now: Instant) -> bool {
        self.without_round = 0;
        let before = self.bytes_in;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        // The bell is for those who sleep: as long as one of them may not have heard it, it goes on.
        self.watch.look(&mut events, self.sleepers == 0);
        for e in &events {
            match e.owner {
                Owner::Wake => (),
                Owner::Door => self.on_door(now),
                Owner::Listener(n) => self.on_listener(n as usize, now),
                Owner::Halfway(n) => self.on_halfway(n, now),
                Owner::Dial(n) => self.step_dial(n as usize, now),
                Owner::Touch => self.step_touches(now),
                Owner::Lane(n) => {
                    if e.writable {
                        self.mark(n as usize);
                    }
                    if e.readable && self.read(n as usize) {
                        self.warm(n as usize);
                    }
                }
            }
        }
        let busy = !events.is_empty() | self.read_local();
        self.events = events;
        if self.is_timed() {
            self.tick(now);
        }
        self.watch_lingering(now);
        self.pull_some();
        self.follow_up(before);
        busy || self.is_dirty()
    }

    /// What reading has led to.
    fn follow_up(&mut self, bytes_in_before: u64) {
        self.settle();
        self.see_off_all();
        if self.bytes_in != bytes_in_before && self.forgotten() > 0 {
            self.sweep();
        }
    }

    /// For a call that could do without a round: whether so many have followed each other.
    #[inline]
    pub(crate) fn is_round_due(&mut self, after: u32) -> bool {
        self.without_round += 1;
        self.without_round >= after
    }

    // ---- busy lanes: those from which something came last are looked at without asking epoll first

    /// How often to look at the busy lanes, one time after the other; 0: there are none, only a round tells.
    pub(crate) fn looks(&self) -> u32 {
        match (self.busy.is_empty(), self.has_shm_lanes()) {
            (false, _) => LOOKS_AT_SOCKETS,
            (true, true) => LOOKS_AT_MEMORY,
            (true, false) => 0,
        }
    }

    /// Reads what is there on the busy lanes; whether anything was.
    pub(crate) fn glance(&mut self) -> bool {
        let before = self.bytes_in;
        let mut found = self.read_local();
        for k in 0..self.busy.len() {
            if let Some(&i) = self.busy.get(k) {
                found |= self.read(i);
            }
        }
        if !self.pulls.is_empty() {
            found |= self.pull_some();
        }
        // There may be room now for what waited.
        if found || self.is_dirty() {
            self.follow_up(before);
        }
        found
    }

    /// Something came from this pair.
    fn warm(&mut self, i: usize) {
        if !self.busy.contains(&i) && self.pairs[i].lane.as_ref().is_some_and(|l| l.lane.shm().is_none()) {
            self.busy.truncate(MOST_BUSY - 1);
            self.busy.insert(0, i);
        }
    }

    /// Nothing has come for a while: only epoll is asked.
    pub(crate) fn cool(&mut self) {
        self.busy.clear();
    }

    /// Whether something could be written, or read from another's memory, at once.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.pulls.is_empty()
    }

    pub(crate) fn mark(&mut self, i: usize) {
        if let Some(pair) = self.pairs.get_mut(i)
            && !pair.dirty
        {
            pair.dirty = true;
            self.dirty.push(i);
        }
    }

    /// Whether anything came.
    pub(crate) fn read(&mut self, i: usize) -> bool {
        let Some(pair) = self.pairs.get_mut(i) else { return false };
        let Some(Lane { lane, generation, brought, .. }) = &mut pair.lane else { return false };
        let generation = *generation;
        let mut up = Up { engine: &mut self.engine, mem: &mut self.mem, path: &mut pair.path, peer: pair.peer };
        let n = lane_poll(lane, &mut up);
        self.bytes_in += n as u64;
        if n > 0 {
            *brought = brought.saturating_add(1);
            pair.tries = 0;
        }
        let event = lane_event(lane);
        let dead = event == Some(Event::Dead);
        if self.engine.has_trouble() && pair.gone.is_none() && self.engine.gone(pair.peer) == Some(Gone::Finished) {
            base::log!(Info, "{} has finalized", pair.remote);
            pair.gone = Some(Gone::Finished);
            self.leaving.insert(i);
        }
        if dead {
            self.lane_died(i);
        } else if n > 0 && (pair.backlogged || pair.path.has_tx(generation)) {
            // Acknowledgements have fallen due, or made room.
            self.mark(i);
        }
        if event == Some(Event::BulkLost) {
            self.stripe_lost(i);
        }
        n > 0 || dead
    }

    /// The lane itself says so.
    fn lane_died(&mut self, i: usize) {
        let death = self.pairs[i].lane.as_ref().and_then(|l| l.lane.death());
        let why = death.map_or(String::new(), Death::to_string);
        let (nonsense, closed) = (matches!(death, Some(Death::Malformed)), matches!(death, Some(Death::Closed)));
        self.pairs[i].closed = closed;
        self.lane_lost(i, nonsense, &why, Instant::now());
    }

    /// Carries what the engine puts out to the lanes, as far as they have room.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        if !self.dirty.is_empty() || self.engine.has_output() {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        for _ in 0..TURNS {
            self.put_out_all();
            if self.dirty.is_empty() {
                return;
            }
            let mut turn = std::mem::replace(&mut self.dirty, std::mem::take(&mut self.no_longer_dirty));
            for i in turn.drain(..) {
                self.pairs[i].dirty = false;
                self.write(i);
            }
            self.no_longer_dirty = turn;
        }
        // What the last turn made room for is marked, or nobody would come back for it.
        self.put_out_all();
    }

    fn put_out_all(&mut self) {
        while let Some(output) = self.engine.next_output() {
            self.put_out(output);
        }
    }

    fn put_out(&mut self, output: Output) {
        let peer = match output {
            Output::Control { peer, bytes } => {
                let i = peer.0 as usize;
                if !self.has_control_room(i, bytes.len()) {
                    base::log_seldom!(
                        Info,
                        "{} says more than there is room for, and is sent away",
                        self.pairs[i].remote
                    );
                    return self.forget_stranger(i);
                }
                let pair = &mut self.pairs[i];
                if pair.is_caller {
                    pair.offer_missing = still_missing(pair.offer_missing, &bytes);
                }
                if pair.controls.len() < MAX_CONTROLS && pair.control_bytes + bytes.len() <= MAX_CONTROL_BYTES {
                    pair.control_bytes += bytes.len();
                    pair.controls.push_back(bytes);
                } else {
                    base::log_seldom!(Error, "a leader says more than anyone listens to: dropped");
                }
                return;
            }
            Output::Message { peer, bytes } => {
                let Pair { lane, path, .. } = &mut self.pairs[peer.0 as usize];
                let mut fill = |to: &mut [u8]| to.copy_from_slice(&bytes);
                let sent = lane.as_mut().is_some_and(|l| path.send_now::<Buffers>(&mut l.lane, bytes.len(), &mut fill));
                if sent {
                    return self.mark(peer.0 as usize);
                }
                path.send(bytes);
                peer
            }
            Output::Asked { peer } => return self.tell_waits(peer),
            Output::Told { peer, bytes } => return self.told(peer, &bytes),
            Output::Noted { op, note, .. } => return self.note(op, note),
            Output::Get { peer, op, pieces, size, .. } => return self.start_pull(peer, op, pieces, size),
            Output::Bulk { peer, receiver_op, op, offset, len } => {
                let bulk = BulkTx { receiver_op, buf: op.0, offset, len: len as u32 };
                self.pairs[peer.0 as usize].path.queue_bulk(bulk);
                peer
            }
        };
        let i = peer.0 as usize;
        if self.pairs[i].lane.is_none() {
            self.look_soon(i);
        }
        self.mark(i);
        self.update_backlog(i);
    }

    fn update_backlog(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        let backlogged = pair.path.backlogged();
        if backlogged != pair.backlogged {
            pair.backlogged = backlogged;
            self.engine.set_backlogged(&self.mem, pair.peer, backlogged);
        }
    }

    pub(crate) fn write(&mut self, i: usize) {
        let pair = &mut self.pairs[i];
        if let Some(Lane { lane, generation, writing, .. }) = &mut pair.lane {
            let before = lane.written();
            pair.path.pump(*generation, lane, &self.mem);
            let done = lane_flush(lane, &self.mem);
            self.bytes_out += lane.written() - before;
            if !done {
                // Only a write tells of some failures: no event of epoll follows.
                match lane_event(lane) {
                    Some(Event::Dead) => return self.lane_died(i),
                    Some(Event::BulkLost) => return self.stripe_lost(i),
                    _ => (),
                }
            }
            let more = !done || pair.path.has_tx(*generation);
            if let Some(shm) = lane.shm() {
                // Nothing but a look, or the other side, tells when there is room.
                let stuck = more && shm.is_stuck();
                self.set_stuck(i, stuck);
                if more && !stuck {
                    self.mark(i);
                }
                return self.update_backlog(i);
            }
            // Told once that there is room, the path gets all its turns before it asks again.
            let waiting = if done { 0 } else { lane.waiting() };
            if waiting != *writing {
                let changed = std::mem::replace(writing, waiting) ^ waiting;
                lane.signs(|n, fd| {
                    if changed & 1 << n != 0 {
                        self.watch.set(fd, Owner::Lane(i as u32), waiting & 1 << n != 0);
                    }
                });
            }
            if more && done {
                self.mark(i);
            }
        }
        self.update_backlog(i);
    }
}

// The lane's trait is generic over the memory; these say which.
fn lane_poll(lane: &mut impl transports::lane::Lane<Buffers>, up: &mut Up<'_>) -> usize {
    lane.poll(up, BUDGET)
}
fn lane_event(lane: &mut impl transports::lane::Lane<Buffers>) -> Option<Event> {
    lane.event()
}
fn lane_flush(lane: &mut impl transports::lane::Lane<Buffers>, mem: &Buffers) -> bool {
    lane.flush(mem)
}

/// What a lane reads goes through the path to the engine, bulk data straight to the user's buffer.
struct Up<'a> {
    engine: &'a mut Engine,
    mem: &'a mut Buffers,
    path: &'a mut Path,
    peer: PeerId,
}

impl Sink for Up<'_> {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        let (engine, mem, peer) = (&mut *self.engine, &mut *self.mem, self.peer);
        self.path.on_frame(header, payload, |body| engine.on_message(mem, peer, body))?;
        Ok(())
    }

    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let (offset, len) = (header.b + at as u64, header.len as usize - at);
        if !self.path.accepts(header) || !self.engine.bulk_wanted(self.peer, header.a, offset, len as u64) {
            return None;
        }
        let done = self.mem.with_slices_mut(header.a, offset, len, PIECES, |pieces| read(pieces));
        if let Ok(n @ 1..) = done {
            self.engine.on_bulk(self.peer, header.a, offset, n as u64);
        }
        Some(done)
    }

    fn on_bulk_bytes(&mut self, header: &Header, at: usize, bytes: &[u8]) {
        let (offset, len) = (header.b + at as u64, bytes.len() as u64);
        if self.path.accepts(header) && self.engine.bulk_wanted(self.peer, header.a, offset, len) {
            self.mem.write(header.a, offset, bytes);
            self.engine.on_bulk(self.peer, header.a, offset, len);
        }
    }
}
