//! The epoll descriptor, and what its events say.
//!
//! Used by the core, and by whoever sleeps. Invariant: an event names a thing by kind and number, so one that comes
//! late, for what is gone, is recognised and does nothing.

use crate::sys::{keep_from_children, let_go};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Wake,
    /// Where others come to: the place of its transport in the registry, and its number there.
    Door(u8, u16),
    /// One who has come and has no lane yet.
    Guest(u32),
    Dial(u32),
    Lane(u32),
    /// A host that is asked whether we get through to it.
    Probe(u32),
}

impl Owner {
    pub fn door(transport: usize, door: u32) -> Owner {
        Owner::Door(transport as u8, door as u16)
    }

    fn pack(self) -> u64 {
        let (kind, n) = match self {
            Owner::Wake => (0, 0),
            Owner::Door(transport, door) => (1, u32::from(transport) << 16 | u32::from(door)),
            Owner::Guest(n) => (2, n),
            Owner::Dial(n) => (3, n),
            Owner::Lane(n) => (4, n),
            Owner::Probe(n) => (5, n),
        };
        kind << 32 | u64::from(n)
    }

    fn unpack(v: u64) -> Owner {
        let n = v as u32;
        match v >> 32 {
            1 => Owner::Door((n >> 16) as u8, n as u16),
            2 => Owner::Guest(n),
            3 => Owner::Dial(n),
            4 => Owner::Lane(n),
            5 => Owner::Probe(n),
            _ => Owner::Wake,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Happened {
    pub owner: Owner,
    /// Also for errors and hang-ups, which reading finds out about.
    pub readable: bool,
    pub writable: bool,
}

pub struct Watch {
    epoll: Epoll,
    wake: EventFd,
}

impl Watch {
    pub fn new() -> nix::Result<Watch> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, Owner::Wake.pack()))?;
        Ok(Watch { epoll, wake })
    }

    /// Watches a descriptor for reading, and for writing if asked to; changes what was asked before. What is watched
    /// is kept from forked children.
    pub fn set(&self, fd: impl AsFd, owner: Owner, write: bool) {
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

    /// To be called before a descriptor is closed: a forked child may hold it open.
    pub fn unset(&self, fd: impl AsFd) {
        self.pause(&fd);
        let_go(fd);
    }

    /// Says nothing of a descriptor until it is set again.
    pub fn pause(&self, fd: impl AsFd) {
        // Not watched is as good.
        let _ = self.epoll.delete(fd);
    }

    /// Sleeps until something happens, or so many milliseconds have passed. What has happened stays to be looked at, for
    /// others who sleep too.
    pub fn sleep(&self, millis: u16) {
        // A signal is as good a reason to look again as any.
        let _ = self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(millis));
    }

    /// What has happened, without waiting. Whether the doorbell, if it has been rung, is to be still.
    pub fn look(&self, out: &mut Vec<Happened>, still: bool) {
        let mut events = [EpollEvent::empty(); 64];
        let n = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for e in &events[..n] {
            let owner = Owner::unpack(e.data());
            if owner == Owner::Wake {
                // Only a count; whoever was woken looks at the state itself.
                if still {
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

    /// Ends the sleep of one that sleeps in [`Watch::sleep`].
    pub fn wake(&self) {
        let _ = self.wake.write(1);
    }

    /// What ends such a sleep, for other processes.
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// To sleep on with poll(2).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doorbell_goes_on_until_it_is_to_be_still() {
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
