//! The relays at which this process waits, and the calls that it takes there.
//!
//! One descriptor tells of all: an epoll within that of the node. Invariant: a relay that is lost is tried again as long as this
//! lives, and no longer than [`LIMIT`] at a time.

use super::address::Named;
use super::ask::{Asked, Asking, Standing};
use super::message::{Answer, Request};
use crate::ip::Socket;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::Trust;

/// How long a relay may take to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// The first and the longest rest before a relay is tried again.
const RESTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// How often time limits are looked at, while there are any.
const TICK: Duration = Duration::from_millis(100);
/// The most calls that are being taken at a time: as many as connections without a lane.
const MOST_TAKEN: usize = 64;
/// The number of the timer among what is watched. Posts have those from 1 on, and calls those from [`FIRST_CALL`] on.
const TIMER: u64 = 0;
const FIRST_CALL: u64 = 1 << 32;

/// All of them.
pub(super) struct Posts {
    trust: Arc<Trust>,
    epoll: Epoll,
    timer: TimerFd,
    /// The timer runs.
    ticking: bool,
    all: Vec<Post>,
    calls: BTreeMap<u64, (Asking, Instant)>,
    last_call: u64,
    /// Connections that are joined to a caller's.
    ready: VecDeque<Socket>,
}

struct Post {
    named: Named,
    /// Which of its addresses is tried next.
    turn: usize,
    state: State,
    rest: Duration,
    /// That it cannot be used was told.
    told: bool,
}

enum State {
    Resting(Instant),
    Asking(Box<Asking>, Instant),
    Standing(Box<Standing>, SocketAddr),
}

