//! The relay: one loop, which decides who is joined to whom. What is joined is carried by other threads.
//!
//! Invariant: nothing here blocks but the wait for what is to be done.

use crate::conn::{Conn, Passed, Stage, surplus};
use crate::joined::Joined;
use crate::places::Id;
use crate::room::Room;
use crate::table::{No, Table};
use base::ident::random;
use base::protocol::relay::MAX_HOPS;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transports::registry::{Answer, Asked, Asking, DEFAULT_PORT, Request, Visit, Visitor};
use trust::Trust;

/// Where it listens if it is not told.
const DEFAULT: &str = "0.0.0.0";
/// How often time limits are looked at, while there are any.
const TICK: u16 = 100;
/// How long no connection is accepted when there are no descriptors left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// The most connections that are accepted at one listener before others have their turn.
const MOST_AT_ONCE: usize = 50;
/// Of so many hosts it is remembered that they are refused, and why.
const MOST_REFUSED: usize = 1024;
/// The number of what ends the relay among what is watched; listeners have those below.
const STOP: u64 = 1 << 16;
/// Connections have twice their number from here on, and the relay that is asked for one the number behind.
const CONNS: u64 = 1 << 17;

/// Why a relay cannot begin.
#[derive(Debug)]
pub enum ListenError {
    /// This is no address, or no host has this name.
    Address(String, io::Error),
    /// It cannot listen there.
    Listen(String, io::Error),
    /// The system refuses something else.
    System(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::Address(text, e) => write!(f, "'{text}': HOST:PORT is expected: {e}"),
            ListenError::Listen(text, e) => write!(f, "listening at {text}: {e}"),
            ListenError::System(e) => e.fmt(f),
        }
    }
}

/// A relay that listens.
pub struct Relay {
    trust: Arc<Trust>,
    listeners: Vec<TcpListener>,
    /// The relays that are asked for processes that do not wait here.
    next: Vec<SocketAddr>,
    epoll: Epoll,
    conns: BTreeMap<Id, Conn>,
    last: Id,
    table: Table,
    joined: Joined,
    accept_again: Option<Instant>,
    told: Told,
}

/// Whoever is told what goes wrong, and what that was.
struct Told {
    tell: Box<dyn Fn(&str)>,
    /// The relays of which it was told last that they cannot be used.
    unusable: BTreeSet<SocketAddr>,
    /// The hosts of which it was told last that they are refused, and why.
    refused: BTreeMap<IpAddr, String>,
}

impl Told {
    fn tell(&self, text: &str) {
        (self.tell)(text);
    }

    /// A host is refused: told once until that changes, since its processes come again and again.
    fn refused(&mut self, from: IpAddr, why: String) {
        if self.refused.get(&from) == Some(&why) {
            return;
        }
        self.tell(&format!("{from} is refused: {why}"));
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        self.refused.insert(from, why);
    }

    /// A host is not refused.
    fn heard(&mut self, from: IpAddr) {
        self.refused.remove(&from);
    }

    /// How a relay that was asked is: told once until that changes, since many calls find the same.
    fn relay(&mut self, at: SocketAddr, trouble: Option<&io::Error>) {
        match trouble {
            Some(e) if self.unusable.insert(at) => self.tell(&format!("the relay at {at} cannot be used: {e}")),
            None if self.unusable.remove(&at) => self.tell(&format!("the relay at {at} can be used again")),
            _ => (),
        }
    }
}

fn resolve(text: &str) -> Result<Vec<SocketAddr>, ListenError> {
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let full = if has_port { text.to_owned() } else { format!("{text}:{DEFAULT_PORT}") };
    full.to_socket_addrs().map(Iterator::collect).map_err(|e| ListenError::Address(text.into(), e))
}

