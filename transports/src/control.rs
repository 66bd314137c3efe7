//! Connections that carry an operator's commands: messages with their length in front, over a stream that is trusted.
//!
//! Used by the threads of a node that serve operators, by what passes commands on, and by the command. No call here blocks:
//! whoever uses a stream polls its descriptor. Invariant: memory is taken for bytes that have come, never for a length.

use crate::stream::ByteStream;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use wire::control::{length, message};

/// The bytes of a length, in front of each message.
pub const HEAD: usize = base::protocol::operator::message::BYTES;
/// The most bytes of one read: as one record of an encrypted stream has.
const READ: usize = 64 << 10;

/// A stream of bytes with a descriptor.
trait Stream: ByteStream + AsFd + Send {}
impl<T: ByteStream + AsFd + Send> Stream for T {}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The process number that it has proved.
    pub process: [u8; 16],
    /// Its address, as the kernel tells.
    pub from: Option<IpAddr>,
}

impl Asker {
    /// The host that it comes from.
    pub fn host(&self) -> Option<IpAddr> {
        self.from.map(trust::host_of)
    }
}

/// A connection on which both sides have proved themselves.
pub struct ControlStream {
    stream: Box<dyn Stream>,
    asker: Asker,
    /// What has come of a message.
    came: Vec<u8>,
    /// What is to be written, and how much of it was.
    out: Vec<u8>,
    written: usize,
}

/// How much of a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// As much as the limit allows, and there is more.
    Limit,
    /// Less.
    NotYet,
}

impl ControlStream {
    pub(crate) fn new(stream: impl ByteStream + AsFd + Send + 'static, asker: Asker) -> ControlStream {
        ControlStream { stream: Box::new(stream), asker, came: Vec::new(), out: Vec::new(), written: 0 }
    }

    /// Two ends of a connection on which nothing was proved, for tests.
    #[cfg(feature = "testing")]
    pub fn pair() -> io::Result<[ControlStream; 2]> {
        let asker = Asker { process: [0; 16], from: None };
        Ok(crate::ip::Socket::pair()?.map(|socket| ControlStream::new(socket, asker)))
    }

    /// Who is at the other end.
    pub fn asker(&self) -> Asker {
        self.asker
    }

    /// Whether the other side has closed the connection, also if there is still something to be read.
    pub fn is_closed(&self) -> bool {
        // nix has no name for this one, and gives out nothing where it was found.
        let half_closed = PollFlags::from_bits_retain(libc::POLLRDHUP);
        let mut end = [PollFd::new(self.as_fd(), half_closed)];
        let ended = PollFlags::POLLHUP | PollFlags::POLLERR;
        poll(&mut end, PollTimeout::ZERO).is_ok_and(|n| n > 0)
            && end[0].revents().is_none_or(|flags| flags.intersects(ended | half_closed))
    }

    /// Puts a message behind those that are to be written.
    pub fn say(&mut self, body: &[u8]) {
        if self.written == self.out.len() {
            (self.out, self.written) = (message(body), 0);
        } else {
            self.out.extend(message(body));
        }
    }

    /// Puts a message that has its length in front behind those that are to be written, and leaves memory for the next one, with
    /// any content.
    pub fn say_whole(&mut self, message: &mut Vec<u8>) {
        if self.written == self.out.len() {
            std::mem::swap(&mut self.out, message);
            self.written = 0;
        } else {
            self.out.append(message);
        }
    }

    /// Writes as much as there is room for. Returns whether all is written.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.out.len() {
            match self.stream.write_vectored(&[IoSlice::new(&self.out[self.written..])]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => return Err(e),
            }
        }
        match self.stream.flush() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            done => done,
        }
    }

    /// Whether something is still to be written, so that the descriptor is to be polled for that.
    pub fn has_output(&self) -> bool {
        self.written < self.out.len() || self.stream.has_output()
    }

    /// What is awaited: bytes, and room for what is to be written.
    pub fn awaited(&self) -> PollFd<'_> {
        let mut flags = PollFlags::POLLIN;
        flags.set(PollFlags::POLLOUT, self.has_output());
        PollFd::new(self.as_fd(), flags)
    }

    /// The next message, of at most so many bytes, if it is whole. An error if the other side has closed the connection, or says
    /// what it must not.
    pub fn hear(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut body = Vec::new();
        Ok((self.hear_up_to(most, usize::MAX, &mut body)? == Part::Whole).then(|| {
            body.drain(..HEAD);
            body
        }))
    }

    /// Hears the length of the next message, whose bytes [`ControlStream::hear_on`] hears, all of them before anything else is
    /// heard. Errors are those of [`ControlStream::hear`].
    pub fn begin(&mut self, most: usize) -> io::Result<Option<usize>> {
        let length = self.announced(most)?;
        if length.is_some() {
            self.came.clear();
        }
        Ok(length)
    }

    /// Hears what is there of a message that was begun, up to the length of `to`, and returns how much; 0: nothing now.
    pub fn hear_on(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read_vectored(&mut [IoSliceMut::new(to)]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                heard => return heard,
            }
        }
    }

    /// As [`ControlStream::hear`], into memory that is used again, with the length in front; but reads no further than to this
    /// limit, of which the length in front is a part.
    pub fn hear_up_to(&mut self, most: usize, limit: usize, message: &mut Vec<u8>) -> io::Result<Part> {
        let limit = limit.max(HEAD);
        loop {
            let wanted = match self.came.first_chunk::<HEAD>() {
                None => HEAD,
                Some(head) => HEAD + length_of(*head, most)?,
            };
            if self.came.len() >= HEAD && self.came.len() == wanted {
                std::mem::swap(&mut self.came, message);
                self.came.clear();
                return Ok(Part::Whole);
            }
            if self.came.len() >= limit {
                return Ok(Part::Limit);
            }
            if !self.read(wanted.min(limit))? {
                return Ok(Part::NotYet);
            }
        }
    }

    /// The length of the next message, once it is known: nothing behind it was read. Errors are those of [`ControlStream::hear`].
    pub fn announced(&mut self, most: usize) -> io::Result<Option<usize>> {
        loop {
            if let Some(head) = self.came.first_chunk::<HEAD>() {
                return length_of(*head, most).map(Some);
            }
            if !self.read(HEAD)? {
                return Ok(None);
            }
        }
    }

    /// Reads once, towards so many bytes. Returns whether there may be more to read.
    fn read(&mut self, wanted: usize) -> io::Result<bool> {
        let mut came = std::mem::take(&mut self.came);
        let have = came.len();
        came.resize(wanted.min(have + READ), 0);
        let heard = self.hear_on(&mut came[have..]);
        came.truncate(have + *heard.as_ref().unwrap_or(&0));
        self.came = came;
        heard.map(|n| n > 0)
    }
}

fn length_of(head: [u8; HEAD], most: usize) -> io::Result<usize> {
    length(head, most).map_err(|_| ErrorKind::InvalidData.into())
}

/// Sleeps until one of these is ready, for this long at most.
pub fn sleep(awaited: &mut [PollFd<'_>], longest: Duration) {
    // An error, such as a signal, only ends the sleep.
    let _ = poll(awaited, PollTimeout::from(longest.as_millis() as u16));
}

impl AsFd for ControlStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
