//! What has come: completions are taken, messages are checked, and their content is handed out.

use super::outgoing::NO_SLOT;
use super::{Held, Messages};
use crate::verbs::CREDITS;
use crate::verbs::device::{AT_ONCE, Completions, Which};
use crate::verbs::pool::Slot;
use crate::verbs::words::SHORT;
use base::bytes::{Malformed, Take};
use base::protocol::rdma::{
    BYTES, FIRST_MSG, GIVE_BACK, MAKE_ROOM, NEXT_MSG, READ_DONE, READ_THIS, ROOM, WRITTEN, message,
};
use base::rdma::{Done, READ, WRITE};
use std::io::{self, IoSliceMut};

/// Looks that find nothing before one also takes the completions of sends.
const SENDS_EACH: u32 = 64;
/// Slots that are posted again together if no look has found nothing before.
const SPENT: usize = CREDITS as usize / 4;

impl Messages {
    /// Looks for what has come. Returns whether it is nothing, and nothing is to be done: so end most looks, and it is known soon.
    #[inline]
    pub(in crate::verbs) fn is_quiet(&mut self) -> bool {
        if self.looks >= SENDS_EACH || self.awaits_sends() || self.has_some() || !self.may_be_left() {
            return false;
        }
        self.looks += 1;
        if self.take_done(Which::Receives) > 0 {
            return false;
        }
        self.idle += 1;
        if !self.spent.is_empty() {
            self.repost_spent();
        }
        true
    }

    /// Takes all completions, and goes on with what they have made room for.
    pub(in crate::verbs) fn pump(&mut self) {
        self.looks = 0;
        loop {
            let most = self.take_done(Which::Sends).max(self.take_done(Which::Receives));
            if most < AT_ONCE {
                break;
            }
        }
        if self.failure.is_none() {
            self.go_on();
        }
    }

    /// Takes completions of a queue: how many.
    fn take_done(&mut self, which: Which) -> usize {
        if self.failure.is_some() {
            return 0;
        }
        let mut some = Completions::new();
        let all = match self.link.pair.poll(which, &mut some) {
            Ok([]) => return 0,
            Ok(all) => all,
            Err(e) => {
                self.fail(e);
                return 0;
            }
        };
        if self.sends_armed || matches!(which, Which::Receives) {
            self.has_seen();
        }
        for done in all {
            match which {
                Which::Sends if done.status != 0 => self.fail(broken(done.status)),
                Which::Sends => self.on_sent(done),
                Which::Receives => self.on_received(done),
            }
        }
        all.len()
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
        let Some(slot) = self.pool().taken(done.id as u32) else {
            return self.fail(io::ErrorKind::InvalidData.into());
        };
        if done.status != 0 {
            self.fail(broken(done.status));
        }
        if self.failure.is_some() {
            return self.repost(slot);
        }
        self.proved = true;
        let (slot, heard) = self.hear(slot, done.bytes as usize);
        // What is kept is posted again when it is consumed.
        if let Some(slot) = slot {
            self.repost(slot);
        }
        if heard.is_err() {
            self.fail(io::ErrorKind::InvalidData.into());
        }
    }

