//! A lane over a queue pair.
//!
//! Frames are a stream of bytes in messages, but for bulk that lies in few large pieces: the other side reads that from where it
//! is, or it is written to its room; and but for a MSG that goes when all before it has gone, which is a message of its own.
//! Invariant: SWITCH, the last frame of a lane, goes out when the other side has all bulk.

use super::fabric::Fabric;
use super::messages::Messages;
use super::ring::Ring;
use super::setup::Setup;
use super::{READ_FROM, Socket};
use crate::stream::{ByteStream, StreamLane};
use crate::transport::Watched;
use base::bytes::Malformed;
use base::memory::VecMemory;
use base::protocol::rdma::MAX_PIECES;
use base::{Memory, ProcId};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::Place;
use wire::frame::{HEADER, Header, Kind};
use wire::lane::{Caps, Death, Event, Fill, InKernel, Lane, Payload, Sent, Sink};

/// Whose lane it is, of which generation, and whether this side has dialled.
pub(super) struct Who {
    pub local: ProcId,
    pub remote: ProcId,
    pub generation: u16,
    pub dialled: bool,
}

/// A lane over a queue pair.
pub struct VerbsLane {
    stream: StreamLane<Ring>,
    fabric: Arc<Fabric>,
    /// The place of the other side.
    place: Option<Place>,
    dialled: bool,
    /// What the headers of all frames that come have in common: processes and generation.
    common: Header,
    /// Bytes that the other side has got, or will, from where they are.
    lent: u64,
    /// Bytes of MSGs that went as messages of their own.
    direct: u64,
    /// `NoRoom` was answered for something else than the stream.
    refused: bool,
    quiet: bool,
    /// The death was looked at.
    judged: bool,
}

impl VerbsLane {
    pub(super) fn new(socket: Socket, setup: Setup, fabric: &Arc<Fabric>, place: Option<Place>, who: &Who) -> Self {
        let (source, dest, generation) = (who.remote, who.local, who.generation);
        let common = Header { len: 0, kind: Kind::Msg, ack_now: false, generation, source, dest, a: 0, b: 0 };
        VerbsLane {
            stream: StreamLane::new(Ring::new(socket, setup)),
            fabric: fabric.clone(),
            place,
            dialled: who.dialled,
            common,
            lent: 0,
            direct: 0,
            refused: false,
            quiet: false,
            judged: false,
        }
    }

    /// Bytes that the other side has got, or will, from where they are.
    #[cfg(test)]
    pub(super) fn lent(&self) -> u64 {
        self.lent
    }

    /// Bytes of MSGs that went as messages of their own.
    #[cfg(test)]
    pub(super) fn direct(&self) -> u64 {
        self.direct
    }

    fn refuse(&mut self) -> Sent {
        self.refused = true;
        Sent::NoRoom
    }

    /// Has the other side get a user buffer from where it is: it reads it, or we write it. `None`: it goes over the stream.
    fn lend<M: Memory>(&mut self, mem: &M, header: &Header, buf: u64, offset: u64) -> Option<Sent> {
        let len = header.len as usize;
        if len < READ_FROM || self.stream.death().is_some() {
            return None;
        }
        let wire = self.stream.stream().wire()?;
        if !wire.lends() {
            return None;
        }
        if !wire.can_lend() {
            wire.pump();
        }
        // One more piece than may be told of shows that they are too many.
        let said = mem.with_slices(buf, offset, len, MAX_PIECES, |pieces| {
            let there: usize = pieces.iter().map(|piece| piece.len()).sum();
            if there < len || pieces.iter().any(|piece| piece.is_empty()) {
                return None;
            }
            if !wire.can_lend() {
                return Some(false);
            }
            // The device may refuse memory of some kinds.
            wire.lend(header, pieces).ok()
        })?;
        if !said {
            return Some(self.refuse());
        }
        self.lent += u64::from(header.len);
        Some(Sent::Taken)
    }

    /// Sends a MSG as a message of its own, if nothing is to go before it and there is room.
    fn send_msg(&mut self, header: &Header, fill: &mut Fill<'_>) -> bool {
        let is_plain = header.kind == Kind::Msg && !header.ack_now;
        if !is_plain || self.stream.death().is_some() || !self.stream.is_all_written() {
            return false;
        }
        let sent = self.stream.stream().wire().is_some_and(|wire| wire.send_msg(header, fill));
        if sent {
            self.direct += HEADER as u64 + u64::from(header.len);
        }
        sent
    }

    /// Delivers the MSGs that came as messages of their own and are next: how many bytes.
    fn deliver_msgs(&mut self, sink: &mut dyn Sink) -> usize {
        let is_between = self.stream.is_between_frames();
        let Some(wire) = self.stream.stream().wire() else { return 0 };
        if !wire.has_msg() {
            return 0;
        }
        let delivered = if is_between { wire.deliver_msgs(sink, &self.common) } else { Err(Malformed) };
        delivered.unwrap_or_else(|Malformed| {
            self.stream.end(Death::Malformed);
            0
        })
    }

