//! A lane over a connection that a relay has joined to another one: a stream like any other.

use crate::ip::Socket;
use crate::stream::StreamLane;
use crate::stream::link::Link;
use crate::transport::Watched;
use base::Memory;
use base::memory::VecMemory;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use wire::Place;
use wire::frame::Header;
use wire::lane::{Caps, Death, Event, Fill, InKernel, Lane, Payload, Sent, Sink};

/// A lane through a relay.
pub struct RelayLane(StreamLane<Link<Socket>>);

impl RelayLane {
    pub(super) fn new(link: Link<Socket>) -> RelayLane {
        RelayLane(StreamLane::new(link))
    }
}

impl Watched for RelayLane {
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        let write = Lane::<VecMemory>::wants_write(&self.0);
        f(0, self.0.stream().as_fd(), write);
    }

    /// The relay.
    fn peer_place(&self) -> Option<Place> {
        let relay = self.0.stream_ref().stream().peer()?;
        Some(super::address::place(relay, &[0; 16]))
    }

    fn streams(&self) -> usize {
        1
    }
}

impl<M: Memory> Lane<M> for RelayLane {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }

    fn wants_write(&self) -> bool {
        Lane::<M>::wants_write(&self.0)
    }

    #[inline]
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        self.0.try_send(mem, header, payload)
    }

    #[inline]
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        Lane::<M>::try_send_with(&mut self.0, header, fill)
    }

    #[inline]
    fn flush(&mut self, mem: &M) -> bool {
        self.0.flush(mem)
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        Lane::<M>::poll(&mut self.0, sink, budget)
    }

    fn event(&mut self) -> Option<Event> {
        Lane::<M>::event(&mut self.0)
    }

    fn quiesce(&mut self) {
        Lane::<M>::quiesce(&mut self.0);
    }

    fn resume(&mut self) {
        Lane::<M>::resume(&mut self.0);
    }

    fn death(&self) -> Option<&Death> {
        self.0.death()
    }

    fn cut(&mut self) {
        Lane::<M>::cut(&mut self.0);
    }

    fn limit_frames(&mut self, most: usize) {
        Lane::<M>::limit_frames(&mut self.0, most);
    }

    fn written(&self) -> u64 {
        self.0.written()
    }

    /// What the relay's kernel has not acknowledged.
    fn in_kernel(&mut self) -> Option<InKernel> {
        Lane::<M>::in_kernel(&mut self.0)
    }

    fn waiting(&self) -> u16 {
        Lane::<M>::waiting(&self.0)
    }

    /// The kernel knows that to the relay alone.
    fn round_trip(&mut self) -> Option<Duration> {
        None
    }
}
