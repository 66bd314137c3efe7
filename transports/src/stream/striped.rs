//! Several streams to one process as one lane, for links that one stream cannot fill: every stream has a window of its own.
//!
//! The streams (stripes) are added one by one; both sides know them by the same numbers. Invariant: frames that have an order
//! go on the first stripe, and the bulk that follows its RTS unasked; other bulk, which has none, goes on all in turn. The lane dies with the first stripe. If another dies, the
//! bulk on it is lost. The side that notices says so on the first stripe before anything else (LOST). The other side then puts
//! no more bulk on that stripe, so bulk that is asked for again is not lost again.

use super::{ByteStream, Death, StreamLane};
use base::bytes::Malformed;
use base::protocol::frame::OF_SENDER;
use base::{Memory, ProcId};
use std::io::{self, IoSliceMut};
use std::time::Duration;
use wire::frame::{Header, Kind, MAX_STRIPES};
use wire::lane::{Caps, Event, Fill, InKernel, Lane, Payload, Sent, Sink};

/// A lane of several streams.
pub(crate) struct StripedLane<S> {
    first: StreamLane<S>,
    /// The other stripes with their numbers, 1 to 15, in no order.
    more: Vec<(u16, StreamLane<S>)>,
    /// The stripe that takes the next bulk.
    turn: usize,
    /// The header of LOST holds these three.
    local: ProcId,
    remote: ProcId,
    generation: u16,
    /// The stripes that were lost, as bits, and those of them that are still to be told to the other side.
    lost: u16,
    untold: u16,
    /// A stripe was lost since the last event.
    news: bool,
    /// Lost stripes that are to be closed.
    ended: Vec<StreamLane<S>>,
}

impl<S: ByteStream> StripedLane<S> {
    pub(crate) fn new(stream: S, local: ProcId, remote: ProcId, generation: u16) -> StripedLane<S> {
        StripedLane {
            first: StreamLane::new(stream),
            more: Vec::new(),
            turn: 0,
            local,
            remote,
            generation,
            lost: 0,
            untold: 0,
            news: false,
            ended: Vec::new(),
        }
    }

    /// Adds a stripe. Gives the stream back if the other side has said already that it is lost.
    pub(crate) fn add(&mut self, number: u16, stream: S) -> Result<(), S> {
        debug_assert!((1..MAX_STRIPES).contains(&number) && self.more.iter().all(|(n, _)| *n != number));
        if self.lost & 1 << number != 0 {
            return Err(stream);
        }
        self.more.push((number, StreamLane::new(stream)));
        Ok(())
    }

    fn lanes(&self) -> impl Iterator<Item = (u16, &StreamLane<S>)> {
        std::iter::once((0, &self.first)).chain(self.more.iter().map(|(n, lane)| (*n, lane)))
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = (u16, &mut StreamLane<S>)> {
        std::iter::once((0, &mut self.first)).chain(self.more.iter_mut().map(|(n, lane)| (*n, lane)))
    }

    pub(crate) fn first(&self) -> &S {
        &self.first.stream
    }

    /// The streams with their numbers; the first has 0.
    pub(crate) fn streams(&mut self) -> impl Iterator<Item = (u16, &mut S)> {
        self.lanes_mut().map(|(n, lane)| (n, lane.stream()))
    }

    /// Why the lane died, once it has.
    pub(crate) fn death(&self) -> Option<&Death> {
        self.first.death()
    }

    /// Closes the stripes that were lost; `end` sees each before.
    pub(crate) fn drop_lost(&mut self, mut end: impl FnMut(&mut S)) {
        self.ended.drain(..).for_each(|mut lane| end(lane.stream()));
    }

    fn lane(&mut self, n: usize) -> &mut StreamLane<S> {
        if n == 0 { &mut self.first } else { &mut self.more[n - 1].1 }
    }

    /// Goes on without this stripe.
    fn lose(&mut self, number: u16) {
        if self.lost & 1 << number == 0 {
            self.lost |= 1 << number;
            self.news = true;
        }
        if let Some(at) = self.more.iter().position(|(n, _)| *n == number) {
            self.ended.push(self.more.swap_remove(at).1);
        }
    }

    /// Goes on without the stripes that have died.
    fn lose_dead(&mut self) {
        while let Some(&(number, _)) = self.more.iter().find(|(_, lane)| lane.death().is_some()) {
            self.untold |= 1 << number;
            self.lose(number);
        }
    }

    /// Tells the other side which stripes are lost. Returns whether all could be told.
    fn tell<M: Memory>(&mut self, mem: &M) -> bool {
        while self.untold != 0 {
            let number = self.untold.trailing_zeros();
            let header = Header {
                len: 0,
                kind: Kind::Lost,
                ack_now: false,
                generation: self.generation,
                source: self.local,
                dest: self.remote,
                a: number.into(),
                b: 0,
            };
            if self.first.try_send(mem, &header, Payload::Bytes(&[])) == Sent::NoRoom {
                return false;
            }
            self.untold &= !(1 << number);
        }
        true
    }
}

/// Delivers the frames of a further stripe, which may carry bulk only.
struct BulkAlone<'a>(&'a mut dyn Sink);

