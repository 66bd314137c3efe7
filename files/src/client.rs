//! The connections to a process that serves files: made, and made anew when they break.
//!
//! Invariant: whoever waits for the other side goes on for as long as it lives and something moves now and then.

use crate::error::{Error, Kind};
use crate::line::Line;
use base::ident::random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use transports::control::{ControlStream, sleep};
use transports::registry::{Heard, Unheard, command};
use trust::Trust;
use wire::Contact;
use wire::control::{Addressee, Answer, Command, Request};

/// How long a connection may be silent before another one is tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to be made.
const TO_DIAL: Duration = Duration::from_secs(10);
/// The rest before the next one: doubled each time, up to the longest.
const REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// A process that nobody listens for any more, for so long, is dead.
const REFUSED: Duration = Duration::from_secs(5);
/// How often the same chunk may come damaged.
const MOST_DAMAGED: usize = 3;
/// The longest sleep before one looks whether the owner wants to end.
const SLICE: Duration = Duration::from_millis(50);

/// How a process that serves is reached.
pub trait Way: Sync {
    /// The name of its job.
    fn job(&self) -> &str;
    /// Its contact record, which may change. `None`: it is dead, or has finalized.
    fn contact(&self) -> Option<Contact>;
    /// As whom it is addressed.
    fn addressee(&self) -> Addressee;
    /// What this side trusts and proves.
    fn trust(&self) -> Arc<Trust>;
    /// The number of this host.
    fn host(&self) -> [u8; 16];
    /// Whether it may live though nobody listens for it at this moment.
    fn may_be_away(&self) -> bool {
        false
    }
    /// Whether this side may have connections now.
    fn is_held(&self) -> bool {
        false
    }
    /// Whether this side wants to end.
    fn is_over(&self) -> bool {
        false
    }
}

/// Moves files from and to one process.
pub struct Client<'a> {
    way: &'a dyn Way,
    /// How long nothing may move.
    limit: Duration,
    /// Bytes that have moved, and when some did last, or one began to try: milliseconds since the beginning.
    moved: &'a AtomicU64,
    last: AtomicU64,
    began: Instant,
    /// The connections that broke.
    broken: AtomicU64,
}

