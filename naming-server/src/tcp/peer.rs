//! One naming server as this process sees it: connections that are kept, and whether it answers. All stores and claims of a
//! process share it. The client alone uses this.
//!
//! Invariant: no request takes longer than the time that it is given, whatever other threads ask meanwhile; nothing is asked of
//! a server that has not proved the key; a forked child does not use it.

use super::address::Address;
use crate::link::Link;
use crate::quiet;
use crate::wire::{self, Answer, HEADER, Request};
use std::fmt::{Display, Formatter, Result as Formatted};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trust::{Dialling, Encrypt, Progress, Protocol, Refused, Trust};

/// How long connecting to a server may take, and how long an answer.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
pub(super) const ANSWER: Duration = Duration::from_secs(2);
/// The connections that are kept: one for requests of the program, and one for renewals.
const KEPT: usize = 2;
/// How long a server is not asked again: one that did not answer in time, and one that refused at once, which costs no time.
const SILENT: Duration = Duration::from_secs(5);
const REFUSING: Duration = Duration::from_millis(500);
/// The pauses before a server is dialled again that has closed a connection on which nothing was asked yet: it may have had too
/// many of them at that moment.
const AGAIN: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(40), Duration::from_millis(160)];

/// Why a server does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PeerError {
    /// It did not answer a while ago, and was not asked again.
    Down(Why),
    /// It was asked, and may have heard the request.
    Failed(Why),
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// In words.
    Said(String),
    /// One side does not trust the other.
    Refused(Refused),
}

impl PeerError {
    /// Why one side does not trust the other, if it is that.
    pub(super) fn refused(&self) -> Option<Refused> {
        let (PeerError::Down(why) | PeerError::Failed(why)) = self;
        if let Why::Refused(why) = why { Some(*why) } else { None }
    }

    fn down(why: &str) -> PeerError {
        PeerError::Down(why.into())
    }
}

impl From<&str> for Why {
    fn from(why: &str) -> Why {
        Why::Said(why.into())
    }
}

impl Display for PeerError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        let (PeerError::Down(why) | PeerError::Failed(why)) = self;
        why.fmt(f)
    }
}

impl Display for Why {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            Why::Said(why) => f.write_str(why),
            Why::Refused(why) => why.fmt(f),
        }
    }
}

/// One naming server.
pub(super) struct Peer {
    pub address: Address,
    trust: Arc<Trust>,
    /// The pid of the process that may use it.
    process: u32,
    /// It did not answer when it was last asked.
    failing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections that are not in use now. A connection in use is not here, so that the lock is only held for an instant.
    kept: Vec<Connection>,
    /// Until when it is not asked, and why.
    down: Option<(Instant, Why)>,
}

struct Connection {
    stream: TcpStream,
    link: Link,
}

/// The servers of this process, each once. It is locked only for an instant, since the program may fork at any time.
static ALL: Mutex<Vec<Weak<Peer>>> = Mutex::new(Vec::new());

impl Peer {
    pub(super) fn at(address: &Address, trust: &Arc<Trust>) -> Arc<Peer> {
        let mut all = lock(&ALL);
        let me = std::process::id();
        all.retain(|peer| peer.strong_count() > 0);
        let is_same = |p: &Arc<Peer>| p.process == me && p.address == *address && Arc::ptr_eq(&p.trust, trust);
        let same = |peer: &Weak<Peer>| peer.upgrade().filter(is_same);
        all.iter().find_map(same).unwrap_or_else(|| {
            let (failing, state) = (AtomicBool::new(false), Mutex::default());
            let peer = Arc::new(Peer { address: address.clone(), trust: trust.clone(), process: me, failing, state });
            all.push(Arc::downgrade(&peer));
            peer
        })
    }

    /// When connections to it are encrypted.
    pub(super) fn encrypts(&self) -> Encrypt {
        self.trust.encrypt()
    }

    /// Whether it was of no use when it was last asked.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Asks, and waits for the answer, at most for so long.
    pub(super) fn ask(&self, request: &Request, patience: Duration) -> Result<Answer, PeerError> {
        let Ok(bytes) = wire::frame(request) else { return Err(PeerError::down("the request is too long")) };
        if self.process != std::process::id() {
            return Err(PeerError::down("this process was forked from the one that opened it"));
        }
        let end = Instant::now() + patience;
        let mut kept = {
            let mut state = lock(&self.state);
            match &state.down {
                Some((until, why)) if Instant::now() < *until => return Err(PeerError::Down(why.clone())),
                _ => state.kept.pop(),
            }
        };
        loop {
            let (mut connection, is_new) = match kept.take() {
                Some(connection) => (connection, false),
                None => match self.dial(end.min(Instant::now() + CONNECT)) {
                    Ok(connection) => (connection, true),
                    Err(Failure::Io(e)) => return Err(self.failed(&e, patience)),
                    Err(Failure::Refused(why)) => return Err(self.refused(why)),
                },
            };
            match connection.exchange(&bytes, end) {
                Ok(answer) => {
                    self.failing.store(false, Ordering::Relaxed);
                    let mut state = lock(&self.state);
                    if state.down.take().is_some() {
                        base::log!(Info, "the naming server {} answers again", self.address);
                    }
                    if state.kept.len() < KEPT {
                        state.kept.push(connection);
                    }
                    return Ok(answer);
                }
                // The server may have ended, or closed this connection for another client, since it was last used. So another
                // one is tried; every request may be made twice.
                Err(e) if !is_new && !is_timeout(&e) => {}
                Err(e) => return Err(self.failed(&e, patience)),
            }
        }
    }

