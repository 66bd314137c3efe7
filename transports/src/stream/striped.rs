//! Several streams to one process as one lane, for links on which one stream cannot be as fast as the link: every stream
//! has a window of its own.
//!
//! The node makes it of connected streams, one by one. Invariant: what has an order goes on the first stream; bulk, which
//! has none, goes on all in turn. With the first the lane dies; another that dies takes with it what bulk was on it.

use super::{ByteStream, Death, StreamLane};
use crate::frame::{Header, Kind};
use crate::lane::{Caps, Event, Lane, Payload, Sent, Sink};
use base::Memory;
use std::os::fd::RawFd;

pub struct StripedLane<S> {
    first: StreamLane<S>,
    more: Vec<StreamLane<S>>,
    /// Which of all takes the next bulk.
    turn: usize,
}

impl<S: ByteStream> StripedLane<S> {
    pub fn new(stream: S) -> StripedLane<S> {
        StripedLane { first: StreamLane::new(stream), more: Vec::new(), turn: 0 }
    }

    /// One more stream to the same process.
    pub fn add(&mut self, stream: S) {
        self.more.push(StreamLane::new(stream));
    }

    fn lanes(&self) -> impl Iterator<Item = &StreamLane<S>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut StreamLane<S>> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    pub fn stream(&mut self) -> &mut S {
        self.first.stream()
    }

    pub fn streams(&mut self) -> impl Iterator<Item = &mut S> {
        self.lanes_mut().map(StreamLane::stream)
    }

    /// Bytes that the streams have taken in all.
    pub fn written(&self) -> u64 {
        self.lanes().map(StreamLane::written).sum()
    }

    /// Why the lane died, once it has.
    pub fn death(&self) -> Option<&Death> {
        self.first.death()
    }

    /// Gives those that have died to `end`, and goes on without them.
    pub fn drop_dead(&mut self, mut end: impl FnMut(&mut S)) {
        self.more.retain_mut(|lane| {
            let dead = lane.death().is_some();
            if dead {
                end(lane.stream());
            }
            !dead
        });
    }

    fn lane(&mut self, n: usize) -> &mut StreamLane<S> {
        if n == 0 { &mut self.first } else { &mut self.more[n - 1] }
    }
}

impl<S: ByteStream, M: Memory> Lane<M> for StripedLane<S> {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }

    fn fd(&self) -> Option<RawFd> {
        Lane::<M>::fd(&self.first)
    }

    fn wants_write(&self) -> bool {
        self.death().is_none() && self.lanes().any(|lane| Lane::<M>::wants_write(lane))
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        if header.kind != Kind::Bulk || self.more.is_empty() || self.death().is_some() {
            return self.first.try_send(mem, header, payload);
        }
        let all = self.more.len() + 1;
        for _ in 0..all {
            let n = self.turn % all;
            self.turn = n + 1;
            if self.lane(n).try_send(mem, header, payload) == Sent::Taken {
                return Sent::Taken;
            }
        }
        Sent::NoRoom
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) -> Sent {
        Lane::<M>::try_send_with(&mut self.first, header, fill)
    }

    fn flush(&mut self, mem: &M) -> bool {
        // Each gets its turn, whatever the others say; of those that have died, nothing is left.
        let done = self.first.flush(mem);
        self.more.iter_mut().fold(done, |done, lane| (lane.flush(mem) || lane.death().is_some()) && done)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let read = Lane::<M>::poll(&mut self.first, sink, budget);
        match self.death() {
            Some(_) => read,
            None => self.more.iter_mut().fold(read, |read, lane| read + Lane::<M>::poll(lane, sink, budget)),
        }
    }

    fn event(&mut self) -> Option<Event> {
        if self.death().is_some() {
            return Lane::<M>::event(&mut self.first);
        }
        let mut dead = self.more.iter_mut().filter(|lane| lane.death().is_some());
        if dead.any(|lane| Lane::<M>::event(lane) == Some(Event::Dead)) {
            return Some(Event::BulkLost);
        }
        self.lanes_mut().find_map(|lane| Lane::<M>::event(lane))
    }

    fn quiesce(&mut self) {
        self.lanes_mut().for_each(|lane| Lane::<M>::quiesce(lane));
    }

    fn resume(&mut self) {
        self.lanes_mut().for_each(|lane| Lane::<M>::resume(lane));
    }
}
