//! The bytes of a connection on which both sides have proved the key: as they are, or in records. The client and the server use
//! it; the socket is theirs.
//!
//! Invariant: nothing of a record that was changed on the way is handed on.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use trust::{Broken, Channel, Inbox, Outbox};

/// How bytes travel on one connection.
pub(crate) enum Link {
    /// As they are.
    Plain,
    /// In records.
    Sealed(Box<(Outbox, Inbox)>),
}

impl From<Channel> for Link {
    fn from(channel: Channel) -> Link {
        channel.into_records().map_or(Link::Plain, |both| Link::Sealed(Box::new(both)))
    }
}

impl Link {
    /// These bytes, as they are to be written.
    pub(crate) fn seal(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Link::Sealed(both) = self else { return bytes };
        let outbox = &mut both.0;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[outbox.add(&[IoSlice::new(rest)])..];
        }
        let sealed = outbox.waiting().to_vec();
        outbox.sent(sealed.len());
        sealed
    }

    /// Reads at most once, and returns how many bytes are in `room` then: 0 at the end of the connection, `None` if only a part
    /// of a record has come.
    pub(crate) fn read(&mut self, from: &mut impl Read, room: &mut [u8]) -> io::Result<Option<usize>> {
        let Link::Sealed(both) = self else { return from.read(room).map(Some) };
        let inbox = &mut both.1;
        let taken = inbox.take(&mut [IoSliceMut::new(room)]).map_err(changed)?;
        if taken > 0 {
            return Ok(Some(taken));
        }
        match from.read(inbox.space().map_err(changed)?)? {
            0 => return Ok(Some(0)),
            n => inbox.filled(n),
        }
        let taken = inbox.take(&mut [IoSliceMut::new(room)]).map_err(changed)?;
        Ok((taken > 0).then_some(taken))
    }

    /// Whether bytes wait that have been read already.
    pub(crate) fn has_content(&self) -> bool {
        matches!(self, Link::Sealed(both) if both.1.has_content())
    }
}

fn changed(Broken: Broken) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "what it said was changed on the way")
}
