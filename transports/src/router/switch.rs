//! The router itself: it passes frames between the processes of this node and the routers of others.
//!
//! It knows which process each local connection is of, and has at most one connection that it dialled to each other router.
//! Invariants: a frame is passed on whole and in its order; a channel is known on two connections or on none, but for one whose
//! other end is still waited for; nothing blocks but the wait for what is to be done.

use super::conn::{Conn, Id, News, Parked, To, Who};
use super::frame::{HEAD, Head, Kind, Open, Why};
use super::local::{Listener, MOST_LISTENERS, Raw};
use super::trunk::MOST_CHANNELS;
use crate::ip::{Kept, MAX_ADDRESSES, Socket};
use base::bytes::Malformed;
use base::protocol::router::MAX_PIECE;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::Trust;

/// How long a connection may take until it carries frames.
const LIMIT: Duration = Duration::from_secs(5);
/// How long a channel waits for its other end: a process whose router has died comes to the new one sooner.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often time limits are looked at, in milliseconds, while there are any.
const TICK: u16 = 50;
/// Bytes that are read from one connection before others have their turn.
const BUFFER: usize = 256 << 10;
/// Data that is kept for a channel whose other end is waited for: the begin of a handshake.
const MOST_PARKED: usize = 4 << 10;
/// Connections that have not proved themselves; the oldest gives way.
const MOST_NEW: usize = 64;
/// Processes that are remembered after they have gone.
const MOST_GONE: usize = 1024;
/// The most connections that are accepted at one listener before others have their turn.
const MOST_AT_ONCE: usize = 50;
/// What is watched: the order to end, the local name, listeners; connections have their number behind [`CONNS`].
const STOP: u64 = 0;
const LOCAL: u64 = 1;
const LISTENERS: u64 = 2;
const CONNS: u64 = 1 << 16;

/// A router.
pub(super) struct Switch {
    trust: Arc<Trust>,
    local: Listener,
    listeners: Vec<Kept>,
    epoll: Epoll,
    stop: Arc<EventFd>,
    conns: BTreeMap<Id, Conn>,
    last: Id,
    processes: HashMap<[u8; 16], Id>,
    gone: VecDeque<[u8; 16]>,
    /// The connection to each other router that new channels go over, and those to addresses, which may not stand yet.
    routers: HashMap<[u8; 16], Id>,
    dials: HashMap<SocketAddr, Id>,
    /// Connections that carry no frames yet, and channels whose other end is waited for. Some of these may be over.
    fresh: BTreeSet<Id>,
    waiting: BTreeSet<(Id, u32)>,
    buffer: Vec<u8>,
    /// Connections with something to be written.
    touched: Vec<Id>,
}