impl Relay {
    /// Listens at these addresses (`HOST:PORT`; at all IPv4 addresses if there is none), and asks the relays at `next` for
    /// processes that do not wait here.
    pub fn listen(at: &[String], next: &[String], trust: Arc<Trust>) -> Result<Relay, ListenError> {
        let default = [DEFAULT.to_owned()];
        let mut listeners = Vec::new();
        for text in if at.is_empty() { &default[..] } else { at } {
            let bind = |address: SocketAddr| -> io::Result<TcpListener> {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            for address in resolve(text)? {
                listeners.push(bind(address).map_err(|e| ListenError::Listen(text.clone(), e))?);
            }
        }
        let mut others = Vec::new();
        for text in next {
            others.extend(resolve(text)?);
        }
        let room = Room::of_process();
        let begin = || -> io::Result<(Epoll, Joined)> {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            for (n, listener) in listeners.iter().enumerate() {
                epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, n as u64))?;
            }
            Ok((epoll, Joined::start(room.joined)?))
        };
        let (epoll, joined) = begin().map_err(ListenError::System)?;
        let (conns, table) = (BTreeMap::new(), Table::with_room(room.waiting, room.calls));
        let told = Told { tell: Box::new(|_: &str| ()), unusable: BTreeSet::new(), refused: BTreeMap::new() };
        Ok(Relay { trust, listeners, next: others, epoll, conns, last: 0, table, joined, accept_again: None, told })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// With something that is told who is refused and why, and which relays cannot be used.
    pub fn telling(mut self, tell: impl Fn(&str) + 'static) -> Relay {
        self.told.tell = Box::new(tell);
        self
    }

