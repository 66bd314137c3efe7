//! The threads that carry what joined connections say.
//!
//! Invariants: a thread that has had nothing to carry for a moment sleeps; what is joined for one host takes no place of what is joined for
//! another. A pair whose other side is dead ends by itself: all sockets here have the keep-alive of the transport.

use crate::places::{Host, Id, Places};
use crate::way::{Ends, Interest, Spare, Way};
use base::looks::Looks;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// The most threads.
const MOST_THREADS: usize = 4;
/// So many pairs may be known before it is looked which have ended.
const LOOK_AT: usize = 64;
/// The number of the bell among what is watched.
const BELL: u64 = u64::MAX;

/// The threads, and what they have been given.
pub(crate) struct Joined {
    threads: Vec<Arc<Shared>>,
    turn: usize,
    /// The pairs by the number of the connection that has called, and for which host they were joined.
    pairs: BTreeMap<Id, Weak<Ends>>,
    places: Places,
    most: usize,
    /// When so many are known, those that have ended are forgotten.
    look_at: usize,
}

struct Shared {
    new: Mutex<Vec<Arc<Ends>>>,
    bell: EventFd,
}

impl Joined {
    /// With room for so many pairs.
    pub(crate) fn start(most: usize) -> io::Result<Joined> {
        let count = thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
        let mut threads = Vec::new();
        for _ in 0..count {
            let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
            let shared = Arc::new(Shared { new: Mutex::default(), bell });
            let carrier = Carrier::new(shared.clone())?;
            thread::Builder::new().name("carrier".into()).spawn(move || carrier.run())?;
            threads.push(shared);
        }
        let (pairs, places, look_at) = (BTreeMap::new(), Places::new(most), LOOK_AT.min(most));
        Ok(Joined { threads, turn: 0, pairs, places, most, look_at })
    }

    /// From now on, what one says goes to the other. `id` and `host` are those of the connection that has called. If there are too
    /// many, the oldest pair of the host that has most ends.
    pub(crate) fn join(&mut self, id: Id, host: Host, ends: [TcpStream; 2]) {
        if self.pairs.len() >= self.look_at {
            self.forget_ended();
        }
        let ends = Arc::new(ends);
        let surplus = self.places.take(id, host).and_then(|surplus| self.pairs.remove(&surplus)?.upgrade());
        // Its thread finds that both have ended.
        surplus.iter().flat_map(|ends| ends.iter()).for_each(|end| drop(end.shutdown(Shutdown::Both)));
        self.pairs.insert(id, Arc::downgrade(&ends));
        self.turn = (self.turn + 1) % self.threads.len();
        let shared = &self.threads[self.turn];
        shared.new.lock().unwrap_or_else(PoisonError::into_inner).push(ends);
        // A bell that cannot take more rings already.
        let _ = shared.bell.write(1);
    }

    /// Pairs that have ended have no place any more.
    fn forget_ended(&mut self) {
        let places = &mut self.places;
        self.pairs.retain(|id, ends| {
            let lives = ends.strong_count() > 0;
            if !lives {
                places.give_back(*id);
            }
            lives
        });
        // Each pair is looked at twice at most, however many come and go.
        self.look_at = (2 * self.pairs.len()).max(LOOK_AT).min(self.most);
    }
}

/// One thread's.
struct Carrier {
    shared: Arc<Shared>,
    epoll: Epoll,
    ways: Vec<Option<(Way, [Interest; 2])>>,
    spare: Spare,
}

impl Carrier {
    fn new(shared: Arc<Shared>) -> io::Result<Carrier> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&shared.bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        Ok(Carrier { shared, epoll, ways: Vec::new(), spare: Spare::new() })
    }

    fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        let mut looks = Looks::default();
        loop {
            let sleep = if looks.go_on() { EpollTimeout::ZERO } else { EpollTimeout::NONE };
            let n = self.epoll.wait(&mut events, sleep).unwrap_or(0);
            events[..n].iter().for_each(|event| self.on_event(event));
            looks.looked(n > 0);
            if looks.go_on() {
                looks.give_way();
            }
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// With few descriptors there may be fewer pairs than it looks at otherwise.
    #[test]
    fn pairs_come_and_go_where_there_may_be_few() {
        let most = 16;
        assert!(most < LOOK_AT);
        let mut joined = Joined::start(most).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let end = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (end, listener.accept().unwrap().0)
        };
        let host = Host::from([127, 0, 0, 1]);
        let all: Vec<_> = (0..3 * most as Id)
            .map(|id| {
                let ((left, one), (right, other)) = (connect(), connect());
                joined.join(id, host, [one, other]);
                assert!(joined.pairs.len() <= most);
                (left, right)
            })
            .collect();
        drop(all);
    }
}
