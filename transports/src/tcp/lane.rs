//! A lane of one or several TCP connections (stripes), for links that one connection cannot fill.
//!
//! Invariant: only the side that dialled a lane dials further stripes for it, each number once; the other side accepts them
//! for this very lane. The lane works without them, so none of them is tried again.

use super::place;
use crate::ip::{Dial, Socket};
use crate::stream::StripedLane;
use crate::stream::link::Link;
use crate::transport::{Step, Watched};
use base::{Memory, ProcId};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use trust::Trust;
use wire::frame::{Header, MAX_STRIPES};
use wire::lane::{Caps, Death, Event, Fill, InKernel, Lane, Payload, Sent, Sink};
use wire::{Hello, Place, Status};

/// A lane over TCP.
pub struct TcpLane {
    streams: StripedLane<Link<Socket>>,
    remote: ProcId,
    /// The stripes that are not accepted, as bits: they have come already, or our side dials them.
    taken: u16,
    /// The stripes that are being dialled, with their numbers.
    dialling: Vec<(u16, Dial)>,
    /// Sockets that are no longer of the lane. They are closed when they are watched no more.
    ended: Vec<Link<Socket>>,
    /// The set of descriptors to be watched has changed.
    changed: bool,
}

impl TcpLane {
    pub(crate) fn answered(link: Link<Socket>, local: ProcId, remote: ProcId, generation: u16) -> TcpLane {
        let streams = StripedLane::new(link, local, remote, generation);
        TcpLane { streams, remote, taken: 1, dialling: Vec::new(), ended: Vec::new(), changed: false }
    }

    pub(crate) fn dialled(link: Link<Socket>, local: ProcId, remote: ProcId, generation: u16) -> TcpLane {
        TcpLane { taken: u16::MAX, ..TcpLane::answered(link, local, remote, generation) }
    }

    /// Begins to dial further stripes, so that the lane will have this number of connections.
    pub(crate) fn dial_more(&mut self, address: SocketAddr, trust: &Arc<Trust>, hello: &Hello, sockets: u16) {
        for stripe in 1..sockets {
            match Dial::start(address, trust, Hello { stripe, ..hello.clone() }) {
                Ok(dial) => self.dialling.push((stripe, dial)),
                Err(e) => base::log!(Info, "no further connection to {} at {address}: {e}", self.remote),
            }
        }
        self.changed |= !self.dialling.is_empty();
    }

    /// Adds a stripe.
    pub(crate) fn add(&mut self, number: u16, link: Link<Socket>) {
        self.taken |= 1 << number;
        self.changed = true;
        match self.streams.add(number, link) {
            Ok(()) => base::log!(Debug, "connection {number} to {} is there", self.remote),
            // The other side has said already that it is lost.
            Err(link) => self.ended.push(link),
        }
    }

    fn step_dials(&mut self) {
        for (number, mut dial) in std::mem::take(&mut self.dialling) {
            match dial.step() {
                Step::NotYet => {
                    self.dialling.push((number, dial));
                    continue;
                }
                Step::Answered(ack) if ack.status == Status::Good => {
                    dial.into_link().into_iter().for_each(|(link, _)| self.add(number, link));
                }
                Step::Answered(ack) => {
                    base::log!(Info, "no further connection to {}: {}", self.remote, ack.status);
                    self.ended.extend(dial.into_socket());
                }
                Step::Failed(e) => {
                    base::log!(Info, "no further connection to {}: {e}", self.remote);
                    self.ended.extend(dial.into_socket());
                }
            }
        }
        self.changed = true;
    }
}

impl Watched for TcpLane {
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        let waiting = Lane::<base::memory::VecMemory>::waiting(&self.streams);
        self.streams.streams().for_each(|(n, link)| f(n, link.stream().as_fd(), waiting & 1 << n != 0));
        for (n, dial) in &self.dialling {
            dial.fd().into_iter().for_each(|(fd, write)| f(*n, fd, write));
        }
    }

    fn changed(&mut self, closing: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        if !self.changed {
            return false;
        }
        self.streams.drop_lost(|link| closing(link.stream().as_fd()));
        self.ended.drain(..).for_each(|link| closing(link.stream().as_fd()));
        std::mem::take(&mut self.changed)
    }

    fn peer_place(&self) -> Option<Place> {
        self.streams.first().stream().peer().map(place)
    }

    fn cut_stream(&mut self, number: u16) -> bool {
        use crate::stream::ByteStream as _;
        let mut streams = self.streams.streams();
        streams.find(|(n, _)| *n == number).map(|(_, link)| link.cut()).is_some()
    }

    fn streams(&self) -> usize {
        Lane::<base::memory::VecMemory>::descriptors(&self.streams)
    }
}

impl<M: Memory> Lane<M> for TcpLane {
    /// Records of bulk are decrypted while more come, and those of an eager message when it is whole.
    fn caps(&self) -> Caps {
        let eager_alone = if self.streams.first().is_encrypted() { 0 } else { 256 << 10 };
        Caps { eager_alone, ..Caps::STREAM }
    }

    fn wants_write(&self) -> bool {
        Lane::<M>::wants_write(&self.streams)
    }

    #[inline(always)]
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        self.streams.try_send(mem, header, payload)
    }

    #[inline(always)]
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        Lane::<M>::try_send_with(&mut self.streams, header, fill)
    }

    #[inline(always)]
    fn flush(&mut self, mem: &M) -> bool {
        self.streams.flush(mem)
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        if !self.dialling.is_empty() {
            self.step_dials();
        }
        Lane::<M>::poll(&mut self.streams, sink, budget)
    }

    fn event(&mut self) -> Option<Event> {
        let event = Lane::<M>::event(&mut self.streams);
        self.changed |= event == Some(Event::BulkLost);
        event
    }

    fn quiesce(&mut self) {
        Lane::<M>::quiesce(&mut self.streams);
    }

    fn resume(&mut self) {
        Lane::<M>::resume(&mut self.streams);
    }

    fn death(&self) -> Option<&Death> {
        Lane::<M>::death(&self.streams)
    }

    fn cut(&mut self) {
        Lane::<M>::cut(&mut self.streams);
    }

    fn limit_frames(&mut self, most: usize) {
        Lane::<M>::limit_frames(&mut self.streams, most);
    }

    fn written(&self) -> u64 {
        Lane::<M>::written(&self.streams)
    }

    fn in_kernel(&mut self) -> Option<InKernel> {
        Lane::<M>::in_kernel(&mut self.streams)
    }

    fn round_trip(&mut self) -> Option<Duration> {
        Lane::<M>::round_trip(&mut self.streams)
    }

    fn waiting(&self) -> u16 {
        Lane::<M>::waiting(&self.streams)
    }

    fn descriptors(&self) -> usize {
        Lane::<M>::descriptors(&self.streams) + self.dialling.len()
    }

    fn takes_stream(&self, number: u16) -> bool {
        (1..MAX_STRIPES).contains(&number) && self.taken & 1 << number == 0
    }
}
