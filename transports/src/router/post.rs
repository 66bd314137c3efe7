//! The way of this process to the router of its node: who has the local name is the router; who has not connects to it.
//!
//! When the router dies, the kernel frees the name, and one of those that were connected takes it. All have the descriptors of the
//! listeners, so the next router is reached at the same addresses.

use super::bell::bell;
use super::host::{Host, Listening};
use super::line::Line;
use super::local::{self, Raw};
use super::own::Own;
use super::trunk::{Trunk, Wire};
use crate::ip::Kept;
use crate::stream::handshake::Proving;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::time::{TimeSpec, TimeValLike as _};
use nix::sys::timer::TimerSetTimeFlags;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Protocol, Trust};

/// How long the router may take to let this process in.
const LIMIT: Duration = Duration::from_secs(5);
/// The first and the longest rest before the next try.
const RESTS: [Duration; 2] = [Duration::from_millis(2), Duration::from_secs(1)];
/// How often time limits are looked at, in milliseconds, while there is no trunk.
const TICK: i64 = 5;
/// What is watched: the trunk, or what becomes one; channels that have come; the time.
const TRUNK: u64 = 0;
const ARRIVAL: u64 = 1;
const TIMER: u64 = 2;

enum State {
    Resting(Instant),
    Proving(Box<Proving<Raw>>, Instant),
    /// Both have proved themselves, and the listeners are awaited.
    Exchanging(Raw, Instant),
    Up(Arc<Trunk>),
    Closed,
}

/// This process and the router of its node.
pub(super) struct Post {
    trust: Arc<Trust>,
    name: String,
    listening: Listening,
    /// Those of the router, which this process hands on if it becomes the router, or another one does that has none.
    listeners: Vec<Kept>,
    /// The router, if it is a thread of this process.
    host: Option<Arc<Host>>,
    state: State,
    rest: Duration,
    told: bool,
    epoll: Arc<Epoll>,
    arrival: Arc<EventFd>,
    timer: TimerFd,
    ticking: bool,
}

impl Post {
    pub fn open(trust: &Arc<Trust>, listening: Listening) -> io::Result<Post> {
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        let arrival = Arc::new(bell()?);
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        epoll.add(&arrival, EpollEvent::new(EpollFlags::EPOLLIN, ARRIVAL))?;
        let mut post = Post {
            trust: trust.clone(),
            name: local::name(trust),
            listening,
            listeners: Vec::new(),
            host: None,
            state: State::Resting(Instant::now()),
            rest: RESTS[0],
            told: false,
            epoll,
            arrival,
            timer,
            ticking: false,
        };
        post.step();
        Ok(post)
    }

