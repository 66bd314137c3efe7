//! A connected queue pair: messages under credits, each in one slot, and the reads and writes of the other side's memory.
//!
//! Used by [`super::ring`] and the lane. Invariants: no more messages are under way than the other side has given credit for,
//! and of messages without credit no more than [`RESERVE`](super::RESERVE); a slot is given back when its bytes are consumed; what the other side
//! says is checked before it is believed. A message is copied once on each side.

use super::device::{AT_ONCE, Completions, Device, QueuePair, Which};
use super::lend::Lending;
use super::link::Link;
use super::pool::Pool;
use super::reads::Reads;
use super::room::Room;
use super::writes::Writes;
use super::{CREDITS, INLINE, WORK};
use base::bytes::{Malformed, Put, Take};
use base::protocol::rdma::{BYTES, GIVE_BACK, MAKE_ROOM, READ_DONE, READ_THIS, ROOM, SLOT, WRITTEN, message, written};
use base::rdma::{Done, READ, WRITE, Work};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::frame::Header;

/// The content of a message at most.
const CONTENT: usize = SLOT - message::BYTES;
/// Numbers of sends that have no slot begin here.
const NO_SLOT: u64 = 1 << 32;
/// How long a wire that ends waits for what it has sent to arrive.
const LINGER: Duration = Duration::from_millis(50);
/// Looks that find nothing before the queues are armed again.
const PATIENCE: u32 = 256;
/// The same while nothing was found since they were armed: then the descriptor tells of what was found when they were.
const FALSE_ALARMS: u32 = 4096;
/// Looks of which one also takes the completions of sends.
const SENDS_EACH: u32 = 16;

/// A message that came, and is not consumed.
struct Held {
    slot: u32,
    at: usize,
    end: usize,
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
    /// Messages that were consumed and not given back.
    owed: u16,
    inbox: VecDeque<Held>,
    /// Where messages are put together that are sent inline.
    short: Box<[u8; INLINE as usize]>,
    /// READ_THIS that were read, and whose READ_DONE is not sent.
    read: Vec<u32>,
    /// What the descriptor tells of.
    told: Told,
    /// Looks that found nothing since something was seen.
    idle: u32,
    /// Looks in all.
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
            owed: 0,
            inbox: VecDeque::new(),
            short: Box::new([0; INLINE as usize]),
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