impl Switch {
    pub fn new(trust: Arc<Trust>, local: Listener, stop: &Arc<EventFd>) -> io::Result<Switch> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        epoll.add(&local, EpollEvent::new(EpollFlags::EPOLLIN, LOCAL))?;
        Ok(Switch {
            trust,
            local,
            listeners: Vec::new(),
            epoll,
            stop: stop.clone(),
            conns: BTreeMap::new(),
            last: 0,
            processes: HashMap::new(),
            gone: VecDeque::new(),
            routers: HashMap::new(),
            dials: HashMap::new(),
            fresh: BTreeSet::new(),
            waiting: BTreeSet::new(),
            buffer: vec![0; BUFFER + HEAD + MAX_PIECE],
            touched: Vec::new(),
        })
    }

    /// Listens there too.
    pub fn adopt(&mut self, listener: Kept) -> io::Result<()> {
        if self.listeners.len() < MOST_LISTENERS.min(MAX_ADDRESSES) {
            listener.set_nonblocking(true)?;
            let number = LISTENERS + self.listeners.len() as u64;
            self.epoll.add(&*listener, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
            self.listeners.push(listener);
        }
        Ok(())
    }

    fn is_own(&self, address: &SocketAddr) -> bool {
        self.listeners.iter().any(|listener| listener.local_addr().is_ok_and(|own| own == *address))
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let is_timed = !self.fresh.is_empty() || !self.waiting.is_empty();
            let sleep = if is_timed { EpollTimeout::from(TICK) } else { EpollTimeout::NONE };
            let n = match self.epoll.wait(&mut events, sleep) {
                Ok(n) => n,
                Err(Errno::EINTR) => 0,
                Err(e) => return base::log!(Error, "the router of this host ends: {e}"),
            };
            for event in &events[..n] {
                match event.data() {
                    STOP => {
                        let _ = self.stop.read();
                        return;
                    }
                    LOCAL => self.accept_local(),
                    conn if conn >= CONNS => self.on_conn((conn - CONNS) as Id, event.events()),
                    listener => self.accept((listener - LISTENERS) as usize),
                }
            }
            self.flush();
            if is_timed {
                self.look_at_time();
                self.flush();
            }
        }
    }

    fn look_at_time(&mut self) {
        let now = Instant::now();
        let conns = &self.conns;
        self.fresh.retain(|id| conns.get(id).is_some_and(|conn| conn.who().is_none()));
        let late = |id: &&Id| conns.get(id).is_some_and(|conn| now.duration_since(conn.since) >= LIMIT);
        for id in self.fresh.iter().filter(late).copied().collect::<Vec<_>>() {
            self.drop_conn(id);
        }
        for (id, channel) in self.parked(|parked| now >= parked.until) {
            self.end(id, channel, Why::NotThere);
        }
    }

    // ---- connections come and go

    fn accept_local(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            match self.local.accept() {
                Ok(raw) => {
                    let conn = Conn::accepted(raw, None, true, &self.trust);
                    self.insert(conn);
                }
                Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                    base::log_seldom!(Info, "another user's process has come to the router: refused");
                }
                Err(e) => return self.no_more(&e),
            }
        }
    }

    fn accept(&mut self, n: usize) {
        for _ in 0..MOST_AT_ONCE {
            let Some(listener) = self.listeners.get(n) else { return };
            match listener.accept() {
                Ok((stream, peer)) => {
                    let Ok(socket) = Socket::new(stream) else { continue };
                    let near = socket.is_near();
                    let conn = Conn::accepted(Raw::new(socket.into_fd()), Some(peer), near, &self.trust);
                    self.insert(conn);
                }
                Err(e) => return self.no_more(&e),
            }
        }
    }

    fn no_more(&self, e: &io::Error) {
        if matches!(e.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE)) {
            base::log_seldom!(Error, "the router cannot accept a connection: {e}");
            // The descriptor goes on telling: others may be closed meanwhile.
            std::thread::sleep(Duration::from_millis(TICK.into()));
        }
    }

    fn insert(&mut self, conn: Conn) -> Option<Id> {
        let conns = &self.conns;
        self.fresh.retain(|id| conns.get(id).is_some_and(|conn| conn.who().is_none()));
        let mut oldest = self.fresh.iter().filter(|id| conns.get(id).is_some_and(|conn| !conn.dialled)).copied();
        if self.fresh.len() >= MOST_NEW
            && let Some(oldest) = oldest.next()
        {
            self.drop_conn(oldest);
        }
        self.last += 1;
        let id = self.last;
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, conn.is_connecting());
        let is_watched =
            conn.fd().is_some_and(|fd| self.epoll.add(fd, EpollEvent::new(flags, CONNS + u64::from(id))).is_ok());
        if !is_watched {
            return None;
        }
        self.conns.insert(id, conn);
        self.fresh.insert(id);
        self.set_up(id);
        Some(id)
    }

    fn drop_conn(&mut self, id: Id) {
        let Some(conn) = self.conns.remove(&id) else { return };
        if let Some(fd) = conn.fd() {
            let _ = self.epoll.delete(fd);
        }
        let why = match conn.who() {
            Some(Who::Process(process)) => {
                if self.processes.get(&process) == Some(&id) {
                    self.processes.remove(&process);
                    self.gone.push_back(process);
                    if self.gone.len() > MOST_GONE {
                        self.gone.pop_front();
                    }
                }
                Why::Gone
            }
            _ => Why::NoRouter,
        };
        self.routers.retain(|_, known| *known != id);
        if let Some(address) = conn.peer
            && self.dials.get(&address) == Some(&id)
        {
            self.dials.remove(&address);
            // Those that wait for this very connection.
            for (from, channel) in self.parked(|parked| parked.open.router == Some(address)) {
                self.end(from, channel, Why::NoRouter);
            }
        }
        for to in conn.channels.values() {
            if let To::Channel(other, channel) = to {
                self.end(*other, *channel, why);
            }
        }
    }

    /// The channels that wait for their other end, and of which this is true.
    fn parked(&mut self, is: impl Fn(&Parked) -> bool) -> Vec<(Id, u32)> {
        let mut all = Vec::new();
        let conns = &self.conns;
        self.waiting.retain(|&(id, channel)| match conns.get(&id).and_then(|conn| conn.channels.get(&channel)) {
            Some(To::Parked(parked)) => {
                all.extend(is(parked).then_some((id, channel)));
                true
            }
            _ => false,
        });
        all
    }

    fn on_conn(&mut self, id: Id, events: EpollFlags) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.who().is_none() {
            return self.set_up(id);
        }
        if events.contains(EpollFlags::EPOLLOUT) {
            self.touched.push(id);
        }
        if events.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.read(id);
        }
    }

    fn set_up(&mut self, id: Id) {
        let trust = self.trust.clone();
        while let Some(conn) = self.conns.get_mut(&id) {
            let was_connecting = conn.is_connecting();
            let news = conn.set_up(&trust);
            if was_connecting
                && !conn.is_connecting()
                && let Some(fd) = conn.fd()
            {
                let mut event = EpollEvent::new(EpollFlags::EPOLLIN, CONNS + u64::from(id));
                let _ = self.epoll.modify(fd, &mut event);
            }
            match news {
                Ok(News::NotYet) => (),
                Ok(News::Process(process, theirs)) => return self.let_in(id, process, theirs),
                Ok(News::Router(router)) => return self.met(id, router),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => {
                    let peer = conn.peer.map_or("a process of this host".into(), |peer| peer.to_string());
                    base::log_seldom!(Info, "no connection between the router and {peer}: {e}");
                    return self.drop_conn(id);
                }
            }
        }
    }

    /// A process of this node has come.
    fn let_in(&mut self, id: Id, process: [u8; 16], theirs: Vec<Kept>) {
        for listener in theirs {
            let Ok(address) = listener.local_addr() else { continue };
            if !self.is_own(&address) {
                let _ = self.adopt(listener);
            }
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.let_in(&self.listeners).is_err() {
            return self.drop_conn(id);
        }
        if let Some(before) = self.processes.insert(process, id) {
            self.drop_conn(before);
            self.processes.insert(process, id);
        }
        self.gone.retain(|gone| *gone != process);
        for (from, channel) in self.parked(|parked| parked.open.to == process) {
            self.unpark(from, channel, id);
        }
    }

    /// A router has proved itself.
    fn met(&mut self, id: Id, router: [u8; 16]) {
        let Some(conn) = self.conns.get(&id) else { return };
        let (peer, dialled) = (conn.peer, conn.dialled);
        let me = self.trust.identity().process();
        if !dialled {
            self.routers.entry(router).or_insert(id);
            return;
        }
        let Some(address) = peer else { return };
        if router == me {
            // The address leads here: whoever is asked for there is not at another node.
            for (from, channel) in self.parked(|parked| parked.open.router == Some(address)) {
                self.end(from, channel, Why::NotThere);
            }
            self.dials.remove(&address);
            return self.drop_conn(id);
        }
        let to = *self.routers.entry(router).or_insert(id);
        self.dials.insert(address, to);
        for (from, channel) in self.parked(|parked| parked.open.router == Some(address)) {
            self.unpark(from, channel, to);
        }
        if to != id {
            self.drop_conn(id);
        }
    }

    // ---- channels

    /// Ends a channel that this connection knows, and tells it.
    fn end(&mut self, id: Id, channel: u32, why: Why) {
        if let Some(conn) = self.conns.get_mut(&id)
            && conn.channels.remove(&channel).is_some()
        {
            conn.say(channel, Kind::Close, &why.encode());
            self.touched.push(id);
        }
    }

    fn open(&mut self, id: Id, channel: u32, mut open: Open) -> Result<(), Malformed> {
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        if !conn.may_open(channel) {
            return Err(Malformed);
        }
        let is_full = conn.channels.len() >= MOST_CHANNELS;
        let from_router = match conn.who() {
            Some(Who::Process(process)) if process == open.from => false,
            Some(Who::Router(_)) => true,
            _ => return Err(Malformed),
        };
        if from_router {
            open.router = conn.peer;
        }
        let until = Instant::now() + PATIENCE;
        let router = open.router;
        let to = open.to;
        conn.channels.insert(channel, To::Parked(Box::new(Parked { open, data: Vec::new(), until })));
        self.waiting.insert((id, channel));
        if is_full {
            self.end(id, channel, Why::Full);
        } else if let Some(&there) = self.processes.get(&to) {
            self.unpark(id, channel, there);
        } else if self.gone.contains(&to) {
            self.end(id, channel, Why::Gone);
        } else if let Some(address) = router.filter(|address| !from_router && !self.is_own(address)) {
            self.dial(id, channel, address);
        }
        Ok(())
    }

    /// Opens a channel over the connection to the router at this address, or waits for that.
    fn dial(&mut self, id: Id, channel: u32, address: SocketAddr) {
        match self.dials.get(&address) {
            Some(&there) => match self.conns.get(&there).map(Conn::who) {
                Some(Some(_)) => self.unpark(id, channel, there),
                Some(None) => (),
                None => self.end(id, channel, Why::NoRouter),
            },
            None => {
                let dialled = Conn::dial(address).ok().and_then(|conn| self.insert(conn));
                match dialled {
                    Some(there) if self.conns.contains_key(&there) => drop(self.dials.insert(address, there)),
                    _ => return self.end(id, channel, Why::NoRouter),
                }
                // Whoever waits for a router waits as long as its connection may take.
                if let Some(To::Parked(parked)) =
                    self.conns.get_mut(&id).and_then(|conn| conn.channels.get_mut(&channel))
                {
                    parked.until = Instant::now() + LIMIT + PATIENCE;
                }
            }
        }
    }

    /// Opens the other half of a channel, over this connection.
    fn unpark(&mut self, id: Id, channel: u32, there: Id) {
        let Some(other) = self.conns.get_mut(&there) else { return self.end(id, channel, Why::NotThere) };
        if other.channels.len() >= MOST_CHANNELS {
            return self.end(id, channel, Why::Full);
        }
        let number = other.next();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(To::Parked(parked)) = conn.channels.insert(channel, To::Channel(there, number)) else { return };
        let Some(other) = self.conns.get_mut(&there) else { return };
        other.channels.insert(number, To::Channel(id, channel));
        other.say(number, Kind::Open, &parked.open.encode());
        if !parked.data.is_empty() {
            other.pass(number, &parked.data);
        }
        self.touched.push(there);
    }

    // ---- frames

    fn read(&mut self, id: Id) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = match self.conns.get_mut(&id) {
            Some(conn) => conn.read(&mut buffer),
            None => Ok(0),
        };
        match read {
            Ok(0) => self.drop_conn(id),
            Ok(n) => match self.pass_all(id, &buffer[..n]) {
                Ok(passed) => {
                    if let Some(conn) = self.conns.get_mut(&id) {
                        conn.keep(&buffer[passed..n]);
                    }
                }
                Err(Malformed) => {
                    base::log_seldom!(Error, "what makes no sense was said to the router: the connection is closed");
                    self.drop_conn(id);
                }
            },
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
            Err(_) => self.drop_conn(id),
        }
        self.buffer = buffer;
    }

    /// Passes all whole frames on. Returns how many bytes they have.
    fn pass_all(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while let Some((head, rest)) = bytes[at..].split_first_chunk::<HEAD>() {
            let head = Head::decode(head)?;
            let Some(body) = rest.get(..head.len) else { break };
            at += HEAD + head.len;
            self.pass(id, head, body)?;
        }
        Ok(at)
    }

    fn pass(&mut self, id: Id, head: Head, body: &[u8]) -> Result<(), Malformed> {
        if head.kind == Kind::Open {
            return self.open(id, head.channel, Open::decode(body)?);
        }
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        // What comes for a channel that has ended is dropped.
        let Some(to) = conn.channels.get_mut(&head.channel) else { return Ok(()) };
        let (other, number) = match to {
            To::Channel(other, number) => (*other, *number),
            To::Parked(parked) => {
                match head.kind {
                    Kind::Data if parked.data.len() + body.len() <= MOST_PARKED => parked.data.extend_from_slice(body),
                    Kind::Close => drop(conn.channels.remove(&head.channel)),
                    _ => self.end(id, head.channel, Why::Full),
                }
                return Ok(());
            }
        };
        if head.kind == Kind::Close {
            Why::decode(body)?;
            conn.channels.remove(&head.channel);
        }
        let Some(other_conn) = self.conns.get_mut(&other) else { return Ok(()) };
        match head.kind {
            Kind::Data => other_conn.pass(number, body),
            _ => other_conn.say(number, head.kind, body),
        }
        if head.kind == Kind::Close {
            other_conn.channels.remove(&number);
        }
        if self.touched.last() != Some(&other) {
            self.touched.push(other);
        }
        Ok(())
    }

    /// Writes what the connections take, and has epoll tell when they take more.
    fn flush(&mut self) {
        while let Some(id) = self.touched.pop() {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            if let Err(e) = conn.flush() {
                if e.kind() == ErrorKind::TimedOut {
                    base::log_seldom!(Error, "a connection of the router takes nothing any more: it is closed");
                }
                self.drop_conn(id);
                continue;
            }
            let waiting = conn.is_waiting();
            if std::mem::replace(&mut conn.writing, waiting) != waiting
                && let Some(fd) = conn.fd()
            {
                let mut flags = EpollFlags::EPOLLIN;
                flags.set(EpollFlags::EPOLLOUT, waiting);
                let _ = self.epoll.modify(fd, &mut EpollEvent::new(flags, CONNS + u64::from(id)));
            }
        }
    }
}