impl Sink for BulkAlone<'_> {
    fn on_frame(&mut self, _: &Header, _: &[u8]) -> Result<(), Malformed> {
        Err(Malformed)
    }

    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        self.0.on_bulk(header, at, read)
    }

    fn on_bulk_bytes(&mut self, header: &Header, at: usize, bytes: &[u8]) {
        self.0.on_bulk_bytes(header, at, bytes);
    }
}

impl<S: ByteStream, M: Memory> Lane<M> for StripedLane<S> {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }

    fn wants_write(&self) -> bool {
        self.death().is_none() && self.lanes().any(|(_, lane)| lane.is_waiting())
    }

    #[inline]
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        if self.untold != 0 && !self.tell(mem) {
            return Sent::NoRoom;
        }
        if header.kind != Kind::Bulk || header.a & OF_SENDER != 0 || self.more.is_empty() || self.death().is_some() {
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

    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        if self.untold != 0 {
            return Sent::NoRoom;
        }
        Lane::<M>::try_send_with(&mut self.first, header, fill)
    }

    #[inline]
    fn flush(&mut self, mem: &M) -> bool {
        let told = self.tell(mem);
        // Every stripe is flushed, whether or not the others have room.
        self.lanes_mut().fold(told, |done, (_, lane)| lane.flush(mem) && done)
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut read = Lane::<M>::poll(&mut self.first, sink, budget);
        let mut heard = self.first.heard();
        while heard != 0 {
            self.lose(heard.trailing_zeros() as u16);
            heard &= heard - 1;
        }
        if self.death().is_none() && !self.more.is_empty() {
            let sink = &mut BulkAlone(sink);
            read += self.more.iter_mut().map(|(_, lane)| Lane::<M>::poll(lane, sink, budget)).sum::<usize>();
            self.lose_dead();
        }
        read
    }

    fn event(&mut self) -> Option<Event> {
        if self.death().is_some() {
            return Lane::<M>::event(&mut self.first);
        }
        if !self.more.is_empty() {
            self.lose_dead();
        }
        if std::mem::take(&mut self.news) {
            return Some(Event::BulkLost);
        }
        self.lanes_mut().find_map(|(_, lane)| Lane::<M>::event(lane))
    }

    fn quiesce(&mut self) {
        self.lanes_mut().for_each(|(_, lane)| Lane::<M>::quiesce(lane));
    }

    fn resume(&mut self) {
        self.lanes_mut().for_each(|(_, lane)| Lane::<M>::resume(lane));
    }

    fn death(&self) -> Option<&Death> {
        self.first.death()
    }

    fn cut(&mut self) {
        self.first.stream().cut();
    }

    /// This is of the first stripe, since the others carry bulk only.
    fn limit_frames(&mut self, most: usize) {
        self.first.rx.most = most;
    }

    fn written(&self) -> u64 {
        self.lanes().map(|(_, lane)| lane.written()).chain(self.ended.iter().map(StreamLane::written)).sum()
    }

    fn in_kernel(&mut self) -> Option<InKernel> {
        let streams = self.lanes_mut().filter_map(|(_, lane)| lane.stream().in_kernel());
        streams.reduce(|a, b| InKernel { bytes: a.bytes + b.bytes, flying: a.flying || b.flying })
    }

    fn round_trip(&mut self) -> Option<Duration> {
        self.first.stream().round_trip()
    }

    /// The stripes that have more to write than they could, as bits by their numbers.
    fn waiting(&self) -> u16 {
        self.lanes().filter(|(_, lane)| lane.is_waiting()).fold(0, |bits, (n, _)| bits | 1 << n)
    }

    fn descriptors(&self) -> usize {
        1 + self.more.len()
    }
}
