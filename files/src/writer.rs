//! Writes chunks to a part of a file, in a thread of its own: the disk works while the next ones come.
//!
//! Invariants: chunks are written in the order in which they came; there are never more of them than [`UNDER_WAY`]; when a writer
//! is dropped, what it was given is written, or has failed.

use crate::buffer::Buffer;
use crate::error::{Error, Kind};
use crate::line::Line;
use crate::part::Part;
use base::protocol::files::chunk;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Chunks that are written or wait for that: while one is written the next one is there.
const UNDER_WAY: usize = 2;

/// The message of a chunk.
struct Given {
    index: u64,
    buffer: Buffer,
    length: usize,
}

/// What was written, or why it was not, and the memory.
struct Wrote {
    buffer: Buffer,
    done: std::io::Result<u64>,
}

/// The thread, as its owner has it.
pub(crate) struct Writer {
    /// `None`: it ends.
    to: Option<SyncSender<Given>>,
    from: Receiver<Wrote>,
    under_way: usize,
    spare: Vec<Buffer>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Begins the thread.
    pub(crate) fn begin(part: Arc<Part>) -> Result<Writer, Error> {
        let (to, given) = sync_channel::<Given>(UNDER_WAY);
        let (wrote, from) = sync_channel(UNDER_WAY);
        let run = move || {
            while let Ok(Given { index, buffer, length }) = given.recv() {
                let done = part.write(index, &buffer.body(length)[chunk::BYTES..]).map(|()| index);
                if wrote.send(Wrote { buffer, done }).is_err() {
                    break;
                }
            }
        };
        let thread = base::thread::begin(Builder::new().name("mpi_connect fw".into()), run);
        let thread = thread.map_err(|e| Error::of(&e, "no thread to write a file"))?;
        Ok(Writer { to: Some(to), from, under_way: 0, spare: Vec::new(), thread: Some(thread) })
    }

    /// Whether [`Writer::wait`] has to come before [`Writer::write`].
    pub(crate) fn is_full(&self) -> bool {
        self.under_way == UNDER_WAY
    }

    /// Has the chunk written that was heard last, which is this one.
    pub(crate) fn write(&mut self, index: u64, line: &mut Line<'_>) -> Result<(), Error> {
        let (buffer, length) = line.take(self.spare.pop().unwrap_or_default());
        let given = self.to.as_ref().is_some_and(|to| to.send(Given { index, buffer, length }).is_ok());
        self.under_way += 1;
        if given { Ok(()) } else { Err(ended()) }
    }

    /// The next chunk that is written, if it is already.
    pub(crate) fn written(&mut self) -> Result<Option<u64>, Error> {
        match self.from.try_recv() {
            Ok(wrote) => self.take(wrote).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ended()),
        }
    }

    /// The next chunk that is written. Waits for the disk. `None`: none is under way.
    pub(crate) fn wait(&mut self) -> Result<Option<u64>, Error> {
        if self.under_way == 0 {
            return Ok(None);
        }
        let wrote = self.from.recv().map_err(|_| ended())?;
        self.take(wrote).map(Some)
    }

    fn take(&mut self, wrote: Wrote) -> Result<u64, Error> {
        self.under_way -= 1;
        self.spare.push(wrote.buffer);
        wrote.done.map_err(|e| Error::of(&e, "the file cannot be written"))
    }
}

fn ended() -> Error {
    Error::here(Kind::Io, "the thread that writes the file has ended")
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported.
            let _ = thread.join();
        }
    }
}
