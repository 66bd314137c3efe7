//! The kinds of simulated lanes behind one type, and how to break them.

use base::Memory;
use transports::sim::datagram::{self, DatagramLane};
use transports::sim::shared::{self, SharedLane};
use transports::sim::{Rng, pipe};
use transports::stream::StreamLane;
use wire::frame::Header;
use wire::lane::{Caps, Death, Event, Fill, InKernel, Lane, Payload, Sent, Sink, Unread};

#[expect(clippy::large_enum_variant, reason = "a test has few lanes")]
pub enum SimLane {
    Stream(StreamLane<pipe::PipeEnd>),
    Datagram(DatagramLane),
    Shared(SharedLane),
}

/// Breaks a lane whose ends are in use elsewhere.
pub enum Knife {
    Stream(pipe::Knife),
    Datagram(datagram::Knife),
    Shared(shared::Knife),
}

impl Knife {
    pub fn cut(&mut self) {
        match self {
            Knife::Stream(knife) => knife.cut(),
            Knife::Datagram(knife) => knife.cut(),
            Knife::Shared(knife) => knife.cut(),
        }
    }

    /// From now on nothing arrives, and neither side is told. `false`: a lane of this kind cannot be so.
    pub fn darken(&mut self) -> bool {
        match self {
            Knife::Stream(knife) => {
                knife.darken();
                true
            }
            _ => false,
        }
    }
}

impl SimLane {
    pub fn knife(&mut self, rng: &mut Rng) -> Knife {
        match self {
            SimLane::Stream(lane) => Knife::Stream(lane.stream().knife(rng)),
            SimLane::Datagram(lane) => Knife::Datagram(lane.knife()),
            SimLane::Shared(lane) => Knife::Shared(lane.knife(rng)),
        }
    }
}

macro_rules! each {
    ($any:expr, $lane:ident => $e:expr) => {
        match $any {
            SimLane::Stream($lane) => $e,
            SimLane::Datagram($lane) => $e,
            SimLane::Shared($lane) => $e,
        }
    };
}

impl<M: Memory> Lane<M> for SimLane {
    fn caps(&self) -> Caps {
        let caps = each!(self, lane => Lane::<M>::caps(lane));
        // As over TCP.
        let eager_alone = if matches!(self, SimLane::Stream(_)) { 256 << 10 } else { 0 };
        Caps { eager_alone, ..caps }
    }
    fn wants_write(&self) -> bool {
        each!(self, lane => Lane::<M>::wants_write(lane))
    }
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        each!(self, lane => lane.try_send(mem, header, payload))
    }
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        each!(self, lane => Lane::<M>::try_send_with(lane, header, fill))
    }
    fn flush(&mut self, mem: &M) -> bool {
        each!(self, lane => lane.flush(mem))
    }
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        each!(self, lane => Lane::<M>::poll(lane, sink, budget))
    }
    fn event(&mut self) -> Option<Event> {
        each!(self, lane => Lane::<M>::event(lane))
    }
    fn quiesce(&mut self) {
        each!(self, lane => Lane::<M>::quiesce(lane));
    }
    fn resume(&mut self) {
        each!(self, lane => Lane::<M>::resume(lane));
    }
    fn death(&self) -> Option<&Death> {
        each!(self, lane => Lane::<M>::death(lane))
    }
    fn cut(&mut self) {
        each!(self, lane => Lane::<M>::cut(lane));
    }
    fn written(&self) -> u64 {
        each!(self, lane => Lane::<M>::written(lane))
    }
    fn is_open(&self) -> Option<bool> {
        each!(self, lane => Lane::<M>::is_open(lane))
    }
    fn is_read(&self) -> bool {
        each!(self, lane => Lane::<M>::is_read(lane))
    }
    fn in_kernel(&mut self) -> Option<InKernel> {
        each!(self, lane => Lane::<M>::in_kernel(lane))
    }
    fn waiting(&self) -> u16 {
        each!(self, lane => Lane::<M>::waiting(lane))
    }
    fn unread(&mut self) -> Unread {
        each!(self, lane => Lane::<M>::unread(lane))
    }
}
