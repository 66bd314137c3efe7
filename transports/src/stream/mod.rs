//! Frames over a byte stream: a lane for TCP and its like.
//!
//! A [`StreamLane`] is made of any connected [`ByteStream`]. A frame that it has taken is written whole, however little one
//! write takes; the bytes that it reads are cut into frames again. Bulk goes straight between the stream and user memory.

mod bytes;
pub(crate) mod handshake;
pub(crate) mod link;
mod rx;
mod striped;
#[cfg(test)]
mod tests;
mod tx;

pub use bytes::ByteStream;
use bytes::stop_if_bad_memory;
pub(crate) use striped::StripedLane;

use base::Memory;
use base::protocol::frame::OF_SENDER;
use std::io;
use std::time::Duration;
use wire::frame::Header;
use wire::lane::{Caps, Death, Event, Fill, InKernel, Lane, Payload, Sent, Sink};

/// A lane over one byte stream.
pub struct StreamLane<S> {
    stream: S,
    tx: tx::Writer,
    rx: rx::Reader,
    death: Option<Death>,
    told_death: bool,
    /// `NoRoom` was answered since the last [`Event::Writable`].
    refused: bool,
    quiet: bool,
}

impl<S: ByteStream> StreamLane<S> {
    /// A lane over this stream, on which the handshake is over.
    pub fn new(mut stream: S) -> StreamLane<S> {
        stream.read_ahead();
        StreamLane {
            stream,
            tx: tx::Writer::default(),
            rx: rx::Reader::default(),
            death: None,
            told_death: false,
            refused: false,
            quiet: false,
        }
    }

    /// Has the sink told of parts of messages from this length on: for tests, whose messages are short.
    pub fn set_long(&mut self, bytes: usize) {
        self.rx.long = bytes;
    }

    /// The stream under the lane.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// As [`StreamLane::stream`], to be looked at alone.
    pub(crate) fn stream_ref(&self) -> &S {
        &self.stream
    }

    /// Bytes written in all.
    pub fn written(&self) -> u64 {
        self.tx.total()
    }

    /// Why the lane died, once it has.
    pub fn death(&self) -> Option<&Death> {
        self.death.as_ref()
    }

    /// Whether a frame that goes another way now goes, and comes, behind all that the stream has taken.
    pub(crate) fn is_all_written(&self) -> bool {
        !self.is_waiting()
    }

    /// Whether what has come ends with a frame.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.rx.is_between_frames()
    }

    /// Whether [`Lane::event`] may have something to tell.
    pub(crate) fn may_have_event(&self) -> bool {
        self.refused || self.death.is_some()
    }

    /// Ends the lane for something else than the stream's bytes.
    pub(crate) fn end(&mut self, death: Death) {
        self.death.get_or_insert(death);
    }

    /// Whether frames that were taken are not all written.
    fn is_waiting(&self) -> bool {
        self.death.is_none() && (self.tx.pending() || self.stream.has_output())
    }

    /// The stripes that the other side has said are lost since the last call, as bits: see [`StripedLane`].
    fn heard(&mut self) -> u16 {
        std::mem::take(&mut self.rx.heard)
    }

    fn push<M: Memory>(&mut self, mem: &M) -> bool {
        if self.death.is_some() {
            return false;
        }
        let written = match self.tx.flush(mem, &mut self.stream) {
            Ok(true) if self.stream.has_output() => self.stream.flush(),
            written => written,
        };
        match written {
            Ok(done) => done,
            Err(e) => {
                self.write_failed(e);
                false
            }
        }
    }

    fn write_failed(&mut self, e: io::Error) {
        stop_if_bad_memory(&e, "send");
        // Bytes that came before the failure are still to be read, so only reading ends a lane that the other side has closed.
        match Death::from_io(e) {
            Death::Closed => self.tx.break_off(),
            death => self.death = Some(death),
        }
    }
}

impl<S: ByteStream, M: Memory> Lane<M> for StreamLane<S> {
    fn caps(&self) -> Caps {
        Caps::STREAM
    }

    fn wants_write(&self) -> bool {
        self.is_waiting()
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        // The other side answers the RTS of a message while the beginning of its data is written.
        if matches!(payload, Payload::User { .. }) && header.a & OF_SENDER != 0 {
            self.push(mem);
        }
        let room = self.death.is_none() && !self.quiet && (self.tx.room() || self.push(mem));
        if !room {
            self.refused = true;
            return Sent::NoRoom;
        }
        let body = match payload {
            Payload::Bytes(body) => Some((&[][..], body)),
            Payload::Joined(head, body) => Some((head, body)),
            Payload::User { .. } => None,
        };
        if let Some((head, body)) = body.filter(|(_, body)| self.tx.worth_writing(body)) {
            debug_assert_eq!(head.len() + body.len(), header.len as usize);
            if let Err(e) = self.tx.write_through(header, (head, body), &mut self.stream) {
                self.write_failed(e);
            }
            return Sent::Taken;
        }
        self.tx.add(header, payload);
        if !self.tx.room() {
            self.push(mem);
        }
        Sent::Taken
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut Fill<'_>) -> Sent {
        if self.death.is_some() || self.quiet || !self.tx.room() {
            self.refused = true;
            return Sent::NoRoom;
        }
        self.tx.add_with(header, fill);
        Sent::Taken
    }

    fn flush(&mut self, mem: &M) -> bool {
        self.push(mem)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        if self.death.is_some() {
            return 0;
        }
        let (read, end) = self.rx.poll(&mut self.stream, sink, budget);
        self.death = end;
        read
    }

    fn event(&mut self) -> Option<Event> {
        if self.death.is_some() {
            return (!std::mem::replace(&mut self.told_death, true)).then_some(Event::Dead);
        }
        if self.refused && !self.quiet && self.tx.room() {
            self.refused = false;
            return Some(Event::Writable);
        }
        None
    }

    fn quiesce(&mut self) {
        self.quiet = true;
    }

    fn resume(&mut self) {
        self.quiet = false;
    }

    fn death(&self) -> Option<&Death> {
        self.death.as_ref()
    }

    fn cut(&mut self) {
        self.stream.cut();
    }

    fn limit_frames(&mut self, most: usize) {
        self.rx.most = most;
    }

    fn written(&self) -> u64 {
        self.tx.total()
    }

    fn in_kernel(&mut self) -> Option<InKernel> {
        self.stream.in_kernel()
    }

    fn round_trip(&mut self) -> Option<Duration> {
        self.stream.round_trip()
    }

    fn waiting(&self) -> u16 {
        self.is_waiting().into()
    }

    fn descriptors(&self) -> usize {
        self.stream.descriptors()
    }
}
