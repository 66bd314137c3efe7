//! The kinds of lanes that a node has, behind one face.
//!
//! Used by `round` and `connect`; what only one kind has is asked of that kind.

use crate::memory::Buffers;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use transports::frame::Header;
use transports::lane::{Caps, Event, Lane, Payload, Sent, Sink, Unread};
use transports::shm::ShmLane;
use transports::stream::{Death, StripedLane};
use transports::tcp::Socket;

// There is one for each pair, in place: nobody gains from another hop.
#[allow(clippy::large_enum_variant)]
pub enum Carrier {
    Tcp(StripedLane<Socket>),
    Shm(ShmLane),
}

/// The same for either kind.
macro_rules! each {
    ($carrier:expr, $lane:ident => $e:expr) => {
        match $carrier {
            Carrier::Tcp($lane) => $e,
            Carrier::Shm($lane) => $e,
        }
    };
}

impl Carrier {
    pub fn shm(&self) -> Option<&ShmLane> {
        match self {
            Carrier::Shm(lane) => Some(lane),
            Carrier::Tcp(_) => None,
        }
    }

    pub fn striped(&mut self) -> Option<&mut StripedLane<Socket>> {
        match self {
            Carrier::Tcp(lane) => Some(lane),
            Carrier::Shm(_) => None,
        }
    }

    /// Calls `f` with what epoll watches: descriptors and their numbers, below 16.
    pub fn signs(&mut self, mut f: impl FnMut(u16, BorrowedFd<'_>)) {
        match self {
            Carrier::Tcp(lane) => lane.streams().for_each(|(n, stream)| f(n, stream.as_fd())),
            Carrier::Shm(lane) => f(0, lane.sign()),
        }
    }

    /// Bits of those of them that have no room for what is to be written.
    pub fn waiting(&self) -> u16 {
        match self {
            Carrier::Tcp(lane) => lane.waiting(),
            Carrier::Shm(_) => 0,
        }
    }

    /// Bytes written in all.
    pub fn written(&self) -> u64 {
        each!(self, lane => lane.written())
    }

    /// Why the lane died, once it has.
    pub fn death(&self) -> Option<&Death> {
        each!(self, lane => lane.death())
    }

    /// Bytes that were written and have not reached the other side's kernel.
    pub fn under_way(&mut self) -> u64 {
        match self {
            Carrier::Tcp(lane) => lane.streams().map(|(_, stream)| stream.under_way()).sum(),
            Carrier::Shm(_) => 0,
        }
    }

    /// Of a lane that may be dark: bytes that the other side's kernel has not acknowledged, and whether some of them have
    /// left.
    pub fn in_kernel(&mut self) -> Option<(u64, bool)> {
        match self {
            Carrier::Tcp(lane) => Some(lane.streams().fold((0, false), |(sum, flying), (_, stream)| {
                let n = stream.under_way();
                (sum + n, flying || n > stream.not_sent())
            })),
            Carrier::Shm(_) => None,
        }
    }

    /// For tests: ends it as a broken network would.
    pub fn cut(&mut self) {
        match self {
            Carrier::Tcp(lane) => lane.stream().cut(),
            Carrier::Shm(lane) => lane.cut(),
        }
    }
}

impl Lane<Buffers> for Carrier {
    fn caps(&self) -> Caps {
        each!(self, lane => Lane::<Buffers>::caps(lane))
    }

    fn fd(&self) -> Option<RawFd> {
        each!(self, lane => Lane::<Buffers>::fd(lane))
    }

    fn wants_write(&self) -> bool {
        each!(self, lane => Lane::<Buffers>::wants_write(lane))
    }

    #[inline]
    fn try_send(&mut self, mem: &Buffers, header: &Header, payload: Payload<'_>) -> Sent {
        each!(self, lane => lane.try_send(mem, header, payload))
    }

    #[inline]
    fn try_send_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) -> Sent {
        each!(self, lane => Lane::<Buffers>::try_send_with(lane, header, fill))
    }

    #[inline]
    fn flush(&mut self, mem: &Buffers) -> bool {
        each!(self, lane => lane.flush(mem))
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        each!(self, lane => Lane::<Buffers>::poll(lane, sink, budget))
    }

    #[inline]
    fn event(&mut self) -> Option<Event> {
        each!(self, lane => Lane::<Buffers>::event(lane))
    }

    fn quiesce(&mut self) {
        each!(self, lane => Lane::<Buffers>::quiesce(lane));
    }

    fn resume(&mut self) {
        each!(self, lane => Lane::<Buffers>::resume(lane));
    }

    fn unread(&mut self) -> Unread {
        each!(self, lane => Lane::<Buffers>::unread(lane))
    }
}
