//! One connection of the router: from its begin to frames, what is to be written on it, and the channels on it.
//!
//! Invariant: nothing but the bytes of a proof is read before the other side has proved the key.

use super::departed::Pid;
use super::frame::{HEAD, Head, Kind, MAX_SAID, Open, PIECES, put_rest, whole};
use super::into::Into;
use super::line::Line;
use super::local::Raw;
use crate::ip::{Kept, Socket, is_connected, start_connect};
use crate::stream::ByteStream;
use crate::stream::handshake::{Admitting, Proved, Proving};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;
use trust::{Protocol, Trust};

/// The number of a connection.
pub(super) type Id = u32;

/// Bytes that are kept for one connection. Who does not take that many has stopped: it is closed, and its lanes are made anew
/// when it comes again.
const MOST_KEPT: usize = 64 << 20;
/// Data of this many bytes is written from where it is, if it can be written at once.
const LARGE: usize = 4 << 10;
/// Bytes that are read beside those that go where they belong at once.
const LITTLE: usize = 16 << 10;
/// What has been written of `out` is dropped when it is more than this.
const SPARE: usize = 1 << 20;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A process of this node.
    Process([u8; 16]),
    /// The router that is this process's.
    Router([u8; 16]),
}

/// How far a connection is.
pub(super) enum Stage {
    Connecting(Socket),
    Proving(Box<Proving<Raw>>),
    Admitting(Box<Admitting<Raw>>),
    /// A process has proved itself, and its listeners are awaited.
    Exchanging(Raw, [u8; 16]),
    /// That process's memory.
    Near(Box<Line>, [u8; 16]),
    /// The same while its memory is read in place.
    Lent([u8; 16]),
    /// The router that is this process's.
    Far(Raw, [u8; 16]),
    /// The process of the router itself takes what is to be written.
    Own([u8; 16]),
    Over,
}

/// Where a channel goes.
pub(super) enum To {
    Channel(Id, u32),
    /// To a process or a router that is not there yet: what was asked, and the data that has come.
    Parked(Box<Parked>),
}

pub(super) struct Parked {
    pub open: Open,
    pub data: Vec<u8>,
    pub until: Instant,
}

/// What has happened on a connection that is being set up.
pub(super) enum News {
    NotYet,
    /// These listeners come from a process of this node, which has proved itself.
    Process([u8; 16], Vec<Kept>),
    Router([u8; 16]),
}

/// One connection.
pub(super) struct Conn {
    pub stage: Stage,
    /// The other end, if it is not of this host.
    pub peer: Option<SocketAddr>,
    pub since: Instant,
    /// Our side has dialled it.
    pub dialled: bool,
    pub channels: HashMap<u32, To>,
    last: u32,
    /// It is watched by the process that has the router.
    pub is_of_own: bool,
    /// The begin of a head, or of a short frame.
    part: Vec<u8>,
    /// The DATA whose body comes next: its channel, and how much of it.
    pub body: Option<(u32, usize)>,
    out: Vec<u8>,
    sent: usize,
    /// What epoll was told last: whether it is written on.
    pub writing: bool,
    /// The process at the other end has ended. What it wrote before can still be read.
    pub has_hung_up: bool,
    /// That process. It was opened before anything was heard from it.
    pub pid: Option<Pid>,
}

impl Stage {
    /// Where bytes of frames go.
    fn stream(&mut self) -> Option<&mut dyn ByteStream> {
        match self {
            Stage::Near(line, _) => Some(&mut **line),
            Stage::Far(raw, _) => Some(raw),
            _ => None,
        }
    }
}

impl Conn {
    fn new(stage: Stage, peer: Option<SocketAddr>, dialled: bool) -> Conn {
        let (channels, last) = (HashMap::new(), u32::from(!dialled));
        let (part, out, since) = (Vec::new(), Vec::new(), Instant::now());
        let (is_of_own, body, sent, writing, has_hung_up) = (false, None, 0, false, false);
        Conn {
            stage,
            peer,
            since,
            dialled,
            channels,
            last,
            is_of_own,
            part,
            body,
            out,
            sent,
            writing,
            has_hung_up,
            pid: None,
        }
    }

    /// That of the router's own process.
    pub fn own(process: [u8; 16]) -> Conn {
        Conn::new(Stage::Own(process), None, false)
    }

    pub fn accepted(raw: Raw, peer: Option<SocketAddr>, near: bool, trust: &Arc<Trust>) -> Conn {
        let pid = raw.pid().and_then(Pid::open);
        let admitting = Admitting::begin(raw, trust, Protocol::Router, near);
        Conn {
            pid: pid.ok().filter(|_| peer.is_none()),
            ..Conn::new(Stage::Admitting(Box::new(admitting)), peer, false)
        }
    }

    pub fn dial(to: SocketAddr) -> io::Result<Conn> {
        Ok(Conn::new(Stage::Connecting(start_connect(to)?), Some(to), true))
    }

