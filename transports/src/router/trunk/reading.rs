//! What comes on a trunk: what is for the channel that is read goes where it belongs at once, all else to the inputs of other channels.

use super::super::bell::bell;
use super::super::frame::{HEAD, Head, Kind, MAX_SAID, MOST_CHANNELS, Open, Why, credit, credited};
use super::super::into::Into;
use super::{Inner, MOST_ARRIVED, Slot, Wire};
use crate::stream::ByteStream;
use base::bytes::Malformed;
use base::protocol::router::WINDOW;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut, Read as _};
use std::sync::Arc;

/// The most that one read of a channel takes off the trunk for others.
const TURN: usize = 1 << 20;
/// An input that has grown beyond this gives its memory back when it is empty.
const SPARE: usize = 64 << 10;

impl Inner {
    pub(super) fn read(&mut self, id: u32, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(slot) = self.slots.get_mut(&id) else { return Err(ErrorKind::NotConnected.into()) };
        let mut into = Into::new(bufs);
        if !slot.input.is_empty() {
            while let Some(to) = into.next() {
                let n = slot.input.read(to)?;
                if n == 0 {
                    break;
                }
                into.advance(n);
            }
            if slot.input.is_empty() && slot.input.capacity() > SPARE {
                slot.input = VecDeque::new();
            }
        } else if slot.end.is_none() {
            self.pump_for(Some((id, &mut into)));
        }
        let got = into.got();
        self.took(id, got);
        let Some(slot) = self.slots.get_mut(&id) else { return Err(ErrorKind::NotConnected.into()) };
        slot.settle();
        match (got, slot.end) {
            (0, None) => Err(ErrorKind::WouldBlock.into()),
            (n, _) => Ok(n),
        }
    }

