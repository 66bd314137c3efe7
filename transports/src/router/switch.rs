//! The router itself: it passes frames between the processes of this node and the routers of others ([`passing`]).
//!
//! It knows which process each local connection is of, and has at most one connection that it dialled to each other router. It is turned
//! by its thread ([`super::host`]), and by the calls of the process that has it ([`own`]). Invariants: what comes on a channel is passed on
//! in its order; a channel is known on two connections or on none, but for one whose other end is still waited for; nothing blocks.

mod looking;
mod own;
mod passing;
mod state;

pub(super) use state::{AT_ONCE, NUDGE, Switch, TICK};

use super::conn::{Conn, Id, News, Parked, To, Who};
use super::departed::Departed;
use super::frame::Why;
use super::local::{Listener, MOST_LISTENERS, Raw};
use crate::ip::{Kept, MAX_ADDRESSES, Socket};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;
use state::{BUFFER, CONNS, LIMIT, LISTENERS, LOCAL, MOST_AT_ONCE, MOST_NEW};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use trust::Trust;

impl Switch {
    /// Readiness is told by [`Switch::epoll`], as is a nudge.
    pub fn new(trust: Arc<Trust>, local: Listener, nudge: &EventFd) -> io::Result<Switch> {
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        epoll.add(nudge, EpollEvent::new(EpollFlags::EPOLLIN, NUDGE))?;
        epoll.add(&local, EpollEvent::new(EpollFlags::EPOLLIN, LOCAL))?;
        Ok(Switch {
            trust,
            local,
            listeners: Vec::new(),
            epoll,
            own: None,
            conns: BTreeMap::new(),
            last: 0,
            processes: HashMap::new(),
            departed: Departed::default(),
            routers: HashMap::new(),
            dials: HashMap::new(),
            fresh: BTreeSet::new(),
            waiting: BTreeSet::new(),
            buffer: vec![0; BUFFER],
            touched: Vec::new(),
            looked_at: Vec::new(),
            has_no_descriptors: false,
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

    /// What tells of the connections that the thread of the router watches.
    pub fn epoll(&self) -> Arc<Epoll> {
        self.epoll.clone()
    }

    pub fn listeners(&self) -> io::Result<Vec<Kept>> {
        self.listeners.iter().map(Kept::again).collect()
    }

    /// Whether time limits run, so that [`Switch::look_at_time`] is to be called each [`TICK`].
    pub fn is_timed(&self) -> bool {
        !self.fresh.is_empty() || !self.waiting.is_empty()
    }

    /// Does what this event of [`Switch::epoll`] tells of.
    pub fn on_event(&mut self, event: &EpollEvent) {
        match event.data() {
            LOCAL => self.accept_local(),
            conn if conn >= CONNS => {
                let id = (conn - CONNS) as Id;
                self.on_conn(id, event.events());
                self.look_at(id);
            }
            listener => self.accept((listener - LISTENERS) as usize),
        }
    }

    pub fn look_at_time(&mut self) {
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

    fn no_more(&mut self, e: &io::Error) {
        if matches!(e.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE)) {
            base::log_seldom!(Error, "the router cannot accept a connection: {e}");
            self.has_no_descriptors = true;
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
        if conn.watch(&self.epoll, CONNS + u64::from(id)).is_err() {
            return None;
        }
        self.conns.insert(id, conn);
        self.fresh.insert(id);
        self.set_up(id);
        Some(id)
    }

    pub fn drop_conn(&mut self, id: Id) {
        self.drop_conn_for(id, Why::NoRouter);
    }

    /// `awaited`: what those are told that wait for it.
    fn drop_conn_for(&mut self, id: Id, awaited: Why) {
        if self.own.as_ref().is_some_and(|own| own.id == id) {
            self.own_leaves();
            self.ring_own();
        }
        let Some(mut conn) = self.conns.remove(&id) else { return };
        conn.unwatch(self.watching(&conn));
        let why = match conn.who() {
            Some(Who::Process(process)) => {
                if self.processes.get(&process) == Some(&id) {
                    self.processes.remove(&process);
                    self.departed.add(process, conn.pid.take());
                }
                Why::Gone
            }
            _ => Why::NoRouter,
        };
        self.routers.retain(|_, known| *known != id);
        // Also one that the other router has dialled: it serves for the addresses at which that one was reached since.
        let addresses: Vec<_> = self.dials.extract_if(|_, known| *known == id).map(|(address, _)| address).collect();
        if !addresses.is_empty() {
            // Those that wait for this very connection.
            let waits = |parked: &Parked| parked.open.router.is_some_and(|router| addresses.contains(&router));
            for (from, channel) in self.parked(waits) {
                self.end(from, channel, awaited);
            }
        }
        for to in conn.channels.values() {
            if let To::Channel(other, channel) = to {
                self.end(*other, *channel, why);
            }
        }
    }

    /// Where this connection is watched.
    fn watching(&self, conn: &Conn) -> &Epoll {
        match &self.own {
            Some(own) if conn.is_of_own => &own.epoll,
            _ => &self.epoll,
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
        if events.contains(EpollFlags::EPOLLOUT) || conn.is_waiting() {
            self.touched.push(id);
        }
        conn.has_hung_up |= events.contains(EpollFlags::EPOLLRDHUP);
        if events.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR)
        {
            self.read(id, None);
        }
    }

    fn set_up(&mut self, id: Id) {
        let trust = self.trust.clone();
        while let Some(conn) = self.conns.get_mut(&id) {
            let was_connecting = conn.is_connecting();
            let news = conn.set_up(&trust);
            if was_connecting && !conn.is_connecting() {
                conn.watch_on(&self.epoll, CONNS + u64::from(id));
            }
            match news {
                Ok(News::NotYet) => (),
                Ok(News::Process(process, theirs)) => return self.let_in(id, process, theirs),
                Ok(News::Router(router)) => return self.met(id, router),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => {
                    let peer = conn.peer.map_or("a process of this host".into(), |peer| peer.to_string());
                    base::log_seldom!(Info, "no connection between the router and {peer}: {e}");
                    return self.drop_conn_for(id, Why::of_dial(&e));
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
        conn.unwatch(&self.epoll);
        let is_in = conn.let_in(&self.listeners).is_ok() && conn.watch(&self.epoll, CONNS + u64::from(id)).is_ok();
        if !is_in {
            return self.drop_conn(id);
        }
        self.come(id, process);
    }

    /// Frames of this process come on this connection from now on.
    fn come(&mut self, id: Id, process: [u8; 16]) {
        if let Some(before) = self.processes.insert(process, id) {
            self.drop_conn(before);
            self.processes.insert(process, id);
        }
        self.departed.remove(&process);
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
    /// Writes what the connections take, and has epoll tell when they take more.
    pub fn flush(&mut self) {
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
            if conn.is_own() {
                if waiting {
                    self.ring_own();
                }
            } else if std::mem::replace(&mut conn.writing, waiting) != waiting {
                let epoll = match &self.own {
                    Some(own) if conn.is_of_own => &own.epoll,
                    _ => &self.epoll,
                };
                conn.watch_on(epoll, CONNS + u64::from(id));
                if !waiting {
                    self.has_room();
                }
            }
        }
    }
}
