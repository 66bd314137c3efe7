//! A lane over a channel: a stream like any other, whose descriptor is a bell.

use super::channel::Channel;
use crate::stream::StreamLane;
use crate::stream::link::Link;
use crate::transport::Watched;
use base::Memory;
use std::os::fd::{AsFd, BorrowedFd};
use wire::Place;
use wire::frame::Header;
use wire::lane::{Caps, Death, Event, Fill, Lane, Payload, Sent, Sink};

/// A lane through the router of this node.
pub struct RouterLane {
    stream: StreamLane<Link<Channel>>,
    place: Place,
}

impl RouterLane {
    pub(super) fn new(link: Link<Channel>, place: Place) -> RouterLane {
        RouterLane { stream: StreamLane::new(link), place }
    }
}

impl Watched for RouterLane {
    /// The bell tells of room too.
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        f(0, self.stream.stream().as_fd(), false);
    }

    fn peer_place(&self) -> Option<Place> {
        Some(self.place.clone())
    }

    fn streams(&self) -> usize {
        1
    }
}

impl<M: Memory> Lane<M> for RouterLane {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }

    fn wants_write(&self) -> bool {
        Lane::<M>::wants_write(&self.stream)
    }

    #[inline]
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        self.stream.try_send(mem, header, payload)
    }

    #[inline]
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        Lane::<M>::try_send_with(&mut self.stream, header, fill)
    }

    #[inline]
    fn flush(&mut self, mem: &M) -> bool {
        self.stream.flush(mem)
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        Lane::<M>::poll(&mut self.stream, sink, budget)
    }

    fn event(&mut self) -> Option<Event> {
        let event = Lane::<M>::event(&mut self.stream);
        if event.is_some() || !Lane::<M>::wants_write(&self.stream) {
            return event;
        }
        // No descriptor tells that what was taken can be written on.
        self.stream.stream().stream().has_room_again().then_some(Event::Writable)
    }

    fn quiesce(&mut self) {
        Lane::<M>::quiesce(&mut self.stream);
    }

    fn resume(&mut self) {
        Lane::<M>::resume(&mut self.stream);
    }

    fn death(&self) -> Option<&Death> {
        self.stream.death()
    }

    fn cut(&mut self) {
        Lane::<M>::cut(&mut self.stream);
    }

    fn limit_frames(&mut self, most: usize) {
        Lane::<M>::limit_frames(&mut self.stream, most);
    }

    fn written(&self) -> u64 {
        self.stream.written()
    }

    fn waiting(&self) -> u16 {
        Lane::<M>::waiting(&self.stream)
    }
}
