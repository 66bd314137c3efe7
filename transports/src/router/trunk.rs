//! The trunk: the one connection of this process to the router of its node, with all its channels.
//!
//! Whoever reads a channel reads the trunk, and leaves what is for other channels in their inputs. Each channel has a bell, a
//! descriptor that is readable while there is something to be read, or room where there was none. Where the router is of this process, the
//! trunk is no socket, and its calls turn the router. Invariants: an input never holds more than the other end was given credit for; bytes
//! leave in the order in which they were taken; a bell that is rung tells of something that is still there.

mod reading;

use super::bell::bell;
use super::frame::{HEAD, Head, Kind, MOST_CHANNELS, Open, PIECES, Why, put_rest, whole};
use super::line::Line;
use super::own::Own;
use crate::stream::ByteStream;
use base::protocol::router::{MAX_PIECE, WINDOW};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are read at a time behind those that go where they belong at once.
const STAGE: usize = 16 << 10;
/// Channels that have come and are not accepted yet.
const MOST_ARRIVED: usize = 64;
/// Bytes that are said of channels and that the router does not take: it is broken then.
const MOST_KEPT: usize = 1 << 20;

/// What is kept of a channel.
struct Slot {
    input: VecDeque<u8>,
    /// What the other end may still send, and what it will be given credit for.
    granted: u32,
    owed: u32,
    /// What this end may still send.
    room: u32,
    /// A write has found no room.
    stuck: bool,
    end: Option<Why>,
    bell: Arc<EventFd>,
    rung: bool,
}

impl Slot {
    fn ring(&mut self) {
        if !std::mem::replace(&mut self.rung, true) {
            // An error would mean that it is rung already.
            let _ = self.bell.write(1);
        }
    }

    /// Silences the bell if it has nothing to tell of.
    fn settle(&mut self) {
        if self.rung && self.input.is_empty() && self.end.is_none() {
            self.rung = false;
            let _ = self.bell.read();
        }
    }

    fn finish(&mut self, why: Why) {
        self.end.get_or_insert(why);
        self.ring();
    }
}

/// What a trunk goes over.
pub(super) enum Wire {
    Line(Box<Line>),
    /// The router is of this process.
    Own(Own),
}

impl Wire {
    fn watch(&self, epoll: &Epoll, number: u64) -> nix::Result<()> {
        match self {
            Wire::Line(line) => line.watch(epoll, number),
            Wire::Own(own) => epoll.add(own, EpollEvent::new(EpollFlags::EPOLLIN, number)),
        }
    }

    fn unwatch(&self, epoll: &Epoll) {
        match self {
            Wire::Line(line) => line.unwatch(epoll),
            Wire::Own(own) => {
                // The only error is that it is not watched.
                let _ = epoll.delete(own);
            }
        }
    }
}

struct Inner {
    wire: Wire,
    /// It has ended: nothing is read or written any more.
    broken: bool,
    /// Others may open channels to this process.
    open: bool,
    /// Whole frames, or the rest of one, that the socket has not taken.
    out: Vec<u8>,
    sent: usize,
    /// The socket was full: the transport is told when it takes more.
    writing: bool,
    stage: Box<[u8]>,
    start: usize,
    end: usize,
    /// The DATA whose body comes next: its channel, and how much of it.
    body: Option<(u32, usize)>,
    slots: HashMap<u32, Slot>,
    last: u32,
    arrived: VecDeque<(u32, Open)>,
    /// Rung while `arrived` is not empty.
    arrival: Arc<EventFd>,
    epoll: Arc<Epoll>,
}

/// The trunk of this process.
pub(super) struct Trunk {
    inner: Mutex<Inner>,
}

