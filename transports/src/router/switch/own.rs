//! The process that has the router: its calls turn the router themselves, so none of its messages waits for the router's thread.
//!
//! It has a connection like others, but frames for it stay in memory until it takes them, and data goes from its memory to another
//! connection, or from there to its memory, without a copy between. A connection that carries channels of this process alone is watched by
//! this process; the router's thread sleeps on.

use super::super::conn::{Conn, Id, To};
use super::super::frame::Head;
use super::super::host::Host;
use super::super::into::Into;
use super::passing::Wanted;
use super::{AT_ONCE, CONNS, Switch};
use base::bytes::Malformed;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// What is watched beside connections: the bell.
const BELL: u64 = 0;

/// What the router knows of its own process.
pub(super) struct OwnProcess {
    pub id: Id,
    /// The connections that it watches, and the bell.
    pub epoll: Arc<Epoll>,
    /// Rung while frames wait for it, or it has not been told of room.
    bell: EventFd,
    is_rung: bool,
    /// A connection takes more that took no more before.
    has_room: bool,
    /// It does not look at its connections any more.
    has_left: bool,
}

impl OwnProcess {
    fn ring(&mut self) {
        if !std::mem::replace(&mut self.is_rung, true) {
            // An error would mean that it is rung already.
            let _ = self.bell.write(1);
        }
    }

    /// No frames wait any more.
    fn silence(&mut self) {
        if self.is_rung && !self.has_room {
            self.is_rung = false;
            let _ = self.bell.read();
        }
    }
}

