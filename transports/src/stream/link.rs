//! A byte stream that is trusted: plain, or as encrypted records.
//!
//! Used by lanes over TCP, and by the handshakes before them. Invariant: whoever watches the descriptor is told of all that is
//! still to be read, but for content that [`ByteStream::has_input`] tells of. During a handshake there is no such content: no
//! more is read than belongs to one record.

use super::ByteStream;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use trust::{Channel, Inbox, Outbox};
use wire::lane::InKernel;

/// A stream, and its records if it is encrypted.
pub struct Link<S> {
    stream: S,
    records: Option<Box<(Outbox, Inbox)>>,
}

impl<S: ByteStream> Link<S> {
    /// A stream that is not encrypted, or not yet.
    pub(crate) fn plain(stream: S) -> Link<S> {
        Link { stream, records: None }
    }

    /// The stream itself.
    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream itself, for the handshake that comes before [`Link::protect`].
    pub(crate) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream alone. `None` if something was read that nobody has taken, or is not written yet.
    pub(crate) fn into_stream(self) -> Option<S> {
        let is_empty = self.records.is_none_or(|records| records.0.waiting().is_empty() && !records.1.has_content());
        is_empty.then_some(self.stream)
    }

    /// Whether it consists of records.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.records.is_some()
    }

    /// From here on, what is written and read is protected as both sides have agreed.
    pub(crate) fn protect(&mut self, channel: Channel) {
        self.records = channel.into_records().map(Box::new);
    }
}

impl<S: AsFd> AsFd for Link<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Writes the records that wait. Returns whether none is left.
fn push(stream: &mut impl ByteStream, outbox: &mut Outbox) -> io::Result<bool> {
    while !outbox.waiting().is_empty() {
        match stream.write_vectored(&[IoSlice::new(outbox.waiting())]) {
            Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
            Ok(n) => outbox.sent(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

impl<S: ByteStream> ByteStream for Link<S> {
    /// Of an encrypted stream: takes one record's worth, and keeps what the stream does not take of it.
    #[inline]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(records) = &mut self.records else { return self.stream.write_vectored(bufs) };
        let (outbox, _) = &mut **records;
        if !push(&mut self.stream, outbox)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = outbox.add(bufs);
        push(&mut self.stream, outbox)?;
        Ok(n)
    }

    #[inline]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(records) = &mut self.records else { return self.stream.read_vectored(bufs) };
        let (_, inbox) = &mut **records;
        let broken = |_| io::Error::from(ErrorKind::InvalidData);
        loop {
            let taken = inbox.take(bufs).map_err(broken)?;
            if taken > 0 {
                return Ok(taken);
            }
            let space = inbox.space().map_err(broken)?;
            if space.is_empty() {
                // Nothing can be taken because there is no room for it.
                return Ok(0);
            }
            match self.stream.read_vectored(&mut [IoSliceMut::new(space)])? {
                0 => return Ok(0),
                n => inbox.filled(n),
            }
        }
    }

    fn read_ahead(&mut self) {
        if let Some(records) = &mut self.records {
            records.1.read_ahead();
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        if let Some(records) = &mut self.records
            && !push(&mut self.stream, &mut records.0)?
        {
            return Ok(false);
        }
        self.stream.flush()
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.records.as_ref().is_some_and(|records| !records.0.waiting().is_empty()) || self.stream.has_output()
    }

    #[inline]
    fn has_input(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.1.has_content()) || self.stream.has_input()
    }

    fn cut(&mut self) {
        self.stream.cut();
    }

    fn in_kernel(&self) -> Option<InKernel> {
        self.stream.in_kernel()
    }

    fn round_trip(&self) -> Option<Duration> {
        self.stream.round_trip()
    }

    fn descriptors(&self) -> usize {
        self.stream.descriptors()
    }
}
