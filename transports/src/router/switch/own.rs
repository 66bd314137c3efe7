//! The process that has the router: its calls turn the router themselves, so none of its messages waits for the router's thread.
//!
//! It has a connection like others, but frames for it stay in memory until it takes them, and data goes from its memory to another
//! connection, or from there to its memory, without a copy between. A connection that carries channels of this process alone is watched by
//! this process; the router's thread sleeps on.

use super::super::bell::bell;
use super::super::conn::{Conn, Id, To};
use super::super::into::Into;
use super::super::line::Line;
use super::state::{AT_ONCE, CONNS, OwnProcess, Switch, Wanted};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io;
use std::sync::Arc;

/// What is watched beside connections: the bell.
const BELL: u64 = 0;

impl Switch {
    pub(in crate::router) fn connect_own(&mut self, process: [u8; 16]) -> io::Result<(Id, Arc<Epoll>)> {
        if let Some(before) = self.own.as_ref().map(|own| own.id) {
            self.drop_conn(before);
        }
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let bell = bell()?;
        epoll.add(&bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        self.last += 1;
        let id = self.last;
        self.conns.insert(id, Conn::own(process));
        self.own =
            Some(OwnProcess { id, epoll: epoll.clone(), bell, is_rung: false, has_room: false, has_left: false });
        self.come(id, process);
        Ok((id, epoll))
    }

    /// A channel of this connection leads to that one: who is to watch it?
    pub(in crate::router) fn judge_watch(&mut self, id: Id, other: Id) {
        let Some(own) = self.own.as_ref().filter(|own| own.id != id) else { return };
        let Some(conn) = self.conns.get(&id) else { return };
        let is_of_own = other == own.id && !own.has_left && (conn.is_of_own || conn.channels.len() == 1);
        self.watch_by(id, is_of_own);
    }

    pub(in crate::router) fn watch_by(&mut self, id: Id, is_of_own: bool) {
        let Some(conn) = self.conns.get_mut(&id).filter(|_| self.own.is_some()) else { return };
        if std::mem::replace(&mut conn.is_of_own, is_of_own) != is_of_own {
            self.move_watch(id);
        }
    }

    /// Another epoll than before tells of this connection.
    pub(in crate::router) fn move_watch(&mut self, id: Id) {
        let (Some(own), Some(conn)) = (&self.own, self.conns.get_mut(&id)) else { return };
        let (from, to) = if conn.is_of_own { (&self.epoll, &own.epoll) } else { (&own.epoll, &self.epoll) };
        conn.unwatch(from);
        if let Err(e) = conn.watch(to, CONNS + u64::from(id)) {
            base::log!(Error, "epoll: {e}");
        }
        // Who looked at it does not any more.
        conn.line().into_iter().for_each(Line::arm);
    }

    /// The own process looks at no connection from now on.
    pub(in crate::router) fn own_leaves(&mut self) {
        let all: Vec<_> = self.conns.iter().filter(|(_, conn)| conn.is_of_own).map(|(id, _)| *id).collect();
        all.into_iter().for_each(|id| self.watch_by(id, false));
        if let Some(own) = &mut self.own {
            own.has_left = true;
        }
    }

    /// Frames wait for the own process.
    pub(in crate::router) fn ring_own(&mut self) {
        self.own.iter_mut().for_each(OwnProcess::ring);
    }

    /// A connection takes more that took no more before.
    pub(in crate::router) fn has_room(&mut self) {
        if let Some(own) = &mut self.own {
            own.has_room = true;
            own.ring();
        }
    }

    /// Whether there may be room since this was asked last.
    pub(in crate::router) fn take_room(&mut self) -> bool {
        self.own.as_mut().is_some_and(|own| std::mem::take(&mut own.has_room))
    }

    /// Does what is to be done on the connections that this process watches.
    pub(in crate::router) fn turn(&mut self) {
        let Some(epoll) = self.own.as_ref().map(|own| own.epoll.clone()) else { return };
        let mut events = [EpollEvent::empty(); AT_ONCE];
        let n = epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in events[..n].iter().filter(|event| event.data() != BELL) {
            self.on_conn((event.data() - CONNS) as Id, event.events());
        }
    }

    /// Where a channel of the own process leads to.
    pub(in crate::router) fn leads_to(&self, own: Id, channel: u32) -> Option<(Id, u32)> {
        match self.conns.get(&own)?.channels.get(&channel)? {
            To::Channel(other, number) => Some((*other, *number)),
            To::Parked(_) => None,
        }
    }

    /// Whether nothing waits to be written where a channel of the own process leads to.
    pub(in crate::router) fn is_free(&mut self, own: Id, channel: u32) -> bool {
        let Some((to, _)) = self.leads_to(own, channel).filter(|(to, _)| *to != own) else { return true };
        let is_waiting = |switch: &Switch| switch.conns.get(&to).is_some_and(Conn::is_waiting);
        if is_waiting(self) {
            self.touched.push(to);
            self.flush();
        }
        !is_waiting(self)
    }

    /// Reads the connection that a channel of the own process leads to.
    pub(in crate::router) fn read_for(&mut self, own: Id, channel: u32, into: &mut Into<'_, '_>) {
        let Some((on, number)) = self.leads_to(own, channel) else { return self.turn() };
        if self.conns.get(&on).is_some_and(Conn::is_waiting) {
            self.touched.push(on);
        }
        self.read(on, Some(Wanted { on, number, into }));
    }

    /// Takes frames for the own process. `None`: it is not connected any more.
    pub(in crate::router) fn take(&mut self, id: Id, to: &mut [u8]) -> Option<usize> {
        let conn = self.conns.get_mut(&id)?;
        let n = conn.take(to);
        if !conn.is_waiting()
            && let Some(own) = self.own.as_mut().filter(|own| own.id == id)
        {
            own.silence();
        }
        Some(n)
    }
}