impl Trunk {
    /// Over this connection, on which both have proved themselves, or the router of this process. It is watched by `epoll`, under this number; `arrival` is rung
    /// when a channel has come.
    pub fn new(wire: Wire, epoll: &Arc<Epoll>, watched_as: u64, arrival: &Arc<EventFd>) -> io::Result<Trunk> {
        wire.watch(epoll, watched_as)?;
        let inner = Inner {
            wire,
            broken: false,
            open: true,
            out: Vec::new(),
            sent: 0,
            writing: false,
            stage: vec![0; STAGE].into(),
            start: 0,
            end: 0,
            body: None,
            slots: HashMap::new(),
            last: 0,
            arrived: VecDeque::new(),
            arrival: arrival.clone(),
            epoll: epoll.clone(),
        };
        Ok(Trunk { inner: Mutex::new(inner) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is not watched any more.
    pub fn unwatch(&self) {
        let inner = self.lock();
        inner.wire.unwatch(&inner.epoll);
    }

    /// Has this tell of all that comes on it, if whoever waits for one channel has to wait for the trunk too. Where the router is of this
    /// process, the transport does that: the kernel allows only some 100 ways from one socket to those who wait.
    pub fn tell(&self, epoll: &Epoll) -> nix::Result<()> {
        match &self.lock().wire {
            Wire::Own(_) => Ok(()),
            wire => wire.watch(epoll, 1),
        }
    }

    /// Opens a channel to a process: its number, and its bell.
    pub fn open(&self, open: &Open) -> io::Result<(u32, Arc<EventFd>)> {
        let bell = Arc::new(bell()?);
        let mut inner = self.lock();
        if inner.broken || inner.slots.len() >= MOST_CHANNELS {
            return Err(io::Error::other("has no room for one more"));
        }
        inner.last = inner.last.wrapping_add(2);
        while inner.slots.contains_key(&inner.last) {
            inner.last = inner.last.wrapping_add(2);
        }
        let id = inner.last;
        inner.add(id, &bell);
        inner.say(id, Kind::Open, &open.encode());
        Ok((id, bell))
    }

    /// The next channel that another process has opened to this one, with its bell.
    pub fn accept(&self) -> Option<(u32, Arc<EventFd>, Open)> {
        let mut inner = self.lock();
        inner.pump();
        let next = inner.arrived.pop_front();
        if inner.arrived.is_empty() {
            let _ = inner.arrival.read();
        }
        let (id, open) = next?;
        let bell = inner.slots.get(&id)?.bell.clone();
        Some((id, bell, open))
    }

    /// No channel is taken from now on, and those that were not accepted end.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.open = false;
        for (id, _) in std::mem::take(&mut inner.arrived) {
            inner.drop_channel(id, Why::Gone);
        }
        inner.wire.unwatch(&inner.epoll);
        if let Wire::Own(own) = &inner.wire {
            own.leave();
        }
    }

    /// Whether there is something to do of which no descriptor may tell, since whoever asks this asks again and again; `silence`: nobody
    /// sleeps on the descriptors.
    pub fn has_news(&self, silence: bool) -> bool {
        match &mut self.lock().wire {
            Wire::Line(line) => line.has_news(silence),
            Wire::Own(_) => false,
        }
    }

    /// Descriptors tell of everything from now on.
    pub fn arm(&self) {
        if let Wire::Line(line) = &mut self.lock().wire {
            line.arm();
        }
    }

    pub fn is_broken(&self) -> bool {
        self.lock().broken
    }

    // ---- what channels ask for

    pub fn write(&self, id: u32, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.lock().write(id, bufs)
    }

    pub fn read(&self, id: u32, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.lock().read(id, bufs)
    }

    /// Writes on what the socket had no room for, on behalf of this channel. Whether nothing is left.
    pub fn flush(&self, id: u32) -> io::Result<bool> {
        let mut inner = self.lock();
        let is_done = inner.flush_for(id)?;
        if let Some(slot) = inner.slots.get_mut(&id) {
            slot.stuck |= !is_done;
        }
        Ok(is_done)
    }

    pub fn has_output(&self, id: u32) -> bool {
        let inner = self.lock();
        match &inner.wire {
            Wire::Line(_) => inner.sent < inner.out.len(),
            Wire::Own(own) => inner.slots.get(&id).is_some_and(|slot| slot.stuck) && !own.flush(id),
        }
    }

    pub fn has_input(&self, id: u32) -> bool {
        self.lock().slots.get(&id).is_some_and(|slot| !slot.input.is_empty())
    }

    /// Why a channel has ended, if it has and nothing of it is left to be read.
    pub fn ended(&self, id: u32) -> Option<Why> {
        let mut inner = self.lock();
        inner.pump();
        let slot = inner.slots.get(&id)?;
        slot.end.filter(|_| slot.input.is_empty())
    }

    /// Whether there is room now where there was none when a write was tried.
    pub fn has_room_again(&self, id: u32) -> bool {
        let mut inner = self.lock();
        // An error shows in what is read.
        let is_free = inner.flush_for(id).unwrap_or(false) && !inner.writing;
        let Some(slot) = inner.slots.get_mut(&id) else { return false };
        let again = slot.stuck && slot.room > 0 && is_free;
        slot.stuck &= !again;
        again
    }

    /// Ends a channel for both ends. What has come can still be read.
    pub fn end(&self, id: u32) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(&id) else { return };
        if slot.end.is_none() {
            slot.finish(Why::Over);
            inner.say(id, Kind::Close, &Why::Over.encode());
        }
    }

    /// A channel is not used any more.
    pub fn forget(&self, id: u32) {
        self.lock().drop_channel(id, Why::Over);
    }
}

impl Inner {
    fn add(&mut self, id: u32, bell: &Arc<EventFd>) {
        let (granted, room) = (WINDOW, WINDOW);
        let slot = Slot {
            input: VecDeque::new(),
            granted,
            owed: 0,
            room,
            stuck: false,
            end: None,
            bell: bell.clone(),
            rung: false,
        };
        self.slots.insert(id, slot);
    }

