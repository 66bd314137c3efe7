//! What `fuzz/` needs of decoders that are private: entries of contact records, greetings over a byte stream, lanes of several
//! streams; and what each transport's folder has for it.

pub use crate::relay::fuzzing as relay;
pub use crate::router::fuzzing as router;
pub use crate::shm::fuzzing as shared;
use crate::stream::{ByteStream, StripedLane, handshake};
use crate::transport::Said;
pub use crate::verbs::fuzzing as rdma;
use base::ProcId;
use base::bytes::Malformed;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use trust::Trust;
use wire::lane::Lane;
use wire::{Hello, HelloAck, Place};

/// The addresses in an entry of a contact record, and the places that are dialled for it.
pub fn addresses(entry: &[u8]) -> (Vec<SocketAddr>, Vec<Place>) {
    let all = crate::tcp::addresses(entry);
    let places = all.iter().map(|address| crate::tcp::place_of(*address)).collect();
    (all, places)
}

/// The entry of these addresses.
pub fn entry(addresses: &[SocketAddr]) -> Vec<u8> {
    crate::tcp::entry(addresses)
}

/// The address of a place.
pub fn address(place: &Place) -> Option<SocketAddr> {
    crate::tcp::address(place)
}

/// The answering side of a handshake, as far as the HELLO.
pub struct Accepted<S>(handshake::Accepted<S>);

impl<S: ByteStream> Accepted<S> {
    /// Awaits a handshake on a stream that does not leave this host.
    pub fn begin(stream: S, trust: &Arc<Trust>) -> Accepted<S> {
        Accepted(handshake::Accepted::begin(stream, trust, true))
    }

    /// Reads what is there: the HELLO, or `None` if it is not whole. [`Malformed`]: the connection is to be closed.
    pub fn step(&mut self) -> Result<Option<Hello>, Malformed> {
        match self.0.step(&|| "the fuzzer".to_owned()) {
            Said::Nothing => Ok(None),
            Said::Hello(hello) => Ok(Some(*hello)),
            _ => Err(Malformed),
        }
    }
}

/// The dialling side of a handshake, as far as the HELLO-ACK.
pub struct Dialled<S>(handshake::Dialled<S>);

impl<S: ByteStream> Dialled<S> {
    /// Begins on a stream that does not leave this host.
    pub fn begin(stream: S, trust: &Arc<Trust>, hello: Hello) -> io::Result<Dialled<S>> {
        handshake::Dialled::begin(stream, trust, true, hello).map(Dialled)
    }

    /// The answer. `WouldBlock` if it is not whole.
    pub fn talk(&mut self) -> io::Result<HelloAck> {
        self.0.talk()
    }
}

/// A lane of these streams; the first carries what has an order.
pub fn striped<S: ByteStream>(
    streams: impl IntoIterator<Item = S>,
    local: ProcId,
    remote: ProcId,
) -> Option<impl Lane<base::memory::VecMemory>> {
    let mut streams = streams.into_iter();
    let mut lane = StripedLane::new(streams.next()?, local, remote, 1);
    for (number, stream) in (1..).zip(streams) {
        lane.add(number, stream).ok()?;
    }
    Some(lane)
}
