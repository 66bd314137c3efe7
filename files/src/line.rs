//! A connection that carries files: messages are said and heard, and whoever waits sleeps.
//!
//! Invariants: no wait is longer than the patience with a silent other side, and no message is said or heard once the owner
//! wants to end, also where none has to be waited for.

use crate::buffer::Buffer;
use crate::error::{Error, Kind};
use crate::message::{Answer, Ask};
use base::protocol::files::MAX_MESSAGE;
use nix::poll::{PollFd, PollFlags};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use transports::control::{ControlStream, sleep};

/// The longest sleep before one looks whether the owner wants to end.
const SLICE: Duration = Duration::from_millis(50);

/// How many there are in this process.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How many connections of this process carry files.
pub fn connections() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// A connection.
pub(crate) struct Line<'a> {
    stream: ControlStream,
    /// Whether the owner wants to end.
    is_over: &'a dyn Fn() -> bool,
    patience: Duration,
    /// What is heard, or was last; its length until all of it is here, and how much is.
    heard: Buffer,
    length: Option<usize>,
    have: usize,
}

impl<'a> Line<'a> {
    pub(crate) fn new(stream: ControlStream, is_over: &'a dyn Fn() -> bool, patience: Duration) -> Line<'a> {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Line { stream, is_over, patience, heard: Buffer::default(), length: None, have: 0 }
    }

    /// From now on the other side may be silent for so long.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<(), Error> {
        self.say(&ask.encode())
    }

    pub(crate) fn answer(&mut self, answer: &Answer) -> Result<(), Error> {
        self.say(&answer.encode())
    }

    pub(crate) fn say(&mut self, body: &[u8]) -> Result<(), Error> {
        self.stream.say(body);
        self.flush()
    }

    /// Says a message that has its length in front, and leaves memory for the next one, with any content.
    pub(crate) fn say_whole(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        self.stream.say_whole(message);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.go_on()?;
        let until = Instant::now() + self.patience;
        while !self.stream.flush().map_err(|e| Error::broken(&e))? {
            // Only for room: what has come meanwhile is heard later.
            self.rest(PollFlags::POLLOUT, until)?;
        }
        Ok(())
    }

    /// An error if the owner wants to end.
    fn go_on(&self) -> Result<(), Error> {
        if (self.is_over)() { Err(Error::broken(&io::ErrorKind::Interrupted.into())) } else { Ok(()) }
    }

    fn rest(&self, flags: PollFlags, until: Instant) -> Result<(), Error> {
        self.go_on()?;
        if Instant::now() >= until {
            return Err(Error::broken(&io::ErrorKind::TimedOut.into()));
        }
        sleep(&mut [PollFd::new(self.stream.as_fd(), flags)], SLICE);
        Ok(())
    }

    /// Hears what is there. Returns whether it is whole: then it is [`Line::body`].
    pub(crate) fn hear_some(&mut self) -> Result<bool, Error> {
        let broken = |e: io::Error| Error::broken(&e);
        loop {
            let Some(length) = self.length else {
                self.length = self.stream.begin(MAX_MESSAGE).map_err(broken)?;
                self.have = 0;
                if self.length.is_none() {
                    return Ok(false);
                }
                continue;
            };
            if self.have == length {
                self.length = None;
                return Ok(true);
            }
            match self.stream.hear_on(self.heard.room(self.have, length)).map_err(broken)? {
                0 => return Ok(false),
                n => self.have += n,
            }
        }
    }

    /// What was heard last.
    pub(crate) fn body(&self) -> &[u8] {
        self.heard.body(self.have)
    }

    /// The memory of what was heard last, and its length. Other memory takes its place.
    pub(crate) fn take(&mut self, other: Buffer) -> (Buffer, usize) {
        (std::mem::replace(&mut self.heard, other), std::mem::take(&mut self.have))
    }

    /// What the other side has said, if it is whole.
    pub(crate) fn heard(&mut self) -> Result<Option<&[u8]>, Error> {
        Ok(self.hear_some()?.then(|| self.body()))
    }

    /// What the other side says.
    pub(crate) fn hear(&mut self) -> Result<&[u8], Error> {
        // Whoever waits for a disk between messages finds the next one there, and rests for none.
        self.go_on()?;
        let until = Instant::now() + self.patience;
        while !self.hear_some()? {
            self.rest(PollFlags::POLLIN, until)?;
        }
        Ok(self.body())
    }

    /// The answer to what was asked. An error if it is a failure.
    pub(crate) fn hear_answer(&mut self) -> Result<Answer, Error> {
        let answer = Answer::decode(self.hear()?).map_err(|_| Error::unexpected())?;
        answer.good()
    }

    /// Hears that it is done.
    pub(crate) fn hear_done(&mut self) -> Result<(), Error> {
        match self.hear_answer()? {
            Answer::Done => Ok(()),
            _ => Err(Error::unexpected()),
        }
    }

    /// Says why this side ends. Whoever has ended meanwhile need not know.
    pub(crate) fn say_why(&mut self, e: &Error) {
        if !matches!(e.kind, Kind::Broken) {
            let _ = self.answer(&Answer::Failed(e.kind, e.text.clone()));
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A disk that is slower than the network: each message is there before it is waited for.
    #[test]
    fn whoever_wants_to_end_hears_and_says_no_more_though_all_is_there() {
        let [mut there, here] = ControlStream::pair().unwrap();
        (0..3).for_each(|_| there.say(b"chunk"));
        assert!(there.flush().unwrap());
        let over = Cell::new(false);
        let is_over = || over.get();
        let mut line = Line::new(here, &is_over, Duration::from_secs(10));
        assert_eq!(line.hear().unwrap(), b"chunk");
        over.set(true);
        assert_eq!(line.hear().unwrap_err().kind, Kind::Broken);
        assert_eq!(line.say(b"chunk").unwrap_err().kind, Kind::Broken);
        over.set(false);
        assert_eq!(line.hear().unwrap(), b"chunk", "nothing is lost");
    }
}
