//! The trunk: the one connection of this process to the router of its node, with all its channels.
//!
//! Whoever reads a channel reads the trunk, and leaves what is for other channels in their inputs. Each channel has a bell, a
//! descriptor that is readable while there is something to be read, or room where there was none. Invariants: an input never holds
//! more than the other end was given credit for; bytes leave in the order in which they were taken; a bell that is rung tells of
//! something that is still there.

use super::frame::{HEAD, Head, Kind, MAX_SAID, Open, Why, credit, credited, whole};
use super::into::Into;
use super::local::Raw;
use crate::stream::ByteStream;
use base::bytes::Malformed;
use base::protocol::router::{MAX_PIECE, WINDOW};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are read at a time behind those that go where they belong at once.
const STAGE: usize = 16 << 10;
/// Channels that have come and are not accepted yet.
const MOST_ARRIVED: usize = 64;
/// Channels of one process.
pub(super) const MOST_CHANNELS: usize = 16_384;
/// Bytes that are said of channels and that the router does not take: it is broken then.
const MOST_KEPT: usize = 1 << 20;
/// The most that one read of a channel takes off the trunk for others.
const TURN: usize = 1 << 20;
/// The most pieces of one write, with the head.
const PIECES: usize = 66;
/// An input that has grown beyond this gives its memory back when it is empty.
const SPARE: usize = 64 << 10;

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

struct Inner {
    socket: Raw,
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
    watched_as: u64,
}

/// The trunk of this process.
pub(super) struct Trunk {
    inner: Mutex<Inner>,
    fd: RawFd,
    /// Where the router is a thread of this process, it runs as long as something uses the trunk.
    _host: Option<Arc<dyn Send + Sync>>,
}

pub(super) fn bell() -> io::Result<EventFd> {
    Ok(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)
}

impl Trunk {
    /// Over this connection, on which both have proved themselves. It is watched by `epoll`, under this number; `arrival` is rung
    /// when a channel has come.
    pub fn new(
        socket: Raw,
        epoll: &Arc<Epoll>,
        watched_as: u64,
        arrival: &Arc<EventFd>,
        host: Option<Arc<dyn Send + Sync>>,
    ) -> io::Result<Trunk> {
        epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, watched_as))?;
        let fd = socket.as_fd().as_raw_fd();
        let inner = Inner {
            socket,
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
            watched_as,
        };
        Ok(Trunk { inner: Mutex::new(inner), fd, _host: host })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor of the connection.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as the trunk lives.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
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
        let _ = inner.epoll.delete(&inner.socket);
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
        let is_done = inner.flush()?;
        if let Some(slot) = inner.slots.get_mut(&id) {
            slot.stuck |= !is_done;
        }
        Ok(is_done)
    }

    pub fn has_output(&self) -> bool {
        let inner = self.lock();
        inner.sent < inner.out.len()
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
        let is_free = inner.flush().unwrap_or(false) && !inner.writing;
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
            self.socket.cut();
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
        self.out.extend_from_slice(&whole(id, kind, body));
        if self.out.len() - self.sent > MOST_KEPT {
            return self.break_off();
        }
        // What fails here fails for who writes, too; only reading ends the trunk, since more may have come.
        let _ = self.flush();
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.out.len() {
            match self.socket.write_vectored(&[IoSlice::new(&self.out[self.sent..])]) {
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

    fn takes_more(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|n| n > 0)
    }

    fn watch(&mut self, write: bool) {
        if self.writing != write {
            self.writing = write;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, write);
            // An error means that the transport is closed: then each lane is written on by its own rounds.
            let _ = self.epoll.modify(&self.socket, &mut EpollEvent::new(flags, self.watched_as));
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
        let written = match self.socket.write_vectored(&pieces[..count]) {
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
            let mut skip = written;
            for piece in &pieces[..count] {
                let from = skip.min(piece.len());
                self.out.extend_from_slice(&piece[from..]);
                skip -= from;
            }
            self.watch(true);
        }
        Ok(len)
    }

    // ---- in

    fn read(&mut self, id: u32, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
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
    fn pump(&mut self) {
        if self.writing {
            // An error shows in what is read.
            let _ = self.flush();
        }
        self.pump_for(None);
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
        let direct = match (to, self.body) {
            (Some((id, into)), Some((channel, left))) if *id == channel && self.end == 0 => Some((into, left)),
            _ => None,
        };
        let Some((into, left)) = direct else {
            let n = self.socket.read_vectored(&mut [IoSliceMut::new(&mut self.stage[self.end..])])?;
            self.end += n;
            return Ok(n);
        };
        let n = into.read(left, &mut self.stage, |bufs| self.socket.read_vectored(bufs))?;
        let in_place = into.got();
        self.end = n - in_place;
        if let Some((channel, left)) = self.body {
            self.body = (in_place < left).then_some((channel, left - in_place));
            if let Some(slot) = self.slots.get_mut(&channel) {
                slot.granted = slot.granted.saturating_sub(in_place as u32);
            }
        }
        Ok(n)
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