    /// Serves until this descriptor is readable.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> io::Result<()> {
        self.epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let is_timed = self.accept_again.is_some() || self.conns.values().any(|conn| conn.limit().is_some());
            let sleep = if is_timed { EpollTimeout::from(TICK) } else { EpollTimeout::NONE };
            let n = match self.epoll.wait(&mut events, sleep) {
                Err(Errno::EINTR) => 0,
                done => done?,
            };
            for event in &events[..n] {
                match event.data() {
                    STOP => return Ok(()),
                    listener if listener < STOP => self.accept(listener as usize),
                    conn => match ((conn - CONNS) / 2, conn % 2) {
                        (id, 0) => self.on_conn(id),
                        (id, _) => self.on_passed(id),
                    },
                }
            }
            if is_timed {
                self.look_at_time();
            }
        }
    }

    fn look_at_time(&mut self) {
        let now = Instant::now();
        if self.accept_again.is_some_and(|again| now >= again) {
            self.accept_again = None;
            for (n, listener) in self.listeners.iter().enumerate() {
                let _ = self.epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, n as u64));
            }
        }
        let late = |conn: &Conn| conn.limit().is_some_and(|limit| now >= limit);
        for id in self.conns.iter().filter(|(_, conn)| late(conn)).map(|(id, _)| *id).collect::<Vec<_>>() {
            self.answer_last(id, Answer::NoAnswer);
        }
    }

    fn accept(&mut self, n: usize) {
        for _ in 0..MOST_AT_ONCE {
            match self.listeners[n].accept() {
                Ok((stream, from)) => {
                    let from: IpAddr = from.ip();
                    surplus(&self.conns, from).into_iter().for_each(|id| self.drop_conn(id, false));
                    let Ok(visitor) = Visitor::new(stream.into(), &self.trust) else { continue };
                    self.last += 1;
                    let event = EpollEvent::new(EpollFlags::EPOLLIN, CONNS + 2 * self.last);
                    if self.epoll.add(&visitor, event).is_ok() {
                        let conn = Conn { visitor, stage: Stage::New, from, since: Instant::now() };
                        self.conns.insert(self.last, conn);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE)) => {
                    self.told.tell(&format!("no more connections can be accepted now: {e}"));
                    for listener in &self.listeners {
                        let _ = self.epoll.delete(listener);
                    }
                    self.accept_again = Some(Instant::now() + ACCEPT_AGAIN);
                    return;
                }
                // This one connection was broken.
                Err(_) => (),
            }
        }
    }

    /// A connection has said something, or has ended.
    fn on_conn(&mut self, id: Id) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if !matches!(conn.stage, Stage::New) {
            if conn.visitor.has_left() {
                self.drop_conn(id, true);
            }
            return;
        }
        match conn.visitor.step() {
            Visit::NotYet => (),
            Visit::Over(why) => {
                let from = conn.from;
                why.into_iter().for_each(|why| self.told.refused(from, why.to_string()));
                self.drop_conn(id, false);
            }
            Visit::Asks(request) => {
                conn.since = Instant::now();
                self.told.heard(conn.from);
                self.asked(id, request);
            }
        }
    }

    fn asked(&mut self, id: Id, request: Request) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (process, host) = (conn.visitor.process(), conn.host());
        match request {
            Request::Wait => {
                conn.stage = Stage::Waits;
                let said = conn.visitor.say(Answer::Stands);
                let seated = self.table.wait(process, id, host);
                seated.before.into_iter().chain(seated.surplus).for_each(|other| self.drop_conn(other, false));
                if said.is_err() {
                    self.drop_conn(id, false);
                }
            }
            Request::Call { name, passed } => {
                if let Some(surplus) = self.table.begin_call(id, host) {
                    self.answer_last(surplus, Answer::Full);
                }
                match self.table.who_waits(&name) {
                    Ok(waiting) => self.call(id, waiting, name),
                    Err(no) => self.pass_on(id, name, passed, no == No::Gone),
                }
            }
            Request::Take { number } => match self.table.take(&number, process) {
                Some(caller) => self.take(id, caller),
                None => self.answer_last(id, Answer::NotThere),
            },
        }
    }

    /// A process that waits here is called.
    fn call(&mut self, id: Id, waiting: Id, name: [u8; 16]) {
        let number = random();
        self.table.call(number, id, name);
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.stage = Stage::Calls(number);
        }
        let told = self.conns.get_mut(&waiting).map(|conn| conn.visitor.say(Answer::Called(number)));
        if !matches!(told, Some(Ok(()))) {
            // It does not read what it is told: if it lives, it comes again.
            self.drop_conn(waiting, false);
            self.answer_last(id, Answer::NoAnswer);
        }
    }

    /// A process takes a call.
    fn take(&mut self, id: Id, caller: Id) {
        let Some(taking) = self.remove(id) else { return };
        let Some(calling) = self.remove(caller) else { return };
        let host = calling.host();
        let mut ends = [calling.visitor, taking.visitor];
        if ends.iter_mut().all(|end| end.say(Answer::Stands).is_ok())
            && let [Some(one), Some(other)] = ends.map(Visitor::into_fd)
        {
            self.joined.join(caller, host, [one, other].map(TcpStream::from));
        }
    }

    // ---- calls that are passed on

    fn pass_on(&mut self, id: Id, name: [u8; 16], mut passed: Vec<[u8; 16]>, gone: bool) {
        let me = self.trust.identity().process();
        let goes_round = passed.contains(&me) || passed.len() >= MAX_HOPS;
        let mut next = if goes_round { Vec::new() } else { self.next.clone() };
        next.reverse();
        if !goes_round {
            passed.push(me);
        }
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.stage = Stage::Passed(Box::new(Passed { name, passed, asking: None, next, gone, silent: false }));
        }
        self.ask_next(id);
    }

    /// Asks the next relay, or answers if all were asked.
    fn ask_next(&mut self, id: Id) {
        let Some(Conn { stage: Stage::Passed(passed), .. }) = self.conns.get_mut(&id) else { return };
        passed.asking = None;
        while let Some(next) = passed.next.pop() {
            let request = Request::Call { name: passed.name, passed: passed.passed.clone() };
            match Asking::begin(next, request, &self.trust) {
                Ok(asking) => {
                    watch(&self.epoll, &asking, id);
                    passed.asking = Some((next, asking));
                    return;
                }
                Err(e) => {
                    self.told.relay(next, Some(&e));
                    passed.silent = true;
                }
            }
        }
        let last = match (passed.gone, passed.silent) {
            (_, true) => Answer::NoAnswer,
            (true, false) => Answer::Gone,
            (false, false) => Answer::NotThere,
        };
        self.answer_last(id, last);
    }

    /// A relay that was asked has said something.
    fn on_passed(&mut self, id: Id) {
        let Some(Conn { stage: Stage::Passed(passed), .. }) = self.conns.get_mut(&id) else { return };
        let Some((at, asking)) = &mut passed.asking else { return };
        let asked = asking.step();
        match &asked {
            Asked::NotYet => (),
            Asked::Answered(..) => self.told.relay(*at, None),
            Asked::Failed(e) => self.told.relay(*at, Some(e)),
        }
        match asked {
            Asked::NotYet => return watch(&self.epoll, asking, id),
            Asked::Answered(Answer::Stands, standing) => {
                let _ = self.epoll.delete(standing.as_fd());
                let Some(mut calling) = self.remove(id) else { return };
                let host = calling.host();
                if calling.visitor.say(Answer::Stands).is_ok()
                    && let (Some(one), Some(other)) = (calling.visitor.into_fd(), standing.into_fd())
                {
                    self.joined.join(id, host, [one, other].map(TcpStream::from));
                }
                return;
            }
            Asked::Answered(Answer::Gone, _) => passed.gone = true,
            Asked::Answered(Answer::NotThere, _) => (),
            Asked::Answered(..) | Asked::Failed(_) => passed.silent = true,
        }
        self.ask_next(id);
    }

    // ---- ends

    fn answer_last(&mut self, id: Id, answer: Answer) {
        if let Some(mut conn) = self.remove(id) {
            // One that has not proved the key is told nothing; an error means that it has left.
            let _ = if conn.visitor.process() == [0; 16] { Ok(()) } else { conn.visitor.say(answer) };
        }
    }

    /// `gone`: its host has closed it.
    fn drop_conn(&mut self, id: Id, gone: bool) {
        if let Some(conn) = self.remove(id)
            && let Stage::Waits = conn.stage
        {
            self.table.left(conn.visitor.process(), id, gone);
        }
    }

    /// Takes a connection out of what is watched.
    fn remove(&mut self, id: Id) -> Option<Conn> {
        let conn = self.conns.remove(&id)?;
        let _ = self.epoll.delete(&conn.visitor);
        match &conn.stage {
            Stage::Calls(number) => self.table.end_call(id, Some(number)),
            Stage::Passed(passed) => {
                let _ = passed.asking.as_ref().and_then(|(_, asking)| asking.fd()).map(|(fd, _)| self.epoll.delete(fd));
                self.table.end_call(id, None);
            }
            Stage::New | Stage::Waits => (),
        }
        Some(conn)
    }
}

