//! A connected queue pair: messages under credits, each in one slot, and the reads and writes of the other side's memory.
//!
//! Used by [`super::ring`] and the lane. [`outgoing`] sends, [`incoming`] takes what has come and hands it out, [`msgs`] does both for MSG frames, and [`telling`] has the
//! descriptor tell of what comes next. Invariants: no more messages are under way than the other side has given credit for,
//! and of messages without credit no more than [`RESERVE`](super::RESERVE); a slot is given back when its bytes are consumed; what the other side
//! says is checked before it is believed. A message is copied once on each side.

mod incoming;
mod msgs;
mod outgoing;
mod telling;

use super::bodies::{Bodies, Numbers};
use super::device::QueuePair;
use super::lend::Lending;
use super::link::Link;
use super::pool::{Pool, Slot};
use super::reads::Reads;
use super::room::Room;
use super::words::Words;
use super::writes::Writes;
use super::{CREDITS, INLINE};
use base::protocol::rdma::{GIVE_BACK, WORDS};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// How long a wire that ends waits for what it has sent to arrive.
const LINGER: Duration = Duration::from_millis(50);

/// A message that came, and is not consumed.
struct Held {
    slot: Slot,
    at: usize,
    end: usize,
    /// It is a MSG of its own, with these numbers; otherwise bytes of the stream.
    msg: Option<Numbers>,
}

/// What the descriptor tells of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing: the queues were never armed, or what told of something was silenced.
    Nothing,
    /// All that comes: the queues are armed, and nothing was found since.
    All,
    /// All that comes: something was found since the queues were armed, and it is perhaps still told of.
    Some,
}

pub(super) struct Messages {
    link: Link,
    /// What the other side reads of our memory.
    lending: Lending,
    /// What we read of its memory.
    reads: Reads,
    /// What we write to its memory, where neither reads.
    writes: Writes,
    /// What it writes to ours.
    room: Room,
    /// Slots of `sends` that are free.
    free: Vec<u16>,
    /// The bytes of sends under way, the oldest first.
    under_way: VecDeque<u32>,
    /// Messages that the other side has room for, and how many it ever had room for at a time.
    credit: u16,
    most_credit: u16,
    /// The words of short messages that were sent, and of those that came.
    words_out: Words<WORDS>,
    words_in: Words<WORDS>,
    /// The MSGs that went as messages of their own, and those that came.
    sent: Bodies,
    heard: Bodies,
    /// Where short messages are put together.
    short: Box<[u8; INLINE as usize]>,
    inbox: VecDeque<Held>,
    /// Slots whose bytes are consumed, and that are not posted again yet.
    spent: Vec<Slot>,
    /// Messages whose slots are posted again, or were never kept, and that were not given back.
    owed: u16,
    /// READ_THIS that were read, and whose READ_DONE is not sent.
    read: Vec<u32>,
    /// What the descriptor tells of.
    told: Told,
    /// Looks that found nothing since something was seen.
    idle: u32,
    /// Looks since all completions were taken.
    looks: u32,
    /// The queue of sends is armed.
    sends_armed: bool,
    /// Something has come over it.
    pub proved: bool,
    /// Why nothing more is sent or received.
    failure: Option<io::Error>,
    /// A send found no room.
    pub stuck: bool,
}

impl Messages {
    /// Over a pair that is connected. The other side has given this credit, and answers this number of reads; `writes`: it takes writes.
    pub(super) fn new(link: Link, credit: u16, reads: u8, writes: bool) -> Messages {
        Messages {
            lending: Lending::default(),
            reads: Reads::new(reads),
            writes: Writes::new(writes && reads == 0),
            room: Room::default(),
            free: (0..CREDITS).collect(),
            under_way: VecDeque::new(),
            credit,
            most_credit: credit,
            words_out: Words::default(),
            words_in: Words::default(),
            sent: Bodies::default(),
            heard: Bodies::default(),
            short: Box::new([0; INLINE as usize]),
            inbox: VecDeque::new(),
            spent: Vec::new(),
            owed: 0,
            read: Vec::new(),
            told: Told::Nothing,
            idle: 0,
            looks: 0,
            sends_armed: false,
            proved: false,
            failure: None,
            stuck: false,
            link,
        }
    }

    /// Shows the other side, whose queue pair stands, that packets get through.
    pub(super) fn greet(&mut self) {
        self.say(GIVE_BACK, 0, &[]);
    }

    pub(super) fn pair(&self) -> &QueuePair {
        &self.link.pair
    }

    fn pool(&self) -> &Pool {
        self.link.pool()
    }

    /// Whether it has failed, or the other side has broken the protocol.
    pub(super) fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why it has failed: said once.
    pub(super) fn take_failure(&mut self) -> io::Error {
        let again = io::Error::other("the queue pair has failed");
        self.failure.replace(again).unwrap_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn fail(&mut self, why: io::Error) {
        if self.failure.is_none() {
            self.link.pair.fail();
            self.link.broken = true;
            self.failure = Some(why);
        }
    }

    /// The bytes of messages that the other side's device has not acknowledged, and of bulk that it has not got.
    pub(super) fn bytes_under_way(&self) -> u64 {
        self.under_way.iter().map(|n| u64::from(*n)).sum::<u64>() + self.lending.bytes() + self.writes.bytes()
    }
}

/// Waits a moment for what was sent to arrive: ended, the queue pair sends nothing more. Then the slots that it holds are posted again.
impl Drop for Messages {
    fn drop(&mut self) {
        let start = Instant::now();
        while self.failure.is_none() && !self.under_way.is_empty() && start.elapsed() < LINGER {
            self.pump();
            std::thread::yield_now();
        }
        self.pump();
        let held = std::mem::take(&mut self.inbox).into_iter().map(|held| held.slot);
        for slot in held.chain(std::mem::take(&mut self.spent)) {
            self.repost(slot);
        }
    }
}