    fn device(&self) -> &Arc<Device> {
        &self.link.pair.device
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

    pub(super) fn fail(&mut self, why: io::Error) {
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

    // ---- out

    /// Whether so many more pieces of work can be posted.
    fn has_work_room(&self, more: usize) -> bool {
        self.under_way.len() + self.reads.under_way() + self.writes.under_way() + more <= WORK as usize
    }

    /// Whether a message can be sent now.
    pub(super) fn can_send(&self) -> bool {
        self.credit > 0 && self.has_work_room(1) && !self.free.is_empty() && self.failure.is_none()
    }

    /// Sends bytes of the stream: how many. 0 if there is no room.
    pub(super) fn send(&mut self, bufs: &[IoSlice<'_>]) -> usize {
        let (mut sent, mut buf, mut at) = (0, 0, 0);
        loop {
            while bufs.get(buf).is_some_and(|b| at == b.len()) {
                (buf, at) = (buf + 1, 0);
            }
            if buf == bufs.len() {
                break;
            }
            if !self.can_send() {
                self.pump();
                if !self.can_send() {
                    self.stuck = true;
                    break;
                }
            }
            let mut content = [&[][..]; 8];
            let mut n = 0;
            for to in &mut content {
                let Some(from) = bufs.get(buf) else { break };
                *to = &from[at..from.len().min(at + CONTENT - n)];
                (at, n) = (at + to.len(), n + to.len());
                if at < from.len() {
                    break;
                }
                (buf, at) = (buf + 1, 0);
            }
            self.post(BYTES, 0, &content, n);
            self.credit -= 1;
            sent += n;
        }
        sent
    }

    /// Sends another message, of less than a slot. Returns whether there was room.
    pub(super) fn say(&mut self, kind: u8, number: u32, content: &[u8]) -> bool {
        let is_free = kind == GIVE_BACK;
        if !self.has_work_room(1) || !is_free && !self.can_send() || self.failure.is_some() {
            return false;
        }
        self.post(kind, number, &[content], content.len());
        self.credit -= u16::from(!is_free);
        true
    }

    // ---- bulk from where it lies

    /// Whether large bulk goes from where it lies: the other side reads it, or we write it. For the latter it may have to make room
    /// first.
    pub(super) fn lends(&mut self) -> bool {
        if self.writes.is_unasked() && self.can_send() && self.say(MAKE_ROOM, 0, &[]) {
            self.writes.set_asked();
        }
        self.reads.is_possible() || self.writes.is_possible()
    }

    /// Whether one more frame can go so now.
    pub(super) fn can_lend(&self) -> bool {
        match self.reads.is_possible() {
            true => self.lending.has_room() && self.can_send(),
            false => self.writes.has_room() && self.failure.is_none(),
        }
    }

    /// Whether what was refused may be taken now.
    pub(super) fn has_room(&self) -> bool {
        let is_read = self.reads.is_possible();
        let is_sent = !is_read && (self.writes.is_unasked() || !self.writes.is_possible());
        if is_sent { self.can_send() } else { self.can_lend() }
    }

    /// Has a frame go so. Returns whether there was room.
    pub(super) fn lend(&mut self, header: &Header, pieces: &[IoSlice<'_>]) -> io::Result<bool> {
        if !self.reads.is_possible() {
            self.writes.add(&self.link.pair.device, header, pieces)?;
            self.write_more();
            return Ok(true);
        }
        let (number, content) = self.lending.lend(&self.link.pair.device, header, pieces)?;
        let said = self.say(READ_THIS, number, &content);
        if !said {
            self.lending.take_back();
        }
        Ok(said)
    }

    /// Whether the other side has still to get something so.
    pub(super) fn is_lending(&self) -> bool {
        !self.lending.is_empty() || !self.writes.is_empty()
    }

    /// Writes to the other side's room, as far as there is some, and tells of it.
    fn write_more(&mut self) {
        while self.writes.has_next() && self.can_send() && self.has_work_room(2) {
            let Some((work, written)) = self.writes.next() else { return };
            if let Err(e) = self.link.pair.post(&work) {
                return self.fail(e);
            }
            self.post(WRITTEN, 0, &[&written.encode()], written::BYTES);
            self.credit -= 1;
        }
    }

    /// Posts a message whose content are these `n` bytes. There is room, and a slot unless it is short.
    fn post(&mut self, kind: u8, number: u32, content: &[&[u8]], n: usize) {
        let len = message::BYTES + n;
        let (chunks, [low, high]) = (self.room.give_back(), std::mem::take(&mut self.owed).to_le_bytes());
        let [a, b, c, d] = number.to_le_bytes();
        let head: [u8; message::BYTES] = [kind, chunks, low, high, a, b, c, d];
        let posted = if len <= self.link.pair.inline().min(INLINE as usize) {
            gather(&mut self.short[..], &head, content);
            self.link.pair.send_inline(NO_SLOT, &self.short[..len])
        } else {
            let Some(slot) = self.free.pop() else { return self.fail(io::ErrorKind::InvalidInput.into()) };
            let (at, key) = (self.link.sends.at(usize::from(slot) * SLOT), self.link.sends.region.local);
            // SAFETY: the slot is ours alone until its send has completed, and as long as this.
            gather(unsafe { std::slice::from_raw_parts_mut(at, SLOT) }, &head, content);
            let (id, address) = (slot.into(), at as u64);
            let work =
                Work { id, kind: base::rdma::SEND, inline: 0, address, len: len as u32, key, remote: 0, remote_key: 0 };
            self.link.pair.post(&work)
        };
        match posted {
            Ok(()) => self.under_way.push_back(len as u32),
            Err(e) => self.fail(e),
        }
    }

    /// Gives back what was consumed if it is much, says which reads are done, and makes room that was asked for.
    fn answer(&mut self) {
        if self.room.waits && self.can_send() {
            let content = self.room.make(&self.link.pair.device);
            self.say(ROOM, 0, &content);
        }
        while !self.read.is_empty() {
            let mut content = Vec::new();
            self.read.iter().for_each(|number| content.put_u32(*number));
            if !self.say(READ_DONE, 0, &content) {
                break;
            }
            self.read.clear();
        }
        if self.owed >= CREDITS / 2 || self.room.owes_much() {
            self.say(GIVE_BACK, 0, &[]);
        }
    }

    // ---- in

    /// Takes what has come; of sends, only now and then what has completed, while nobody waits for that.
    pub(super) fn look(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if self.sends_armed || self.awaits_sends() || self.looks.is_multiple_of(SENDS_EACH) {
            self.pump()
        } else {
            self.take_done(&[Which::Receives])
        }
    }

    /// Takes all completions.
    pub(super) fn pump(&mut self) {
        self.take_done(&[Which::Sends, Which::Receives]);
    }

    fn take_done(&mut self, queues: &[Which]) {
        loop {
            if self.failure.is_some() {
                return;
            }
            let mut full = false;
            for &which in queues {
                let mut some = Completions::new();
                let all = match self.link.pair.poll(which, &mut some) {
                    Ok([]) => continue,
                    Ok(all) => all,
                    Err(e) => return self.fail(e),
                };
                full |= all.len() == AT_ONCE;
                if self.sends_armed || matches!(which, Which::Receives) {
                    self.idle = 0;
                    if self.told == Told::All {
                        self.told = Told::Some;
                    }
                }
                for done in all {
                    match which {
                        Which::Sends if done.status != 0 => self.fail(broken(done.status)),
                        Which::Sends => self.on_sent(done),
                        Which::Receives => self.on_received(done),
                    }
                }
            }
            if !full {
                break;
            }
        }
        if self.failure.is_some() {
            return;
        }
        self.read_more();
        self.write_more();
        self.answer();
    }

    fn on_sent(&mut self, done: &Done) {
        match done.kind {
            READ => return self.reads.came(done.id),
            WRITE => return self.writes.done(),
            _ => {}
        }
        self.under_way.pop_front();
        if done.id < NO_SLOT {
            self.free.push(done.id as u16);
        }
    }

    /// A slot has come out of the queue. Of those that come with a failure, or after it, nothing counts; they are posted again.
    fn on_received(&mut self, done: &Done) {
        let slot = done.id as u32;
        let at = self.pool().taken(slot);
        if at.is_null() {
            return self.fail(io::ErrorKind::InvalidData.into());
        }
        if done.status != 0 {
            self.fail(broken(done.status));
        } else if self.failure.is_none() {
            return self.on_message(slot, at, done.bytes as usize);
        }
        self.repost(slot);
    }

    fn on_message(&mut self, slot: u32, at: *const u8, len: usize) {
        self.proved = true;
        if !(message::BYTES..=SLOT).contains(&len) {
            self.repost(slot);
            return self.fail(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: the slot has been filled, and is the device's again only when it is posted again.
        let bytes = unsafe { std::slice::from_raw_parts(at, len) };
        let kept = self.take(slot, bytes);
        if !matches!(kept, Ok(true)) {
            self.repost(slot);
        }
        if kept.is_err() {
            self.fail(io::ErrorKind::InvalidData.into());
        }
    }

    /// Takes a message. Returns whether its slot is kept.
    fn take(&mut self, slot: u32, bytes: &[u8]) -> Result<bool, Malformed> {
        let mut t = Take(bytes);
        let (kind, chunks, given, number) = (t.u8()?, t.u8()?, t.u16()?, t.u32()?);
        let credit = self.credit.checked_add(given).filter(|credit| *credit <= self.most_credit);
        self.credit = credit.ok_or(Malformed)?;
        self.writes.free(chunks)?;
        if kind == GIVE_BACK {
            t.end()?;
            return Ok(false);
        }
        if self.inbox.len() + usize::from(self.owed) >= usize::from(CREDITS) {
            // More than it was given room for.
            return Err(Malformed);
        }
        match kind {
            BYTES => {
                self.inbox.push_back(Held { slot, at: message::BYTES, end: bytes.len() });
                return Ok(true);
            }
            READ_THIS => self.reads.add(number, t)?,
            READ_DONE => self.lending.done(t)?,
            MAKE_ROOM if !self.reads.is_possible() => self.room.ask()?,
            ROOM => self.writes.hear(t)?,
            WRITTEN => self.room.add(t)?,
            _ => return Err(Malformed),
        }
        self.owed += 1;
        Ok(false)
    }

    fn repost(&mut self, slot: u32) {
        if let Err(e) = self.pool().post(slot) {
            self.fail(e);
        }
    }

    /// Begins reads of the other side's memory.
    fn read_more(&mut self) {
        while self.reads.has_next() && self.has_work_room(1) && self.failure.is_none() {
            match self.reads.next(&self.link.pair.device) {
                Ok(Some(work)) => {
                    if let Err(e) = self.link.pair.post(&work) {
                        self.fail(e);
                    }
                }
                Ok(None) => return,
                Err(e) => self.fail(e),
            }
        }
    }

    /// Whether bytes of the stream are there.
    pub(super) fn has_bytes(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Moves bytes of the stream: how many.
    pub(super) fn receive(&mut self, bufs: &mut [IoSliceMut<'_>]) -> usize {
        let mut moved = 0;
        for buf in bufs {
            let mut to = &mut buf[..];
            while !to.is_empty()
                && let Some(held) = self.inbox.front_mut()
            {
                let at = self.link.pool().slot(held.slot);
                let n = to.len().min(held.end - held.at);
                // SAFETY: the slot is ours until it is posted again, and filled up to `end`.
                let from = unsafe { std::slice::from_raw_parts(at.add(held.at), n) };
                let (now, later) = to.split_at_mut(n);
                now.copy_from_slice(from);
                (to, held.at, moved) = (later, held.at + n, moved + n);
                if held.at == held.end {
                    let slot = held.slot;
                    self.inbox.pop_front();
                    self.repost(slot);
                    self.owed += 1;
                }
            }
        }
        self.answer();
        moved
    }

    /// Delivers what was read of the other side's memory, or written to ours: how many bytes.
    pub(super) fn deliver(&mut self, sink: &mut dyn wire::lane::Sink) -> usize {
        let delivered = self.reads.deliver(sink, &mut self.read) + self.room.deliver(sink);
        if delivered > 0 {
            self.read_more();
            self.answer();
        }
        delivered
    }

    // ---- sleep

    /// Makes sure that the descriptor tells of what comes next, after a look. Returns false if something is there already.
    ///
    /// To arm the queues takes system calls. So a descriptor that is readable is left so for a while: it tells of all that
    /// comes, and whoever waits for the next message finds that sooner.
    pub(super) fn settle(&mut self) -> bool {
        loop {
            if self.failure.is_some() || self.has_bytes() || self.reads.has_some() || self.room.has_some() {
                return false;
            }
            let rest = match self.told {
                Told::Nothing => 0,
                Told::Some => PATIENCE,
                Told::All => FALSE_ALARMS,
            };
            if self.tells() && self.idle < rest {
                self.idle += 1;
                return true;
            }
            if let Err(e) = self.arm() {
                self.fail(e);
            }
            self.idle = 0;
            // What came before is not told of.
            self.pump();
        }
    }

    /// Whether the descriptor tells of all that comes from now on.
    pub(super) fn tells(&self) -> bool {
        self.told != Told::Nothing && (self.sends_armed || !self.awaits_sends())
    }

    /// Arms the queues anew; only that of the sends, if nothing else is missing.
    fn arm(&mut self) -> io::Result<()> {
        if self.told == Told::Nothing || self.tells() {
            self.link.pair.silence();
            self.sends_armed = false;
            self.link.pair.arm(Which::Receives)?;
            self.told = Told::All;
        }
        if self.awaits_sends() {
            self.link.pair.arm(Which::Sends)?;
            self.sends_armed = true;
        }
        Ok(())
    }

    /// Whether the completion of a send, a read or a write is of interest at once.
    fn awaits_sends(&self) -> bool {
        self.stuck || !self.proved || self.reads.under_way() + self.writes.under_way() > 0
    }

    /// Takes what tells of nothing any more.
    pub(super) fn silence(&mut self) {
        self.told = Told::Nothing;
        self.device().take_events();
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
        while let Some(held) = self.inbox.pop_front() {
            self.repost(held.slot);
        }
    }
}

/// Writes a message to a slot.
fn gather(to: &mut [u8], head: &[u8], content: &[&[u8]]) {
    let mut at = 0;
    for part in std::iter::once(&head).chain(content) {
        to[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// What a completion that has failed says (`enum ibv_wc_status`).
fn broken(status: u32) -> io::Error {
    let why = match status {
        5 => "work was flushed from the queue pair",
        9 => "the other side's device refuses a request",
        10 => "the other side's memory cannot be read",
        12 => return io::Error::new(io::ErrorKind::TimedOut, "the other side's device does not answer"),
        13 => return io::Error::new(io::ErrorKind::TimedOut, "the other side has posted no receive"),
        _ => return io::Error::other(format!("the queue pair has failed (status {status})")),
    };
    io::Error::other(why)
}
