//! The stream of bytes under a lane: the connection of the handshake, over which the queue pair is set up, and then the queue
//! pair's messages.
//!
//! Used by the lane alone. Invariants: once the queue pair stands, nothing comes over the connection but its end, which is
//! the other side's; what came before that end is read first.

use super::Socket;
use super::messages::Messages;
use super::setup::Setup;
use crate::stream::ByteStream;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

/// After this number of reads that found nothing, the connection is looked at too. Most looks are no reads: [`Ring::is_quiet`].
const READS: u32 = 8;
/// After this number of those, what the descriptor tells of is looked at anew.
const AFRESH: u32 = 8;

pub(super) struct Ring {
    /// Ended before the connection, whose end tells the other side that nothing more comes.
    stage: Stage,
    socket: Socket,
    /// Reads since something was found.
    reads: u32,
    /// Looks at the connection.
    ends: u32,
    /// The set of descriptors has changed.
    pub(super) changed: bool,
}

enum Stage {
    SettingUp(Setup),
    Up(Box<Messages>),
}

impl Ring {
    pub(super) fn new(socket: Socket, setup: Setup) -> Ring {
        Ring { stage: Stage::SettingUp(setup), socket, reads: 0, ends: 0, changed: false }
    }

    /// The queue pair, if it stands.
    pub(super) fn wire(&mut self) -> Option<&mut Messages> {
        match &mut self.stage {
            Stage::Up(wire) => Some(wire),
            Stage::SettingUp(_) => None,
        }
    }

    pub(super) fn wire_ref(&self) -> Option<&Messages> {
        match &self.stage {
            Stage::Up(wire) => Some(wire),
            Stage::SettingUp(_) => None,
        }
    }

    /// Looks whether nothing has come and nothing is to be done, which is known without a read.
    #[inline]
    pub(super) fn is_quiet(&mut self) -> bool {
        self.wire().is_some_and(Messages::is_quiet)
    }

    /// The queue pair, set up as far as can be. `WouldBlock` if it does not stand yet.
    fn up(&mut self) -> io::Result<&mut Messages> {
        if let Stage::SettingUp(setup) = &mut self.stage {
            let mut wire = Box::new(setup.step(&mut self.socket)?);
            wire.greet();
            // Frames may wait for it.
            wire.stuck = true;
            self.stage = Stage::Up(wire);
            self.changed = true;
        }
        self.wire().ok_or(ErrorKind::WouldBlock.into())
    }

    /// What the connection says now that nothing is left to be read: 0 is its end.
    fn end(&mut self) -> io::Result<usize> {
        let look = self.socket.stream().look();
        let Stage::Up(wire) = &mut self.stage else { return Err(ErrorKind::WouldBlock.into()) };
        match look {
            // It may have sent something just before.
            Ok(0) => {
                wire.pump();
                if wire.has_messages() { Err(ErrorKind::WouldBlock.into()) } else { Ok(0) }
            }
            Ok(_) => Err(ErrorKind::InvalidData.into()),
            Err(_) if wire.failed() => Err(wire.take_failure()),
            Err(e) if e.kind() == ErrorKind::Interrupted => Err(ErrorKind::WouldBlock.into()),
            Err(e) => {
                self.ends += 1;
                if self.ends.is_multiple_of(AFRESH) {
                    wire.silence();
                }
                Err(e)
            }
        }
    }
}

impl ByteStream for Ring {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        // Set up only when it is read: then its descriptor is watched, and the queue pair's completions are told of.
        let wire = self.wire().ok_or(ErrorKind::WouldBlock)?;
        match wire.send(bufs) {
            // A failure shows when all that has come is read.
            0 => Err(ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wire = self.up()?;
        if !wire.has_messages() {
            wire.pump();
        }
        let n = if wire.has_bytes() { wire.receive(bufs) } else { 0 };
        if n > 0 {
            self.reads = 0;
            return Ok(n);
        }
        if wire.has_messages() {
            // A MSG of its own is next, which the lane delivers first.
            return Err(ErrorKind::WouldBlock.into());
        }
        let is_due = wire.failed() || self.reads >= READS;
        self.reads = if is_due { 0 } else { self.reads + 1 };
        if is_due { self.end() } else { Err(ErrorKind::WouldBlock.into()) }
    }

    fn has_input(&self) -> bool {
        self.wire_ref().is_some_and(Messages::has_bytes)
    }

    fn cut(&mut self) {
        self.socket.cut();
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.stream().as_fd()
    }
}