impl<'a> Client<'a> {
    /// Nothing moves for `limit` at most; `moved` counts bytes.
    pub fn new(way: &'a dyn Way, limit: Duration, moved: &'a AtomicU64) -> Client<'a> {
        Client { way, limit, moved, last: AtomicU64::new(0), began: Instant::now(), broken: AtomicU64::new(0) }
    }

    /// How many connections broke.
    pub fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    /// So many more bytes have moved.
    pub(crate) fn note(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.last.store(self.elapsed(), Ordering::Relaxed);
    }

    /// The milliseconds since the beginning.
    fn elapsed(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Has `step` go on over a connection, and over another one when it breaks.
    pub(crate) fn keep_trying<T>(&self, mut step: impl FnMut(&mut Line<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.last.store(self.elapsed(), Ordering::Relaxed);
        let mut moved = self.moved.load(Ordering::Relaxed);
        let (mut rest, mut damaged, mut refused) = (REST, 0, None);
        let is_over = || self.way.is_over() || self.way.is_held();
        loop {
            let line = self.dial(&is_over, &mut refused);
            let was_made = line.is_ok();
            let e = match line.and_then(|mut line| step(&mut line)) {
                Err(e) if e.kind.may_pass() => e,
                done => return done,
            };
            let now = self.moved.load(Ordering::Relaxed);
            if now != moved {
                (moved, rest, damaged) = (now, REST, 0);
            }
            if was_made && e.kind != Kind::Busy && !self.way.is_over() {
                self.broken.fetch_add(1, Ordering::Relaxed);
                base::log!(Info, "a file of '{}': {e}; another connection is made", self.way.job());
            }
            if e.kind == Kind::Damaged {
                damaged += 1;
                if damaged == MOST_DAMAGED {
                    return Err(e);
                }
            }
            self.go_on()?;
            let is_dead = refused.is_some_and(|since: Instant| since.elapsed() >= REFUSED) && !self.way.may_be_away();
            if self.way.contact().is_none() || is_dead {
                return Err(self.gone());
            }
            let still = Duration::from_millis(self.elapsed() - self.last.load(Ordering::Relaxed));
            if still >= self.limit && !self.way.is_held() {
                let text = format!("nothing has moved for {} s: {e}", still.as_secs());
                return Err(Error::there(Kind::TimedOut, text));
            }
            self.rest(rest);
            rest = (2 * rest).min(LONGEST_REST);
        }
    }

    /// An error if this side wants to end: what is whole is not to have its name then.
    pub fn go_on(&self) -> Result<(), Error> {
        if self.way.is_over() { Err(Error::here(Kind::Broken, "this process ends")) } else { Ok(()) }
    }

    fn rest(&self, rest: Duration) {
        let until = Instant::now() + rest;
        while !self.way.is_over() {
            match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO if !self.way.is_held() => return,
                Duration::ZERO => std::thread::sleep(SLICE),
                left => std::thread::sleep(left.min(SLICE)),
            }
        }
    }

    fn gone(&self) -> Error {
        let text = format!("the process of '{}' that serves files has ended", self.way.job());
        Error::there(Kind::Gone, text)
    }

    /// A connection. `refused`: since when nobody listens.
    fn dial<'b>(&self, is_over: &'b dyn Fn() -> bool, refused: &mut Option<Instant>) -> Result<Line<'b>, Error> {
        let contact = self.way.contact().ok_or_else(|| self.gone())?;
        let (until, job) = (Instant::now() + TO_DIAL.min(self.limit), self.way.job());
        let mut dial = command(&contact, self.way.host(), &self.way.trust());
        let stream = loop {
            if is_over() || Instant::now() >= until {
                return Err(Error::there(Kind::Broken, format!("'{job}' does not answer")));
            }
            match dial.step() {
                Heard::Proved(stream) => break stream,
                Heard::NotYet => dial.awaited().into_iter().for_each(|awaited| sleep(&mut [awaited], SLICE)),
                Heard::Unheard(why) if why.is_dead() => {
                    refused.get_or_insert_with(Instant::now);
                    return Err(Error::there(Kind::Broken, format!("'{job}': {why}")));
                }
                Heard::Unheard(why @ Unheard::Unreachable(_)) => {
                    *refused = None;
                    return Err(Error::there(Kind::Broken, format!("'{job}': {why}")));
                }
                Heard::Unheard(why) => return Err(Error::there(Kind::Refused, format!("'{job}': {why}"))),
            }
        };
        *refused = None;
        self.begin(stream, is_over)
    }

    /// Asks for files over a connection that was proved.
    fn begin<'b>(&self, stream: ControlStream, is_over: &'b dyn Fn() -> bool) -> Result<Line<'b>, Error> {
        let (limit, job) = (TO_DIAL.min(self.limit), self.way.job());
        let request = Request {
            id: random(),
            serial: 0,
            limit: limit.as_millis() as u32,
            to: self.way.addressee(),
            command: Command::Files,
            members: Vec::new(),
        };
        let mut line = Line::new(stream, is_over, limit);
        line.say(&request.encode())?;
        match Answer::decode(line.hear()?) {
            Ok(Answer::Outcomes { .. }) => {
                line.set_patience(PATIENCE.min(self.limit));
                Ok(line)
            }
            Ok(Answer::NoSuchJob) => Err(self.gone()),
            Ok(Answer::Busy) => Err(Error::there(Kind::Busy, format!("'{job}' is busy"))),
            Ok(Answer::Malformed) | Err(_) => Err(Error::there(
                Kind::Refused,
                format!("'{job}' is of another release, which has no files for others"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Anyone;

    impl Way for Anyone {
        fn job(&self) -> &str {
            "air"
        }

        fn contact(&self) -> Option<Contact> {
            None
        }

        fn addressee(&self) -> Addressee {
            Addressee::Named("air".into())
        }

        fn trust(&self) -> Arc<Trust> {
            unreachable!("the connection was proved")
        }

        fn host(&self) -> [u8; 16] {
            [0; 16]
        }
    }

    /// As one that is stopped at that moment.
    #[test]
    fn who_proves_itself_and_then_is_silent_is_waited_for_no_longer_than_the_limit() {
        let [_silent, here] = ControlStream::pair().unwrap();
        let (moved, limit) = (AtomicU64::new(0), Duration::from_millis(50));
        let client = Client::new(&Anyone, limit, &moved);
        let begun = Instant::now();
        let is_over = || false;
        let failed = client.begin(here, &is_over).err().expect("nothing was answered");
        assert!(failed.kind.may_pass());
        assert!(begun.elapsed() < TO_DIAL / 2, "{:?}", begun.elapsed());
    }
}
