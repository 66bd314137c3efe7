//! The epoll descriptor and its events.
//!
//! Used by the core, and by threads that sleep. Invariant: an event names its owner by kind and number, so that a late
//! event, whose owner is gone, is recognised and has no effect.

use base::fork::{keep_from_children, let_go};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use transports::registry::Registry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Wake,
    /// A listener: the index of its transport in the registry, and its number there.
    Listener(u8, u16),
    /// An accepted connection that is no lane yet.
    Incoming(u32),
    /// A dial that is under way.
    Dial(u32),
    /// The lane of the pair with this number.
    Lane(u32),
    /// A probe whether a host can be reached.
    Probe(u32),
}

impl Owner {
    pub(crate) fn listener(transport: usize, listener: u32) -> Owner {
        Owner::Listener(transport as u8, listener as u16)
    }

    fn pack(self) -> u64 {
        let (kind, n) = match self {
            Owner::Wake => (0, 0),
            Owner::Listener(transport, listener) => (1, u32::from(transport) << 16 | u32::from(listener)),
            Owner::Incoming(n) => (2, n),
            Owner::Dial(n) => (3, n),
            Owner::Lane(n) => (4, n),
            Owner::Probe(n) => (5, n),
        };
        kind << 32 | u64::from(n)
    }

    fn unpack(v: u64) -> Owner {
        let n = v as u32;
        match v >> 32 {
            1 => Owner::Listener((n >> 16) as u8, n as u16),
            2 => Owner::Incoming(n),
            3 => Owner::Dial(n),
            4 => Owner::Lane(n),
            5 => Owner::Probe(n),
            _ => Owner::Wake,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Happened {
    pub owner: Owner,
    /// Also for errors and hang-ups, which a read reports.
    pub readable: bool,
    pub writable: bool,
}

pub(crate) struct Watch {
    epoll: Epoll,
    wake: EventFd,
}

impl Watch {
    pub(crate) fn new() -> nix::Result<Watch> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, Owner::Wake.pack()))?;
        Ok(Watch { epoll, wake })
    }

    /// Watches a descriptor for reading, and for writing if `write`, in the place of what was watched for before.
    /// Forked children close the descriptor.
    pub(crate) fn set(&self, fd: impl AsFd, owner: Owner, write: bool) {
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, write);
        let mut event = EpollEvent::new(flags, owner.pack());
        let done = match self.epoll.modify(&fd, &mut event) {
            Err(Errno::ENOENT) => self.epoll.add(&fd, event).inspect(|()| keep_from_children(&fd)),
            other => other,
        };
        if let Err(e) = done {
            base::log!(Error, "epoll: {e}");
        }
    }

    /// Watches the listeners of all open transports, those that are watched already too.
    pub(crate) fn set_listeners(&self, registry: &Registry) {
        for (n, transport) in registry.opened() {
            transport.listeners(&mut |listener, fd| self.set(fd, Owner::listener(n, listener), false));
        }
    }

    /// Stops watching a descriptor. This has to be called before it is closed: a forked child may hold it open, and
    /// then epoll would go on reporting it.
    pub(crate) fn unset(&self, fd: impl AsFd) {
        self.pause(&fd);
        let_go(fd);
    }

    /// Reports no events of a descriptor until [`Watch::set`] is called again.
    pub(crate) fn pause(&self, fd: impl AsFd) {
        // The only error is that it is not watched.
        let _ = self.epoll.delete(fd);
    }

    /// Sleeps until a descriptor is ready, or this number of milliseconds has passed. The events are not consumed, so
    /// that they wake other sleeping threads too.
    pub(crate) fn sleep(&self, millis: u16) {
        // An error, such as a signal, only ends the sleep.
        let _ = self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(millis));
    }

    /// Appends the events that are there, without waiting. If `silence`, a doorbell that has been rung is read, so that
    /// it wakes no further thread.
    pub(crate) fn look(&self, out: &mut Vec<Happened>, silence: bool) {
        let mut events = [EpollEvent::empty(); 64];
        let n = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for e in &events[..n] {
            let owner = Owner::unpack(e.data());
            if owner == Owner::Wake {
                // The eventfd holds only a count; the thread that was woken looks at the lanes.
                if silence {
                    let _ = self.wake.read();
                }
                continue;
            }
            let flags = e.events();
            let writable = flags.contains(EpollFlags::EPOLLOUT);
            let readable = flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
            out.push(Happened { owner, readable, writable });
        }
    }

    /// Wakes the threads that sleep on the epoll descriptor.
    pub(crate) fn wake(&self) {
        let _ = self.wake.write(1);
    }

    /// The eventfd by which other processes wake this one.
    pub(crate) fn doorbell(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The epoll descriptor, for poll(2).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doorbell_stays_readable_until_it_is_silenced() {
        let watch = Watch::new().unwrap();
        let is_rung = || watch.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).unwrap() > 0;
        let mut events = Vec::new();
        watch.wake();
        watch.look(&mut events, false);
        assert!(is_rung());
        watch.look(&mut events, true);
        assert!(!is_rung() && events.is_empty());
    }
}