    /// Goes on until there is a trunk, or this time has passed.
    pub fn wait(&mut self, limit: Duration) {
        let start = Instant::now();
        while self.trunk().is_none() && start.elapsed() < limit {
            let _ = self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(TICK as u8));
            self.step();
        }
    }

    /// The descriptor to be watched for reading: [`Post::step`] does what is to be done then.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// The trunk, if it stands.
    pub fn trunk(&self) -> Option<Arc<Trunk>> {
        match &self.state {
            State::Up(trunk) if !trunk.is_broken() => Some(trunk.clone()),
            _ => None,
        }
    }

    /// Where the router listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// This host may have other addresses now: all lanes are made anew.
    pub fn begin_again(&mut self, listening: Listening) {
        self.listening = listening;
        self.listeners.clear();
        if let State::Up(trunk) = std::mem::replace(&mut self.state, State::Resting(Instant::now())) {
            trunk.close();
        }
        self.host = None;
        self.step();
        self.wait(Duration::from_millis(200));
    }

    /// Takes no channels any more. Those that stand go on.
    pub fn close(&mut self) {
        if let State::Up(trunk) = std::mem::replace(&mut self.state, State::Closed) {
            trunk.close();
        }
        self.host = None;
    }

    /// Does what can be done now towards a trunk.
    pub fn step(&mut self) {
        let _ = self.timer.wait();
        if let State::Up(trunk) = &self.state
            && trunk.is_broken()
        {
            base::log!(Info, "the connection to the router of this host has ended");
            trunk.unwatch();
            // A router of this process has ended it, and goes on.
            self.state = State::Resting(Instant::now());
        }
        let now = Instant::now();
        if let Err(e) = self.go_on(now)
            && e.kind() != ErrorKind::WouldBlock
        {
            if self.rest >= Duration::from_millis(500) && !std::mem::replace(&mut self.told, true) {
                base::log!(Error, "no router on this host: {e}; it is tried again");
            }
            self.state = State::Resting(now + self.rest);
            self.rest = (2 * self.rest).min(RESTS[1]);
        }
        let is_timed = !matches!(self.state, State::Up(_) | State::Closed);
        if is_timed != self.ticking {
            let tick = Expiration::Interval(TimeSpec::milliseconds(TICK));
            let set = if is_timed { self.timer.set(tick, TimerSetTimeFlags::empty()) } else { self.timer.unset() };
            self.ticking = is_timed && set.is_ok();
        }
    }

    fn go_on(&mut self, now: Instant) -> io::Result<()> {
        if let State::Resting(until) = self.state {
            if now < until {
                return Ok(());
            }
            self.take_over();
            if let Some(host) = &self.host {
                let own = Own::connect(host, self.trust.identity().process())?;
                self.listeners = host.turn(|switch| switch.listeners())?;
                return self.stand(Wire::Own(own));
            }
            let raw = Raw::reach(&self.name)?;
            self.watch(&raw)?;
            let proving = Proving::begin(raw, &self.trust, Protocol::Router, true)?;
            self.state = State::Proving(Box::new(proving), now + LIMIT);
        }
        if let State::Proving(_, until) | State::Exchanging(_, until) = self.state
            && now >= until
        {
            return Err(ErrorKind::TimedOut.into());
        }
        if let State::Proving(proving, until) = &mut self.state {
            let until = *until;
            proving.prove()?.map_err(|why| io::Error::new(ErrorKind::PermissionDenied, why))?;
            if let State::Proving(proving, _) = std::mem::replace(&mut self.state, State::Resting(now)) {
                let raw = proving.into_link().into_stream().ok_or(ErrorKind::InvalidData)?;
                raw.hand(&self.listeners, &[])?;
                self.state = State::Exchanging(raw, until);
            }
        }
        if let State::Exchanging(raw, _) = &self.state {
            let (listeners, memory) = raw.take()?;
            if let State::Exchanging(raw, _) = std::mem::replace(&mut self.state, State::Resting(now)) {
                self.epoll.delete(&raw)?;
                self.listeners = listeners;
                self.stand(Wire::Line(Box::new(Line::adopt(raw, memory)?)))?;
                base::log!(Info, "connected to the router of this host");
            }
        }
        Ok(())
    }

    /// There is a trunk.
    fn stand(&mut self, wire: Wire) -> io::Result<()> {
        let trunk = Arc::new(Trunk::new(wire, &self.epoll, TRUNK, &self.arrival)?);
        (self.rest, self.told) = (RESTS[0], false);
        self.state = State::Up(trunk);
        Ok(())
    }

    fn watch(&self, raw: &Raw) -> io::Result<()> {
        Ok(self.epoll.add(raw, EpollEvent::new(EpollFlags::EPOLLIN, TRUNK))?)
    }

    /// Becomes the router if nobody is it.
    fn take_over(&mut self) {
        if self.host.as_ref().is_some_and(|host| host.is_running()) {
            return;
        }
        self.host = None;
        match Host::start(&self.name, &self.trust, &self.listening, &self.listeners) {
            Ok(host) => {
                base::log!(Info, "this process has the router of this host");
                self.host = Some(Arc::new(host));
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => (),
            Err(e) => base::log_seldom!(Error, "this process cannot be the router of this host: {e}"),
        }
    }
}