    fn is_lending(&self) -> bool {
        self.stream.stream_ref().wire_ref().is_some_and(Messages::is_lending)
    }

    /// Remembers a place over which nothing came.
    fn judge(&mut self) {
        if std::mem::replace(&mut self.judged, true) {
            return;
        }
        let is_proved = self.stream.stream_ref().wire_ref().is_some_and(|wire| wire.proved);
        if let (true, false, Some(place)) = (self.dialled, is_proved, &self.place) {
            let why = self.stream.death().map(Death::to_string).unwrap_or_default();
            base::log!(Info, "no packet got through to {place}: {why}; it is not tried again for a while");
            self.fabric.set_useless(place);
        }
    }
}

impl Watched for VerbsLane {
    fn interests(&mut self, f: &mut dyn FnMut(u16, BorrowedFd<'_>, bool)) {
        let ring = self.stream.stream();
        f(0, ring.as_fd(), false);
        if let Some(wire) = ring.wire_ref() {
            f(1, wire.pair().as_fd(), false);
        }
    }

    fn changed(&mut self, _closing: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        std::mem::take(&mut self.stream.stream().changed)
    }

    fn peer_place(&self) -> Option<Place> {
        self.place.clone()
    }

    #[cfg(test)]
    fn is_set_up(&self) -> bool {
        self.stream.stream_ref().wire_ref().is_some_and(|wire| wire.proved)
    }
}

impl<M: Memory> Lane<M> for VerbsLane {
    fn caps(&self) -> Caps {
        // Bulk is written from buffer to buffer.
        Caps { eager: 64 << 10, begins: false, ..Caps::STREAM }
    }

    fn wants_write(&self) -> bool {
        Lane::<M>::wants_write(&self.stream) || self.stream.death().is_none() && self.is_lending()
    }

    #[inline]
    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        if self.quiet {
            return self.refuse();
        }
        if header.kind == Kind::Switch && self.is_lending() {
            return self.refuse();
        }
        if let Payload::User { buf, offset } = payload
            && let Some(sent) = self.lend(mem, header, buf, offset)
        {
            return sent;
        }
        self.stream.try_send(mem, header, payload)
    }

    #[inline]
    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        if self.quiet {
            return self.refuse();
        }
        if self.send_msg(header, fill) {
            return Sent::Taken;
        }
        Lane::<M>::try_send_with(&mut self.stream, header, fill)
    }

    #[inline]
    fn flush(&mut self, mem: &M) -> bool {
        let done = self.stream.flush(mem);
        if self.refused
            && let Some(wire) = self.stream.stream().wire()
        {
            wire.pump();
        }
        done
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut read = 0;
        while self.stream.death().is_none() {
            let before = read;
            read += self.deliver_msgs(sink);
            if read == before || self.stream.stream_ref().has_input() {
                read += Lane::<M>::poll(&mut self.stream, sink, budget);
            }
            let Some(wire) = self.stream.stream().wire() else { break };
            read += wire.deliver(sink);
            // The descriptor tells of what is left.
            let is_enough = wire.failed() && read == before || read >= budget && wire.tells();
            if is_enough || wire.settle() {
                break;
            }
        }
        read
    }

    #[inline(always)]
    fn is_quiet(&mut self) -> bool {
        !self.refused && !self.stream.may_have_event() && self.stream.stream().is_quiet()
    }

    #[inline]
    fn event(&mut self) -> Option<Event> {
        if self.stream.death().is_some() {
            self.judge();
        }
        if let Some(event) = Lane::<M>::event(&mut self.stream) {
            return Some(event);
        }
        if self.stream.death().is_some() || self.quiet {
            return None;
        }
        let has_room = |lane: &Self| lane.stream.stream_ref().wire_ref().is_some_and(Messages::has_room);
        if self.refused && has_room(self) && !self.is_lending() {
            self.refused = false;
            return Some(Event::Writable);
        }
        let wire = self.stream.stream().wire()?;
        (wire.stuck && wire.can_send()).then(|| {
            wire.stuck = false;
            Event::Writable
        })
    }

    fn quiesce(&mut self) {
        self.quiet = true;
    }

    fn resume(&mut self) {
        self.quiet = false;
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
        self.stream.written() + self.lent + self.direct
    }

    /// What the other side's device has not acknowledged, or not read.
    fn in_kernel(&mut self) -> Option<InKernel> {
        let wire = self.stream.stream().wire()?;
        wire.pump();
        let bytes = wire.bytes_under_way();
        Some(InKernel { bytes, flying: bytes > 0 })
    }

    fn waiting(&self) -> u16 {
        let stuck = self.stream.stream_ref().wire_ref().is_some_and(|wire| wire.stuck);
        u16::from(self.refused || stuck || Lane::<VecMemory>::wants_write(&self.stream))
    }

    fn descriptors(&self) -> usize {
        2
    }
}
