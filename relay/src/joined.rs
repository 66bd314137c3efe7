//! The threads that carry what joined connections say.
//!
//! Invariant: a thread that has nothing to carry sleeps.

use crate::way::{Interest, Spare, Way};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The most pairs of connections that are joined.
pub(crate) const MAX_JOINED: usize = 4096;
/// The most threads.
const MOST_THREADS: usize = 4;
/// The number of the bell among what is watched.
const BELL: u64 = u64::MAX;

/// The threads, and what they have been given.
pub(crate) struct Joined {
    threads: Vec<Arc<Shared>>,
    turn: usize,
    count: Arc<AtomicUsize>,
}

struct Shared {
    new: Mutex<Vec<[TcpStream; 2]>>,
    bell: EventFd,
}

impl Joined {
    pub(crate) fn start() -> io::Result<Joined> {
        let most = thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
        let count = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for _ in 0..most {
            let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
            let shared = Arc::new(Shared { new: Mutex::default(), bell });
            let carrier = Carrier::new(shared.clone(), count.clone())?;
            thread::Builder::new().name("carrier".into()).spawn(move || carrier.run())?;
            threads.push(shared);
        }
        Ok(Joined { threads, turn: 0, count })
    }

    /// How many pairs are joined.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// From now on, what one says goes to the other.
    pub(crate) fn join(&mut self, ends: [TcpStream; 2]) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.turn = (self.turn + 1) % self.threads.len();
        let shared = &self.threads[self.turn];
        shared.new.lock().unwrap_or_else(PoisonError::into_inner).push(ends);
        // A bell that cannot take more rings already.
        let _ = shared.bell.write(1);
    }
}

/// One thread's.
struct Carrier {
    shared: Arc<Shared>,
    count: Arc<AtomicUsize>,
    epoll: Epoll,
    ways: Vec<Option<(Way, [Interest; 2])>>,
    spare: Spare,
}

impl Carrier {
    fn new(shared: Arc<Shared>, count: Arc<AtomicUsize>) -> io::Result<Carrier> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&shared.bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        Ok(Carrier { shared, count, epoll, ways: Vec::new(), spare: Spare::new() })
    }

    fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            // To look for more before it sleeps would take processors from those who are to answer.
            let n = self.epoll.wait(&mut events, EpollTimeout::NONE).unwrap_or(0);
            events[..n].iter().for_each(|event| self.on_event(event));
        }
    }

    fn on_event(&mut self, event: &EpollEvent) {
        if event.data() == BELL {
            let _ = self.shared.bell.read();
            return self.take_new();
        }
        let (slot, n) = ((event.data() / 2) as usize, (event.data() % 2) as usize);
        let Some(Some((way, _))) = self.ways.get_mut(slot) else { return };
        let flags = event.events();
        let failed = flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        let (read, write) = (flags.contains(EpollFlags::EPOLLIN) || failed, flags.contains(EpollFlags::EPOLLOUT));
        way.ready(n, read, write || failed, &mut self.spare);
        self.update(slot);
    }

    fn take_new(&mut self) {
        let new = std::mem::take(&mut *self.shared.new.lock().unwrap_or_else(PoisonError::into_inner));
        for ends in new {
            let slot = self.ways.iter().position(Option::is_none).unwrap_or(self.ways.len());
            if slot == self.ways.len() {
                self.ways.push(None);
            }
            self.ways[slot] = Some((Way::new(ends), Default::default()));
            self.update(slot);
        }
    }

    /// Watches what is awaited now. A way that is over is closed.
    fn update(&mut self, slot: usize) {
        let Some((way, watched)) = &mut self.ways[slot] else { return };
        let mut is_over = way.is_over();
        for (n, watched) in watched.iter_mut().enumerate() {
            let wanted = way.interest(n);
            if wanted == *watched {
                continue;
            }
            let mut flags = EpollFlags::empty();
            flags.set(EpollFlags::EPOLLIN, wanted.read);
            flags.set(EpollFlags::EPOLLOUT, wanted.write);
            let mut event = EpollEvent::new(flags, slot as u64 * 2 + n as u64);
            let none = Interest::default();
            let done = match (*watched == none, wanted == none) {
                (true, _) => self.epoll.add(way.end(n), event),
                // One of which nothing is awaited would still tell of its end, over and over.
                (false, true) => self.epoll.delete(way.end(n)),
                (false, false) => self.epoll.modify(way.end(n), &mut event),
            };
            is_over |= done.is_err();
            *watched = wanted;
        }
        if is_over {
            self.ways[slot] = None;
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