    /// Gives the other end credit for what was taken, if that has become much.
    fn took(&mut self, id: u32, bytes: usize) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.owed += bytes as u32;
        if slot.owed >= WINDOW / 4 && slot.end.is_none() {
            let owed = std::mem::take(&mut slot.owed);
            slot.granted += owed;
            self.say(id, Kind::Credit, &credit(owed));
        }
    }

    /// Reads what has come, for all channels.
    pub(super) fn pump(&mut self) {
        if self.writing {
            // An error shows in what is read.
            let _ = self.flush();
        }
        self.pump_for(None);
        if let Wire::Line(line) = &self.wire
            && line.is_over()
        {
            // What it wrote at last.
            self.pump_for(None);
            self.break_off();
        }
        if let Wire::Own(own) = &self.wire
            && own.has_more_room()
        {
            self.slots.values_mut().filter(|slot| slot.stuck).for_each(Slot::ring);
        }
    }

    /// Reads what has come. What is for this channel goes where it belongs at once; with the first of it, it is enough.
    fn pump_for(&mut self, mut to: Option<(u32, &mut Into<'_, '_>)>) {
        let mut read = 0;
        while !self.broken {
            if self.digest(&mut to).is_err() {
                base::log_seldom!(Error, "the router says what makes no sense: the connection to it is closed");
                return self.break_off();
            }
            if read >= TURN || to.as_ref().is_some_and(|(_, into)| into.got() > 0) {
                return;
            }
            match self.fill(&mut to) {
                Ok(0) => return self.break_off(),
                Ok(n) => read += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(_) => return self.break_off(),
            }
        }
    }

    /// Reads once: a body for this channel into its place, and what follows into the stage.
    fn fill(&mut self, to: &mut Option<(u32, &mut Into<'_, '_>)>) -> io::Result<usize> {
        if self.start > 0 {
            self.stage.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let line = match &mut self.wire {
            Wire::Line(line) => line,
            Wire::Own(own) => {
                let is_between = self.end == 0 && self.body.is_none();
                let wanted = to.as_mut().filter(|_| is_between).map(|(id, into)| (*id, &mut **into));
                let n = own.read(&mut self.stage[self.end..], wanted)?;
                let in_place = to.as_ref().map_or(0, |(_, into)| into.got());
                self.end += n - in_place;
                if let Some((id, _)) = to {
                    self.count_in(*id, in_place);
                }
                return Ok(n);
            }
        };
        let direct = match (to, self.body) {
            (Some((id, into)), Some((channel, left))) if *id == channel && self.end == 0 => Some((into, left)),
            _ => None,
        };
        let Some((into, left)) = direct else {
            let n = line.read_vectored(&mut [IoSliceMut::new(&mut self.stage[self.end..])])?;
            self.end += n;
            return Ok(n);
        };
        let behind = if left < self.stage.len() { self.stage.len() } else { HEAD };
        let n = into.read(left, &mut self.stage[..behind], |bufs| line.read_vectored(bufs))?;
        let in_place = into.got();
        self.end = n - in_place;
        if let Some((channel, left)) = self.body {
            self.body = (in_place < left).then_some((channel, left - in_place));
            self.count_in(channel, in_place);
        }
        Ok(n)
    }

    /// So much has come in place.
    fn count_in(&mut self, id: u32, bytes: usize) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.granted = slot.granted.saturating_sub(bytes as u32);
        }
    }

    /// Looks at what is in the stage.
    fn digest(&mut self, to: &mut Option<(u32, &mut Into<'_, '_>)>) -> Result<(), Malformed> {
        loop {
            let there = &self.stage[self.start..self.end];
            if let Some((channel, left)) = self.body {
                let part = left.min(there.len());
                if part == 0 {
                    return Ok(());
                }
                let bytes = &there[..part];
                self.start += part;
                self.body = (part < left).then_some((channel, left - part));
                // What comes for a channel that this end has closed is dropped.
                let Some(slot) = self.slots.get_mut(&channel).filter(|slot| slot.end.is_none()) else { continue };
                if part > slot.granted as usize {
                    base::log_seldom!(Error, "a process sends more by the router than it may: its lane is closed");
                    slot.finish(Why::Over);
                    self.say(channel, Kind::Close, &Why::Over.encode());
                    continue;
                }
                slot.granted -= part as u32;
                let mut rest = bytes;
                if let Some((id, into)) = to
                    && *id == channel
                {
                    rest = &rest[into.put(rest)..];
                }
                if !rest.is_empty() {
                    slot.input.extend(rest);
                    slot.ring();
                }
                continue;
            }
            let Some((head, rest)) = there.split_first_chunk::<HEAD>() else { return Ok(()) };
            let head = Head::decode(head)?;
            if head.kind == Kind::Data {
                self.start += HEAD;
                self.body = Some((head.channel, head.len));
                continue;
            }
            let Some(body) = rest.get(..head.len) else { return Ok(()) };
            let mut said = [0; MAX_SAID];
            said[..head.len].copy_from_slice(body);
            self.start += HEAD + head.len;
            self.hear(head, &said[..head.len])?;
        }
    }

    fn hear(&mut self, head: Head, body: &[u8]) -> Result<(), Malformed> {
        let id = head.channel;
        match head.kind {
            Kind::Data => (),
            Kind::Credit => {
                let bytes = credited(body)?;
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.room = slot.room.saturating_add(bytes).min(WINDOW);
                    if slot.stuck {
                        slot.ring();
                    }
                }
            }
            Kind::Close => {
                let why = Why::decode(body)?;
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.finish(why);
                }
            }
            Kind::Open => {
                let open = Open::decode(body)?;
                if id.is_multiple_of(2) || self.slots.contains_key(&id) {
                    return Err(Malformed);
                }
                let is_full = self.arrived.len() >= MOST_ARRIVED || self.slots.len() >= MOST_CHANNELS;
                match bell() {
                    _ if !self.open => self.say(id, Kind::Close, &Why::Gone.encode()),
                    Ok(bell) if !is_full => {
                        self.add(id, &Arc::new(bell));
                        self.arrived.push_back((id, open));
                        let _ = self.arrival.write(1);
                    }
                    _ => self.say(id, Kind::Close, &Why::Full.encode()),
                }
            }
        }
        Ok(())
    }
}