/// Watches the relay that is asked for this connection, in the place of what was watched for before.
fn watch(epoll: &Epoll, asking: &Asking, id: Id) {
    let Some((fd, write)) = asking.fd() else { return };
    let mut flags = EpollFlags::EPOLLIN;
    flags.set(EpollFlags::EPOLLOUT, write);
    let mut event = EpollEvent::new(flags, CONNS + 2 * id + 1);
    if epoll.modify(fd, &mut event).is_err() {
        // If it cannot be watched, the call ends when its time is over.
        let _ = epoll.add(fd, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Processes with another key come again every few seconds.
    #[test]
    fn that_a_host_is_refused_is_told_once_until_that_changes() {
        let lines = Rc::<RefCell<Vec<String>>>::default();
        let said = lines.clone();
        let tell = Box::new(move |text: &str| said.borrow_mut().push(text.to_owned()));
        let mut told = Told { tell, unusable: BTreeSet::new(), refused: BTreeMap::new() };
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|host| host.parse::<IpAddr>().unwrap());
        for (from, why) in [(one, "a"), (one, "a"), (other, "a"), (one, "a"), (one, "b"), (other, "a")] {
            told.refused(from, why.into());
        }
        told.heard(one);
        told.refused(one, "b".into());
        let expected =
            ["10.0.0.1 is refused: a", "10.0.0.2 is refused: a", "10.0.0.1 is refused: b", "10.0.0.1 is refused: b"];
        assert_eq!(*lines.borrow(), expected);
        (0..=MOST_REFUSED as u32).for_each(|n| told.refused(IpAddr::from(n.to_be_bytes()), "c".into()));
        assert!(told.refused.len() <= MOST_REFUSED);
    }
}
