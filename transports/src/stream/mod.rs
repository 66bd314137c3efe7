//! Frames over a byte stream: a lane for TCP and for whatever else looks like it.
//!
//! [`StreamLane`] is made by whoever has a connected [`ByteStream`] (the node, tests, the simulator). It keeps two
//! things in step: what was taken is written whole, however little a write takes; what is read is cut into frames
//! again, bulk data going straight between the stream and user memory.

mod rx;
mod striped;
mod tx;

pub use striped::{MAX_STRIPES, StripedLane};

use crate::frame::Header;
use crate::lane::{Caps, Event, Lane, Payload, Sent, Sink};
use base::Memory;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::RawFd;

const EFAULT: i32 = nix::errno::Errno::EFAULT as i32;

/// Both directions of a connected stream. `WouldBlock` means "no room" or "nothing there"; reading 0 bytes, the end.
pub trait ByteStream {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// To be polled, if the stream has one.
    fn fd(&self) -> Option<RawFd> {
        None
    }
}

/// Why a lane died.
#[derive(Debug)]
pub enum Death {
    /// The other side's kernel said so: end of stream or reset.
    Closed,
    /// The other side spoke nonsense.
    Malformed,
    /// Anything else: mostly that nothing came back in time.
    Io(io::Error),
}

impl Death {
    fn from_io(e: io::Error) -> Death {
        use io::ErrorKind::*;
        match e.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | NotConnected => Death::Closed,
            _ => Death::Io(e),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Death::Closed => f.write_str("closed by the other side"),
            Death::Malformed => f.write_str("malformed input"),
            Death::Io(e) => write!(f, "{e}"),
        }
    }
}

/// A buffer that the program gave is no memory of its: no lane can do better, so this ends as a program ends that
/// touches such memory itself.
fn stop_if_bad_memory(e: &io::Error, call: &str) {
    if e.raw_os_error() == Some(EFAULT) {
        panic!("mpi_connect: the buffer of a {call} is not in this program's memory ({e})");
    }
}

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
    pub fn new(stream: S) -> StreamLane<S> {
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

    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Bytes that the stream has taken in all.
    pub fn written(&self) -> u64 {
        self.tx.total()
    }

    /// Why the lane died, once it has.
    pub fn death(&self) -> Option<&Death> {
        self.death.as_ref()
    }

    /// Whether there is more to write than could be written.
    fn is_waiting(&self) -> bool {
        self.death.is_none() && self.tx.pending()
    }

    /// Bits of the streams that the other side says are lost: see [`StripedLane`].
    fn heard(&mut self) -> u16 {
        std::mem::take(&mut self.rx.heard)
    }

    fn push<M: Memory>(&mut self, mem: &M) -> bool {
        if self.death.is_some() {
            return false;
        }
        match self.tx.flush(mem, &mut self.stream) {
            Ok(done) => done,
            Err(e) => {
                self.write_failed(e);
                false
            }
        }
    }

    fn write_failed(&mut self, e: io::Error) {
        stop_if_bad_memory(&e, "send");
        // What was received before the failure is still to be read: only reading ends a half-closed lane.
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

    fn fd(&self) -> Option<RawFd> {
        self.stream.fd()
    }

    fn wants_write(&self) -> bool {
        self.is_waiting()
    }

    fn try_send(&mut self, mem: &M, header: &Header, payload: Payload<'_>) -> Sent {
        let room = self.death.is_none() && !self.quiet && (self.tx.room() || self.push(mem));
        if !room {
            self.refused = true;
            return Sent::NoRoom;
        }
        if let Payload::Bytes(b) = payload {
            debug_assert_eq!(b.len(), header.len as usize);
            if self.tx.worth_writing(b) {
                if let Err(e) = self.tx.write_through(header, b, &mut self.stream) {
                    self.write_failed(e);
                }
                return Sent::Taken;
            }
        }
        self.tx.add(header, payload);
        if !self.tx.room() {
            self.push(mem);
        }
        Sent::Taken
    }

    fn try_send_with(&mut self, header: &Header, fill: &mut dyn FnMut(&mut [u8])) -> Sent {
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
}