    fn drop_channel(&mut self, id: u32, why: Why) {
        if let Some(slot) = self.slots.remove(&id)
            && slot.end.is_none()
        {
            self.say(id, Kind::Close, &why.encode());
        }
    }

    fn break_off(&mut self) {
        if !std::mem::replace(&mut self.broken, true) {
            match &mut self.wire {
                Wire::Line(line) => line.cut(),
                Wire::Own(own) => own.cut(),
            }
            (self.out, self.sent) = (Vec::new(), 0);
            self.slots.values_mut().for_each(|slot| slot.finish(Why::NoRouter));
            for (id, _) in std::mem::take(&mut self.arrived) {
                self.slots.remove(&id);
            }
        }
    }

    // ---- out

    fn say(&mut self, id: u32, kind: Kind, body: &[u8]) {
        if self.broken {
            return;
        }
        if let Wire::Own(own) = &self.wire {
            let said = own.pass(Head { channel: id, kind, len: body.len() }, body);
            debug_assert!(said.is_ok(), "what this process says makes sense");
            return;
        }
        self.out.extend_from_slice(&whole(id, kind, body));
        if self.out.len() - self.sent > MOST_KEPT {
            return self.break_off();
        }
        // What fails here fails for who writes, too; only reading ends the trunk, since more may have come.
        let _ = self.flush();
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.out.len()
            && let Wire::Line(line) = &mut self.wire
        {
            match line.write_vectored(&[IoSlice::new(&self.out[self.sent..])]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.watch(true);
                    return Ok(false);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.sent = 0;
        if self.writing && self.takes_more() {
            self.watch(false);
            self.slots.values_mut().filter(|slot| slot.stuck).for_each(Slot::ring);
        }
        Ok(true)
    }

    /// Writes on what keeps this channel from more. Whether nothing is left.
    fn flush_for(&mut self, id: u32) -> io::Result<bool> {
        match &self.wire {
            Wire::Line(_) => self.flush(),
            Wire::Own(own) => Ok(own.flush(id)),
        }
    }

    fn takes_more(&mut self) -> bool {
        match &mut self.wire {
            Wire::Line(line) => line.has_room(),
            Wire::Own(_) => true,
        }
    }

    fn watch(&mut self, write: bool) {
        self.writing = write;
        if let Wire::Line(line) = &mut self.wire {
            line.wait_for_room(write);
        }
    }

    fn write(&mut self, id: u32, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let is_free = self.flush()?;
        let Some(slot) = self.slots.get_mut(&id) else { return Err(ErrorKind::NotConnected.into()) };
        if slot.end.is_some() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if !is_free {
            slot.stuck = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        if slot.room == 0 {
            self.pump();
        }
        let Some(slot) = self.slots.get_mut(&id) else { return Err(ErrorKind::NotConnected.into()) };
        let most = (slot.room as usize).min(MAX_PIECE);
        if most == 0 {
            slot.stuck = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut count, mut len) = (1, 0);
        for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
            if count == PIECES || len == most {
                break;
            }
            let take = buf.len().min(most - len);
            pieces[count] = IoSlice::new(&buf[..take]);
            (count, len) = (count + 1, len + take);
        }
        if len == 0 {
            return Ok(0);
        }
        let head = Head { channel: id, kind: Kind::Data, len }.encode();
        pieces[0] = IoSlice::new(&head);
        let line = match &mut self.wire {
            Wire::Line(line) => line,
            Wire::Own(own) => {
                let is_written = own.pass_data(id, &pieces[1..count]);
                slot.stuck = is_written != Some(true);
                if is_written.is_none() {
                    return Err(ErrorKind::WouldBlock.into());
                }
                slot.room -= len as u32;
                return Ok(len);
            }
        };
        let written = match line.write_vectored(&pieces[..count]) {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                slot.stuck = true;
                // Nothing is kept, so an empty flush would not tell of room.
                self.watch(true);
                return Err(e);
            }
            Err(e) => return Err(e),
        };
        slot.room -= len as u32;
        // Who waits for the rest is told when it is gone, whether or not there is more to write.
        slot.stuck = written < HEAD + len;
        if slot.stuck {
            put_rest(&mut self.out, &pieces[..count], written);
            self.watch(true);
        }
        Ok(len)
    }
}