impl Switch {
    fn connect_own(&mut self, process: [u8; 16]) -> io::Result<(Id, Arc<Epoll>)> {
        if let Some(before) = self.own.as_ref().map(|own| own.id) {
            self.drop_conn(before);
        }
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let bell = super::super::trunk::bell()?;
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
    pub(super) fn judge_watch(&mut self, id: Id, other: Id) {
        let Some(own) = self.own.as_ref().filter(|own| own.id != id) else { return };
        let Some(conn) = self.conns.get(&id) else { return };
        let is_of_own = other == own.id && !own.has_left && (conn.is_of_own || conn.channels.len() == 1);
        self.watch_by(id, is_of_own);
    }

    fn watch_by(&mut self, id: Id, is_of_own: bool) {
        let (Some(own), Some(conn)) = (&self.own, self.conns.get_mut(&id)) else { return };
        if std::mem::replace(&mut conn.is_of_own, is_of_own) == is_of_own {
            return;
        }
        let (from, to) = if is_of_own { (&self.epoll, &own.epoll) } else { (&own.epoll, &self.epoll) };
        if let Some(fd) = conn.fd() {
            let _ = from.delete(fd);
            if let Err(e) = to.add(fd, EpollEvent::new(conn.interest(), CONNS + u64::from(id))) {
                base::log!(Error, "epoll: {e}");
            }
        }
    }

    /// The own process looks at no connection from now on.
    pub(super) fn own_leaves(&mut self) {
        let all: Vec<_> = self.conns.iter().filter(|(_, conn)| conn.is_of_own).map(|(id, _)| *id).collect();
        all.into_iter().for_each(|id| self.watch_by(id, false));
        if let Some(own) = &mut self.own {
            own.has_left = true;
        }
    }

    /// Frames wait for the own process.
    pub(super) fn ring_own(&mut self) {
        self.own.iter_mut().for_each(OwnProcess::ring);
    }

    /// A connection takes more that took no more before.
    pub(super) fn has_room(&mut self) {
        if let Some(own) = &mut self.own {
            own.has_room = true;
            own.ring();
        }
    }

    /// Does what is to be done on the connections that this process watches.
    fn turn(&mut self) {
        let Some(epoll) = self.own.as_ref().map(|own| own.epoll.clone()) else { return };
        let mut events = [EpollEvent::empty(); AT_ONCE];
        let n = epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in events[..n].iter().filter(|event| event.data() != BELL) {
            self.on_conn((event.data() - CONNS) as Id, event.events());
        }
    }

    /// Where a channel of the own process leads to.
    fn leads_to(&self, own: Id, channel: u32) -> Option<(Id, u32)> {
        match self.conns.get(&own)?.channels.get(&channel)? {
            To::Channel(other, number) => Some((*other, *number)),
            To::Parked(_) => None,
        }
    }

    /// Whether nothing waits to be written where a channel of the own process leads to.
    fn is_free(&mut self, own: Id, channel: u32) -> bool {
        let Some((to, _)) = self.leads_to(own, channel).filter(|(to, _)| *to != own) else { return true };
        let is_waiting = |switch: &Switch| switch.conns.get(&to).is_some_and(Conn::is_waiting);
        if is_waiting(self) {
            self.touched.push(to);
            self.flush();
        }
        !is_waiting(self)
    }

    /// Reads the connection that a channel of the own process leads to.
    fn read_for(&mut self, own: Id, channel: u32, into: &mut Into<'_, '_>) {
        let Some((on, number)) = self.leads_to(own, channel) else { return self.turn() };
        if self.conns.get(&on).is_some_and(Conn::is_waiting) {
            self.touched.push(on);
        }
        self.read(on, Some(Wanted { on, number, into }));
    }

    /// Takes frames for the own process. `None`: it is not connected any more.
    fn take(&mut self, id: Id, to: &mut [u8]) -> Option<usize> {
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

/// The connection of a process to the router that it has itself. Dropping it ends it.
pub(in super::super) struct Own {
    host: Arc<Host>,
    id: Id,
    epoll: Arc<Epoll>,
}

impl Own {
    pub fn connect(host: &Arc<Host>, process: [u8; 16]) -> io::Result<Own> {
        let (id, epoll) = host.turn(|switch| switch.connect_own(process))?;
        Ok(Own { host: host.clone(), id, epoll })
    }

    /// Passes data on, and returns whether all of it is written. `None`: nothing is passed on, since what was before still waits there.
    pub fn pass_data(&self, channel: u32, data: &[IoSlice<'_>]) -> Option<bool> {
        self.host.turn(|switch| {
            switch.is_free(self.id, channel).then(|| {
                switch.pass_data(self.id, channel, data);
                switch.is_free(self.id, channel)
            })
        })
    }

    /// Whether all that was passed on is written.
    pub fn flush(&self, channel: u32) -> bool {
        self.host.turn(|switch| switch.is_free(self.id, channel))
    }

    /// Whether there may be room since this was asked last.
    pub fn has_more_room(&self) -> bool {
        self.host.turn(|switch| switch.own.as_mut().is_some_and(|own| std::mem::take(&mut own.has_room)))
    }

    /// Passes a frame on that is no DATA.
    pub fn pass(&self, head: Head, body: &[u8]) -> Result<(), Malformed> {
        self.host.turn(|switch| switch.pass(self.id, head, body))
    }

    /// Reads frames. If there are none, and bytes of this channel come, they are put where they belong. Returns the bytes of frames.
    /// `WouldBlock` if nothing has come, 0 at the end.
    pub fn read(&self, to: &mut [u8], wanted: Option<(u32, &mut Into<'_, '_>)>) -> io::Result<usize> {
        self.host.turn(|switch| {
            let mut put = 0;
            let mut n = switch.take(self.id, to);
            if n == Some(0) {
                match wanted {
                    Some((channel, into)) => {
                        let before = into.got();
                        switch.read_for(self.id, channel, into);
                        put = into.got() - before;
                    }
                    None => switch.turn(),
                }
                n = switch.take(self.id, to);
            }
            match n {
                None => Ok(0),
                Some(0) if put == 0 => Err(ErrorKind::WouldBlock.into()),
                Some(n) => Ok(n + put),
            }
        })
    }

    /// Looks at nothing any more without being asked: what comes waits.
    pub fn leave(&self) {
        self.host.turn(Switch::own_leaves);
    }

    pub fn cut(&self) {
        self.host.turn(|switch| switch.drop_conn(self.id));
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.cut();
    }
}

impl AsFd for Own {
    /// Readable while there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