impl Posts {
    pub(super) fn open(named: Vec<Named>, trust: &Arc<Trust>) -> io::Result<Posts> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let now = Instant::now();
        let post = |named| Post { named, turn: 0, state: State::Resting(now), rest: RESTS[0], told: false };
        let all = named.into_iter().map(post).collect();
        let (calls, ready) = (BTreeMap::new(), VecDeque::new());
        let mut posts =
            Posts { trust: trust.clone(), epoll, timer, ticking: false, all, calls, last_call: FIRST_CALL, ready };
        posts.look_at_time();
        Ok(posts)
    }

    /// The descriptor to be watched for reading: [`Posts::step`] does what is to be done then.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// The addresses of the relays at which this process waits, and those of all others.
    pub(super) fn addresses(&self) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let standing = self.all.iter().filter_map(|post| match &post.state {
            State::Standing(_, at) => Some(*at),
            _ => None,
        });
        let others = self.all.iter().filter(|post| !matches!(post.state, State::Standing(..)));
        (standing.collect(), others.flat_map(|post| post.named.addresses.clone()).collect())
    }

    /// This process may be on another host now: waits anew.
    pub(super) fn begin_again(&mut self) {
        let now = Instant::now();
        for n in 0..self.all.len() {
            self.rest(n, now);
        }
        self.look_at_time();
    }

    /// Goes on with all, and returns a connection that was joined to a caller's. `None`: the descriptor tells of the next.
    pub(super) fn step(&mut self) -> Option<Socket> {
        loop {
            if let Some(socket) = self.ready.pop_front() {
                return Some(socket);
            }
            let mut events = [EpollEvent::empty(); 32];
            let n = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
            if n == 0 {
                return None;
            }
            for event in &events[..n] {
                match event.data() {
                    TIMER => {
                        let _ = self.timer.wait();
                    }
                    call if call > FIRST_CALL => self.step_call(call),
                    post => self.step_post(post as usize - 1),
                }
            }
            self.look_at_time();
        }
    }

    /// Does what is due, and keeps the timer running as long as something has a time limit.
    fn look_at_time(&mut self) {
        let now = Instant::now();
        for n in 0..self.all.len() {
            match &self.all[n].state {
                State::Resting(until) if now >= *until => self.begin(n, now),
                State::Asking(_, since) if now.duration_since(*since) >= LIMIT => {
                    self.failed(n, &io::Error::from(ErrorKind::TimedOut));
                }
                _ => (),
            }
        }
        let late = |(_, (_, since)): &(&u64, &(Asking, Instant))| now.duration_since(*since) >= LIMIT;
        for call in self.calls.iter().filter(late).map(|(call, _)| *call).collect::<Vec<_>>() {
            self.end_call(call);
        }
        let is_idle = self.calls.is_empty() && self.all.iter().all(|post| matches!(post.state, State::Standing(..)));
        if self.ticking == is_idle {
            let tick = Expiration::Interval(TimeSpec::from_duration(TICK));
            let set = if is_idle { self.timer.unset() } else { self.timer.set(tick, TimerSetTimeFlags::empty()) };
            self.ticking = !is_idle && set.is_ok();
        }
    }

    fn begin(&mut self, n: usize, now: Instant) {
        let post = &mut self.all[n];
        let at = post.named.addresses[post.turn % post.named.addresses.len()];
        match Asking::begin(at, Request::Wait, &self.trust) {
            Ok(asking) => {
                watch(&self.epoll, asking.fd(), n as u64 + 1);
                self.all[n].state = State::Asking(Box::new(asking), now);
            }
            Err(e) => self.failed(n, &e),
        }
    }

    fn step_post(&mut self, n: usize) {
        match &mut self.all[n].state {
            State::Resting(_) => (),
            State::Asking(asking, _) => match asking.step() {
                Asked::NotYet => watch(&self.epoll, asking.fd(), n as u64 + 1),
                Asked::Answered(Answer::Stands, standing) => {
                    watch(&self.epoll, Some((standing.as_fd(), false)), n as u64 + 1);
                    let post = &mut self.all[n];
                    let at = post.named.addresses[post.turn % post.named.addresses.len()];
                    base::log!(Info, "waits at the relay {}", post.named.text);
                    (post.rest, post.told) = (RESTS[0], false);
                    post.state = State::Standing(standing, at);
                }
                Asked::Answered(Answer::Full, _) => self.failed(n, &io::Error::other("it has no room for one more")),
                Asked::Answered(..) => self.failed(n, &ErrorKind::InvalidData.into()),
                Asked::Failed(e) => self.failed(n, &e),
            },
            State::Standing(standing, at) => match standing.hear() {
                Ok(Answer::Called(number)) => {
                    let at = *at;
                    self.take(at, number);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => (),
                Ok(_) | Err(_) => {
                    base::log!(Info, "the relay {} is lost, and is tried again", self.all[n].named.text);
                    self.rest(n, Instant::now());
                }
            },
        }
    }

    fn take(&mut self, at: SocketAddr, number: [u8; 16]) {
        if self.calls.len() >= MOST_TAKEN {
            return base::log_seldom!(Info, "more than {MOST_TAKEN} calls at a time: one is not taken");
        }
        let Ok(asking) = Asking::begin(at, Request::Take { number }, &self.trust) else { return };
        self.last_call += 1;
        watch(&self.epoll, asking.fd(), self.last_call);
        self.calls.insert(self.last_call, (asking, Instant::now()));
    }

    fn step_call(&mut self, call: u64) {
        let Some((asking, _)) = self.calls.get_mut(&call) else { return };
        match asking.step() {
            Asked::NotYet => watch(&self.epoll, asking.fd(), call),
            Asked::Answered(Answer::Stands, standing) => {
                let _ = self.epoll.delete(standing.as_fd());
                self.calls.remove(&call);
                self.ready.extend(standing.into_socket());
            }
            // Who has called has left, or will call again.
            Asked::Answered(..) | Asked::Failed(_) => self.end_call(call),
        }
    }

    fn end_call(&mut self, call: u64) {
        if let Some((asking, _)) = self.calls.remove(&call) {
            // A forked child may hold it open, and then it would be told of for ever.
            let _ = asking.fd().map(|(fd, _)| self.epoll.delete(fd));
        }
    }

    /// A relay cannot be used: its next address, or the same one, is tried after a rest.
    fn failed(&mut self, n: usize, why: &io::Error) {
        let post = &mut self.all[n];
        post.turn = post.turn.wrapping_add(1);
        let text = &post.named.text;
        if !std::mem::replace(&mut post.told, true) {
            base::log!(
                Error,
                "the relay {text} cannot be used: {why}. It is tried again; start it there with `mpi-connect relay`, or mend \
                 MPI_CONNECT_RELAY"
            );
        }
        let rest = post.rest;
        post.rest = (2 * rest).min(RESTS[1]);
        self.rest(n, Instant::now() + rest);
    }

    fn rest(&mut self, n: usize, until: Instant) {
        let fd = match &self.all[n].state {
            State::Resting(_) => None,
            State::Asking(asking, _) => asking.fd().map(|(fd, _)| fd),
            State::Standing(standing, _) => Some(standing.as_fd()),
        };
        let _ = fd.map(|fd| self.epoll.delete(fd));
        self.all[n].state = State::Resting(until);
    }
}

/// Watches a descriptor, in the place of what was watched for before.
fn watch(epoll: &Epoll, fd: Option<(BorrowedFd<'_>, bool)>, number: u64) {
    let Some((fd, write)) = fd else { return };
    let mut flags = EpollFlags::EPOLLIN;
    flags.set(EpollFlags::EPOLLOUT, write);
    let mut event = EpollEvent::new(flags, number);
    if epoll.modify(fd, &mut event).is_err() && epoll.add(fd, event).is_err() {
        base::log_seldom!(Error, "a connection to a relay cannot be watched");
    }
}