    fn dial(&self, end: Instant) -> Result<Connection, Failure> {
        for pause in AGAIN {
            match Connection::open(&self.address, &self.trust, end) {
                Err(Failure::Io(e)) if was_closed(&e) && left(end).is_ok_and(|left| left > pause) => sleep(pause),
                other => return other,
            }
        }
        Connection::open(&self.address, &self.trust, end)
    }

    /// It is of no use until one side changes, so there is nothing to wait for.
    fn refused(&self, why: Refused) -> PeerError {
        if let Refused::OtherKey { .. } = why
            && let Err(e) = self.trust.reload()
        {
            base::log_seldom!(Error, "the keys stay as they are: {e}");
        }
        self.leave(Why::Refused(why), REFUSING)
    }

    fn failed(&self, e: &io::Error, patience: Duration) -> PeerError {
        let why = match e.kind() {
            _ if is_timeout(e) => "it does not answer".into(),
            ErrorKind::UnexpectedEof => "it closed the connection".into(),
            _ => e.to_string(),
        };
        // A server that was given little time is asked again soon.
        let rest = if is_timeout(e) { SILENT.min(patience * 5 / 2) } else { REFUSING };
        self.leave(Why::Said(why), rest)
    }

    fn leave(&self, why: Why, rest: Duration) -> PeerError {
        let mut state = lock(&self.state);
        // The other connections are to the same server.
        state.kept.clear();
        if state.down.is_none() {
            match why {
                Why::Said(_) => base::log!(Info, "the naming server {} is left alone for a while: {why}", self.address),
                Why::Refused(_) => base::log!(Error, "the naming server {} cannot be used: {why}", self.address),
            }
        }
        self.failing.store(true, Ordering::Relaxed);
        state.down = Some((Instant::now() + rest, why.clone()));
        PeerError::Failed(why)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn left(end: Instant) -> io::Result<Duration> {
    match end.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        rest => Ok(rest),
    }
}

/// Whether the other side has closed the connection.
fn was_closed(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Why there is no connection.
enum Failure {
    Io(io::Error),
    Refused(Refused),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure::Io(e)
    }
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Connection {
    fn open(address: &Address, trust: &Arc<Trust>, end: Instant) -> Result<Connection, Failure> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
        let places = resolve(address, end)?;
        for (i, place) in places.iter().enumerate() {
            // An address that does not answer leaves time for the others.
            match TcpStream::connect_timeout(place, left(end)? / (places.len() - i) as u32) {
                Ok(stream) => return Connection::greet(stream, trust, end),
                Err(e) => last = e,
            }
        }
        Err(last.into())
    }

    /// Proves the key, and has the server prove it.
    fn greet(stream: TcpStream, trust: &Arc<Trust>, end: Instant) -> Result<Connection, Failure> {
        stream.set_nodelay(true)?;
        let is_near = trust::is_near(stream.peer_addr()?, stream.local_addr()?);
        let mut connection = Connection { stream, link: Link::Plain };
        let (mut dialling, first) = Dialling::begin(trust, Protocol::Naming, is_near);
        connection.write(&first, end)?;
        loop {
            let mut heard = vec![0; dialling.wants()];
            connection.read(&mut heard, end)?;
            match dialling.hear(&heard).map_err(Failure::Refused)? {
                Progress::More => {}
                Progress::Say(bytes) => connection.write(&bytes, end)?,
                Progress::Done(bytes) => {
                    connection.write(&bytes, end)?;
                    break;
                }
            }
        }
        connection.link = dialling.finish().ok_or(Failure::Refused(Refused::WrongProof))?.into();
        Ok(connection)
    }

    fn exchange(&mut self, request: &[u8], end: Instant) -> io::Result<Answer> {
        let sealed = self.link.seal(request.to_vec());
        self.write(&sealed, end)?;
        let mut header = [0; HEADER];
        self.read(&mut header, end)?;
        let length = wire::body_length(&header).map_err(|_| nonsense("it answers nonsense"))?;
        let mut body = vec![0; length];
        self.read(&mut body, end)?;
        wire::parse(&body).map_err(|_| nonsense("it answers nonsense"))
    }

    fn write(&mut self, mut bytes: &[u8], end: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(end)?))?;
            match self.stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn read(&mut self, mut room: &mut [u8], end: Instant) -> io::Result<()> {
        while !room.is_empty() {
            self.stream.set_read_timeout(Some(left(end)?))?;
            match self.link.read(&mut self.stream, room) {
                Ok(Some(0)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => room = &mut room[n.unwrap_or(0)..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// The addresses of a host. The system's resolver has time limits of its own, so it runs on a thread that may be left behind.
fn resolve(address: &Address, end: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = address.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, address.port)]);
    }
    let (give, take) = channel();
    let (host, port) = (address.host.clone(), address.port);
    quiet::spawn("mpi_connect dns", move || {
        // An error means that the time was over.
        let _ = give.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    })?;
    take.recv_timeout(left(end)?).map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}
