//! What is sent: the stream of bytes, what the sides say to each other, and bulk from where it lies.

use super::Messages;
use crate::verbs::words::SHORT;
use crate::verbs::{CREDITS, INLINE, WORK};
use base::bytes::Put;
use base::protocol::rdma::{BYTES, GIVE_BACK, MAKE_ROOM, READ_DONE, READ_THIS, ROOM, SLOT, WRITTEN, message, written};
use base::rdma::{SEND, Work};
use std::io::{self, IoSlice};
use wire::frame::Header;

/// The content of a message at most.
const CONTENT: usize = SLOT - message::BYTES;
/// Numbers of sends that have no slot begin here.
pub(super) const NO_SLOT: u64 = 1 << 32;

// A short message can be put together where those are that are sent inline.
const _: () = assert!(message::BYTES + SHORT <= INLINE as usize);

impl Messages {
    /// Whether so many more pieces of work can be posted.
    pub(super) fn has_work_room(&self, more: usize) -> bool {
        self.under_way.len() + self.reads.under_way() + self.writes.under_way() + more <= WORK as usize
    }

    /// Whether a message can be sent now.
    pub(in crate::verbs) fn can_send(&self) -> bool {
        self.credit > 0 && self.has_work_room(1) && !self.free.is_empty() && self.failure.is_none()
    }

    /// Sends bytes of the stream: how many. 0 if there is no room.
    pub(in crate::verbs) fn send(&mut self, bufs: &[IoSlice<'_>]) -> usize {
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
    pub(in crate::verbs) fn lends(&mut self) -> bool {
        if self.writes.is_unasked() && self.can_send() && self.say(MAKE_ROOM, 0, &[]) {
            self.writes.set_asked();
        }
        self.reads.is_possible() || self.writes.is_possible()
    }

    /// Whether one more frame can go so now.
    pub(in crate::verbs) fn can_lend(&self) -> bool {
        match self.reads.is_possible() {
            true => self.lending.has_room() && self.can_send(),
            false => self.writes.has_room() && self.failure.is_none(),
        }
    }

    /// Whether what was refused may be taken now.
    pub(in crate::verbs) fn has_room(&self) -> bool {
        let is_read = self.reads.is_possible();
        let is_sent = !is_read && (self.writes.is_unasked() || !self.writes.is_possible());
        if is_sent { self.can_send() } else { self.can_lend() }
    }

    /// Has a frame go so. Returns whether there was room.
    pub(in crate::verbs) fn lend(&mut self, header: &Header, pieces: &[IoSlice<'_>]) -> io::Result<bool> {
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
    pub(in crate::verbs) fn is_lending(&self) -> bool {
        !self.lending.is_empty() || !self.writes.is_empty()
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

    /// Goes on with what completions may have made room for, and answers what has come.
    #[inline]
    pub(super) fn go_on(&mut self) {
        if self.reads.has_next() {
            self.read_more();
        }
        if !self.writes.is_empty() {
            self.write_more();
        }
        if self.has_answer() {
            self.answer();
        }
    }

    /// Whether [`Messages::answer`] has something to say.
    #[inline]
    fn has_answer(&self) -> bool {
        self.owed >= CREDITS / 2 || self.room.waits || !self.read.is_empty() || self.room.owes_much()
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

    /// Posts a message whose content are these `n` bytes. There is room, and a slot unless it is short.
    fn post(&mut self, kind: u8, mut number: u32, content: &[&[u8]], n: usize) {
        let is_short = message::BYTES + n <= INLINE as usize;
        if is_short {
            let rest = &mut self.short[message::BYTES..];
            gather(rest, content);
            let mut left = n;
            if kind == BYTES && n <= SHORT {
                (number, left) = self.words_out.leave_out(&mut rest[..n]);
            }
            let head = self.head(kind, number);
            self.short[..message::BYTES].copy_from_slice(&head);
            return self.post_short(message::BYTES + left);
        }
        let head = self.head(kind, number);
        let Some((slot, to)) = self.take_slot() else { return self.fail(io::ErrorKind::InvalidInput.into()) };
        gather(to, &[&head]);
        gather(&mut to[message::BYTES..], content);
        self.post_slot(slot, message::BYTES + n);
    }

    /// The head of the next message, which gives back what was consumed.
    pub(super) fn head(&mut self, kind: u8, number: u32) -> [u8; message::BYTES] {
        let (chunks, [low, high]) = (self.room.give_back(), std::mem::take(&mut self.owed).to_le_bytes());
        let [a, b, c, d] = number.to_le_bytes();
        [kind, chunks, low, high, a, b, c, d]
    }

    /// A slot for a message, and its bytes.
    pub(super) fn take_slot<'a>(&mut self) -> Option<(u16, &'a mut [u8])> {
        let slot = self.free.pop()?;
        let at = self.link.sends.at(usize::from(slot) * SLOT);
        // SAFETY: the slot is ours alone until its send has completed, and as long as this.
        Some((slot, unsafe { std::slice::from_raw_parts_mut(at, SLOT) }))
    }

    /// Posts the message of so many bytes that was put together for it: inline, if the device takes as much.
    pub(super) fn post_short(&mut self, len: usize) {
        if len <= self.link.pair.inline() {
            let posted = self.link.pair.send_inline(NO_SLOT, &self.short[..len]);
            return self.has_posted(posted, len);
        }
        let Some((slot, to)) = self.take_slot() else { return self.fail(io::ErrorKind::InvalidInput.into()) };
        gather(to, &[&self.short[..len]]);
        self.post_slot(slot, len);
    }

    /// Posts the message of so many bytes in a slot.
    pub(super) fn post_slot(&mut self, slot: u16, len: usize) {
        let (id, key) = (slot.into(), self.link.sends.region.local);
        let address = self.link.sends.at(usize::from(slot) * SLOT) as u64;
        let work = Work { id, kind: SEND, inline: 0, address, len: len as u32, key, remote: 0, remote_key: 0 };
        let posted = self.link.pair.post(&work);
        self.has_posted(posted, len);
    }

    fn has_posted(&mut self, posted: io::Result<()>, len: usize) {
        match posted {
            Ok(()) => self.under_way.push_back(len as u32),
            Err(e) => self.fail(e),
        }
    }
}

/// Puts these bytes behind each other.
fn gather(to: &mut [u8], content: &[&[u8]]) {
    let mut at = 0;
    for part in content {
        to[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}