    /// Its descriptor, where it has one alone.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Connecting(socket) => Some(socket.as_fd()),
            Stage::Proving(proving) => Some(proving.stream().as_fd()),
            Stage::Admitting(admitting) => Some(admitting.stream().as_fd()),
            Stage::Exchanging(raw, _) | Stage::Far(raw, _) => Some(raw.as_fd()),
            Stage::Near(..) | Stage::Lent(_) | Stage::Own(_) | Stage::Over => None,
        }
    }

    /// What its descriptor is watched for.
    fn interest(&self) -> EpollFlags {
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, self.writing || self.is_connecting());
        flags
    }

    /// Has it watched there, under this number.
    pub fn watch(&self, epoll: &Epoll, number: u64) -> nix::Result<()> {
        match &self.stage {
            Stage::Near(line, _) => line.watch(epoll, number),
            _ => self.fd().map_or(Ok(()), |fd| epoll.add(fd, EpollEvent::new(self.interest(), number))),
        }
    }

    pub fn unwatch(&self, epoll: &Epoll) {
        match &self.stage {
            Stage::Near(line, _) => line.unwatch(epoll),
            // The only error is that it is not watched.
            _ => drop(self.fd().map(|fd| epoll.delete(fd))),
        }
    }

    /// What it is watched for has changed.
    pub fn watch_on(&mut self, epoll: &Epoll, number: u64) {
        match &mut self.stage {
            Stage::Near(line, _) => line.wait_for_room(self.writing),
            _ => {
                let mut event = EpollEvent::new(self.interest(), number);
                let _ = self.fd().map(|fd| epoll.modify(fd, &mut event));
            }
        }
    }

    /// The memory of the process at the other end.
    pub fn line(&mut self) -> Option<&mut Line> {
        match &mut self.stage {
            Stage::Near(line, _) => Some(line),
            _ => None,
        }
    }

    pub fn is_own(&self) -> bool {
        matches!(self.stage, Stage::Own(_))
    }

    pub fn who(&self) -> Option<Who> {
        match self.stage {
            Stage::Far(_, process) => Some(Who::Router(process)),
            Stage::Near(_, process) | Stage::Lent(process) | Stage::Own(process) => Some(Who::Process(process)),
            _ => None,
        }
    }

    pub fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting(_))
    }

    /// Goes on with the set-up. `WouldBlock` and errors are told as such.
    pub fn set_up(&mut self, trust: &Arc<Trust>) -> io::Result<News> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Connecting(socket) => {
                if let Err(e) = is_connected(&socket) {
                    self.stage = Stage::Connecting(socket);
                    return Err(e);
                }
                let near = socket.is_near();
                let proving = Proving::begin(Raw::new(socket.into_fd()), trust, Protocol::Router, near)?;
                self.stage = Stage::Proving(Box::new(proving));
                Ok(News::NotYet)
            }
            Stage::Proving(mut proving) => match proving.prove() {
                Ok(Ok(process)) => {
                    let raw = proving.into_link().into_stream().ok_or(ErrorKind::InvalidData)?;
                    self.stage = Stage::Far(raw, process);
                    Ok(News::Router(process))
                }
                Ok(Err(why)) => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
                Err(e) => {
                    self.stage = Stage::Proving(proving);
                    Err(e)
                }
            },
            Stage::Admitting(mut admitting) => match admitting.admit() {
                Ok(Ok(Proved { process, .. })) => {
                    let raw = admitting.into_link().into_stream().ok_or(ErrorKind::InvalidData)?;
                    if self.peer.is_none() {
                        self.stage = Stage::Exchanging(raw, process);
                        return Ok(News::NotYet);
                    }
                    self.stage = Stage::Far(raw, process);
                    Ok(News::Router(process))
                }
                Ok(Err(why)) => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
                Err(e) => {
                    self.stage = Stage::Admitting(admitting);
                    Err(e)
                }
            },
            Stage::Exchanging(raw, process) => match raw.take() {
                Ok((theirs, [])) => {
                    self.stage = Stage::Exchanging(raw, process);
                    Ok(News::Process(process, theirs))
                }
                Err(e) => {
                    self.stage = Stage::Exchanging(raw, process);
                    Err(e)
                }
            },
            other => {
                self.stage = other;
                Ok(News::NotYet)
            }
        }
    }

    /// Hands our listeners to a process, and the memory through which frames go from now on.
    pub fn let_in(&mut self, ours: &[Kept]) -> io::Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Exchanging(raw, process) => {
                self.stage = Stage::Near(Box::new(Line::open(raw, ours)?), process);
                Ok(())
            }
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }

    // ---- channels

    /// A number for a channel that this side opens.
    pub fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(2);
        while self.channels.contains_key(&self.last) {
            self.last = self.last.wrapping_add(2);
        }
        self.last
    }

    /// Whether the other side may open a channel of this number.
    pub fn may_open(&self, channel: u32) -> bool {
        channel % 2 == u32::from(self.dialled) && !self.channels.contains_key(&channel)
    }

    // ---- in

    /// Reads once, and returns how many bytes are in the buffer. If the body that comes next is of the channel of this number, it goes
    /// to its place. `WouldBlock` if nothing has come.
    pub fn read(&mut self, buffer: &mut [u8], wanted: Option<(u32, &mut Into<'_, '_>)>) -> io::Result<usize> {
        // What follows the rest of a frame is read in place.
        let little = wanted.is_some() || matches!(self.stage, Stage::Near(..));
        let buffer = if little { &mut buffer[..LITTLE] } else { buffer };
        if let (Some((number, into)), Some((channel, left))) = (wanted, self.body)
            && number == channel
        {
            let before = into.got();
            let behind = if left < LITTLE { LITTLE } else { HEAD };
            return match into.read(left, &mut buffer[..behind], |bufs| self.read_some(bufs))? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                n => {
                    let put = into.got() - before;
                    self.body = (put < left).then_some((channel, left - put));
                    Ok(n - put)
                }
            };
        }
        let have = self.part.len();
        buffer[..have].copy_from_slice(&self.part);
        match self.read_some(&mut [IoSliceMut::new(&mut buffer[have..])])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            n => {
                self.part.clear();
                Ok(have + n)
            }
        }
    }

    fn read_some(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut read = |conn: &mut Conn| conn.stage.stream().ok_or(ErrorKind::NotConnected)?.read_vectored(bufs);
        match read(self) {
            Err(e) if e.kind() == ErrorKind::WouldBlock && self.has_ended() => match read(self) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(0),
                other => other,
            },
            other => other,
        }
    }

    /// Whether the process at the other end has ended. Who looks by itself may not have been told.
    fn has_ended(&mut self) -> bool {
        self.has_hung_up |= self.is_of_own && matches!(&self.stage, Stage::Near(line, _) if line.is_over());
        self.has_hung_up
    }

    /// The memory of a process, if what comes there can be read in place: no part of a frame is kept. What is to be written meanwhile waits.
    pub fn lend(&mut self) -> Option<Box<Line>> {
        let process = match self.stage {
            Stage::Near(_, process) if self.part.is_empty() => process,
            _ => return None,
        };
        match std::mem::replace(&mut self.stage, Stage::Lent(process)) {
            Stage::Near(line, _) => Some(line),
            _ => None,
        }
    }

    pub fn give_back(&mut self, line: Box<Line>) {
        if let Stage::Lent(process) = self.stage {
            self.stage = Stage::Near(line, process);
        }
    }

    /// Whether no part of a frame is kept.
    pub fn is_between(&self) -> bool {
        self.part.is_empty()
    }

    /// Keeps what is no whole head or short frame yet.
    pub fn keep(&mut self, part: &[u8]) {
        debug_assert!(part.len() < HEAD + MAX_SAID);
        self.part.extend_from_slice(part);
    }

    // ---- out

    pub fn is_waiting(&self) -> bool {
        self.sent < self.out.len()
    }

    pub fn say(&mut self, channel: u32, kind: Kind, body: &[u8]) {
        self.out.extend_from_slice(&whole(channel, kind, body));
    }

    /// Passes data on. Little data leaves with the next [`Conn::flush`].
    pub fn pass(&mut self, channel: u32, data: &[IoSlice<'_>]) {
        let len = data.iter().map(|piece| piece.len()).sum();
        let head = Head { channel, kind: Kind::Data, len }.encode();
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let pieces = &mut pieces[..=data.len()];
        pieces[0] = IoSlice::new(&head);
        pieces[1..].copy_from_slice(data);
        let mut sent = 0;
        if len >= LARGE
            && !self.is_waiting()
            && let Some(stream) = self.stage.stream()
        {
            // What fails here fails for the flush too.
            sent = stream.write_vectored(pieces).unwrap_or(0);
        }
        put_rest(&mut self.out, pieces, sent);
    }

    /// Takes what is to be written.
    pub fn take(&mut self, to: &mut [u8]) -> usize {
        let n = to.len().min(self.out.len() - self.sent);
        to[..n].copy_from_slice(&self.out[self.sent..][..n]);
        self.sent += n;
        self.tidy();
        n
    }

    /// Writes what the connection takes. An error if it has ended, or if it takes too little.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            let rest = [IoSlice::new(&self.out[self.sent..])];
            let Some(stream) = self.stage.stream() else { break };
            match stream.write_vectored(&rest) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => return Err(e),
            }
        }
        self.tidy();
        if self.out.len() - self.sent > MOST_KEPT { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Drops what has been written.
    fn tidy(&mut self) {
        if self.sent == self.out.len() {
            self.sent = 0;
            self.out.clear();
            self.out.shrink_to(SPARE);
        } else if self.sent > SPARE {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }
}