    /// Takes a message of so many bytes. Returns its slot, unless it is kept.
    fn hear(&mut self, mut slot: Slot, len: usize) -> (Option<Slot>, Result<(), Malformed>) {
        let bytes = self.link.pool().bytes_mut(&mut slot);
        let mut heard = || {
            let (head, content) = bytes.get(..len).and_then(|all| all.split_first_chunk()).ok_or(Malformed)?;
            let [kind, chunks, low, high, a, b, c, d]: [u8; message::BYTES] = *head;
            let (given, number, t) = (u16::from_le_bytes([low, high]), u32::from_le_bytes([a, b, c, d]), Take(content));
            let credit = self.credit.checked_add(given).filter(|credit| *credit <= self.most_credit);
            self.credit = credit.ok_or(Malformed)?;
            self.writes.free(chunks)?;
            if kind == GIVE_BACK {
                return t.end().map(|()| None);
            }
            if self.inbox.len() + self.spent.len() + usize::from(self.owed) >= usize::from(CREDITS) {
                // More than it was given room for.
                return Err(Malformed);
            }
            match kind {
                BYTES => {
                    let n = len - message::BYTES;
                    // Words can be left out of short ones alone.
                    if number != 0 || n <= SHORT {
                        let n = self.words_in.put_back(number, &mut bytes[message::BYTES..], n)?;
                        return Ok(Some((None, message::BYTES, message::BYTES + n)));
                    }
                    return Ok(Some((None, message::BYTES, len)));
                }
                FIRST_MSG | NEXT_MSG => {
                    let (numbers, at, end) = self.heard.hear(kind, number, bytes, len)?;
                    return Ok(Some((Some(numbers), at, end)));
                }
                READ_THIS => self.reads.add(number, t)?,
                READ_DONE => self.lending.done(t)?,
                MAKE_ROOM if !self.reads.is_possible() => self.room.ask()?,
                ROOM => self.writes.hear(t)?,
                WRITTEN => self.room.add(t)?,
                _ => return Err(Malformed),
            }
            self.owed += 1;
            Ok(None)
        };
        match heard() {
            Ok(Some((msg, at, end))) => {
                self.inbox.push_back(Held { slot, at, end, msg });
                (None, Ok(()))
            }
            Ok(None) => (Some(slot), Ok(())),
            Err(Malformed) => (Some(slot), Err(Malformed)),
        }
    }

    pub(super) fn repost(&mut self, slot: Slot) {
        if let Err(e) = self.pool().post(slot) {
            self.fail(e);
        }
    }

    /// Posts again what is consumed: until then the other side is given no credit for it.
    #[cold]
    pub(super) fn repost_spent(&mut self) {
        self.owed += self.spent.len() as u16;
        while let Some(slot) = self.spent.pop() {
            self.repost(slot);
        }
    }

    /// Whether something has come that is not handed out.
    pub(super) fn has_some(&self) -> bool {
        self.has_messages() || self.reads.has_some() || self.room.has_some()
    }

    /// Whether bytes of the stream or MSGs are there.
    pub(in crate::verbs) fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether bytes of the stream are next.
    pub(in crate::verbs) fn has_bytes(&self) -> bool {
        self.inbox.front().is_some_and(|held| held.msg.is_none())
    }

    /// Moves bytes of the stream: how many.
    pub(in crate::verbs) fn receive(&mut self, bufs: &mut [IoSliceMut<'_>]) -> usize {
        let mut moved = 0;
        for buf in bufs {
            let mut to = &mut buf[..];
            while !to.is_empty()
                && let Some(held) = self.inbox.front_mut()
                && held.msg.is_none()
            {
                let n = to.len().min(held.end - held.at);
                let (now, later) = to.split_at_mut(n);
                now.copy_from_slice(&self.link.pool().bytes(&held.slot)[held.at..][..n]);
                (to, held.at, moved) = (later, held.at + n, moved + n);
                if held.at == held.end
                    && let Some(held) = self.inbox.pop_front()
                {
                    self.has_spent(held.slot);
                }
            }
        }
        self.go_on();
        moved
    }

    /// The bytes of this slot are consumed.
    pub(super) fn has_spent(&mut self, slot: Slot) {
        self.spent.push(slot);
        if self.spent.len() >= SPENT {
            self.repost_spent();
        }
    }

    /// Delivers what was read of the other side's memory, or written to ours: how many bytes.
    #[inline]
    pub(in crate::verbs) fn deliver(&mut self, sink: &mut dyn wire::lane::Sink) -> usize {
        if !self.reads.has_some() && !self.room.has_some() {
            return 0;
        }
        let delivered = self.reads.deliver(sink, &mut self.read) + self.room.deliver(sink);
        if delivered > 0 {
            self.go_on();
        }
        delivered
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
