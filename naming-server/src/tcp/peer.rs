//! One naming server as this process sees it: connections that are kept, and whether it answers. All stores and claims of a
//! process share it. The client alone uses this.
//!
//! Invariant: no request takes longer than the time that it is given, whatever other threads ask meanwhile; a forked child
//! does not use it.

use super::address::Address;
use crate::quiet;
use crate::wire::{self, Answer, HEADER, HELLO, Request, Welcome};
use std::fmt::{Display, Formatter, Result as Formatted};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long connecting to a server may take, and how long an answer.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
pub(super) const ANSWER: Duration = Duration::from_secs(2);
/// The connections that are kept: one for requests of the program, and one for renewals.
const KEPT: usize = 2;
/// How long a server is not asked again: one that did not answer in time, and one that refused at once, which costs no time.
const SILENT: Duration = Duration::from_secs(5);
const REFUSING: Duration = Duration::from_millis(500);

/// Why a server does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PeerError {
    /// It did not answer a while ago, and was not asked again.
    Down(String),
    /// It was asked, and may have heard the request.
    Failed(String),
}

impl Display for PeerError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        let (PeerError::Down(why) | PeerError::Failed(why)) = self;
        f.write_str(why)
    }
}

/// One naming server.
pub(super) struct Peer {
    pub address: Address,
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
    down: Option<(Instant, String)>,
}

struct Connection(TcpStream);

/// The servers of this process, each once. It is locked only for an instant, since the program may fork at any time.
static ALL: Mutex<Vec<Weak<Peer>>> = Mutex::new(Vec::new());

impl Peer {
    pub(super) fn at(address: &Address) -> Arc<Peer> {
        let mut all = lock(&ALL);
        let me = std::process::id();
        all.retain(|peer| peer.strong_count() > 0);
        let same = |peer: &Weak<Peer>| peer.upgrade().filter(|p| p.process == me && p.address == *address);
        all.iter().find_map(same).unwrap_or_else(|| {
            let (failing, state) = (AtomicBool::new(false), Mutex::default());
            let peer = Arc::new(Peer { address: address.clone(), process: me, failing, state });
            all.push(Arc::downgrade(&peer));
            peer
        })
    }

    /// Whether it was of no use when it was last asked.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Asks, and waits for the answer, at most for so long.
    pub(super) fn ask(&self, request: &Request, patience: Duration) -> Result<Answer, PeerError> {
        let Ok(bytes) = wire::frame(request) else { return Err(PeerError::Down("the request is too long".into())) };
        if self.process != std::process::id() {
            return Err(PeerError::Down("this process was forked from the one that opened it".into()));
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
                None => match Connection::open(&self.address, end.min(Instant::now() + CONNECT)) {
                    Ok(connection) => (connection, true),
                    Err(e) => return Err(self.failed(&e, patience)),
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

    fn failed(&self, e: &io::Error, patience: Duration) -> PeerError {
        let why = match e.kind() {
            _ if is_timeout(e) => "it does not answer".into(),
            ErrorKind::UnexpectedEof => "it closed the connection".into(),
            _ => e.to_string(),
        };
        let mut state = lock(&self.state);
        // The other connections are to the same server.
        state.kept.clear();
        if state.down.is_none() {
            base::log!(Info, "the naming server {} is left alone for a while: {why}", self.address);
        }
        // A server that was given little time is asked again soon.
        let rest = if is_timeout(e) { SILENT.min(patience * 5 / 2) } else { REFUSING };
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

fn nonsense(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Connection {
    fn open(address: &Address, end: Instant) -> io::Result<Connection> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
        let places = resolve(address, end)?;
        for (i, place) in places.iter().enumerate() {
            // An address that does not answer leaves time for the others.
            match TcpStream::connect_timeout(place, left(end)? / (places.len() - i) as u32) {
                Ok(stream) => return Connection::greet(stream, end),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn greet(stream: TcpStream, end: Instant) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        let mut connection = Connection(stream);
        connection.write(&wire::hello(&[]), end)?;
        let mut head = [0; HELLO];
        connection.read(&mut head, end)?;
        let length = wire::proof_length(&head).map_err(|_| nonsense("it is no naming server of MPI_Connect"))?;
        connection.read(&mut vec![0; length], end)?;
        match wire::read_welcome(&head) {
            Welcome::Good => Ok(connection),
            Welcome::OtherVersion(v) => Err(nonsense(&format!("it is of another version ({v})"))),
            Welcome::UnknownFlags => Err(nonsense("it asks for what is not known here")),
            Welcome::Unknown(status) => Err(nonsense(&format!("it refuses, with number {status}"))),
        }
    }

    fn exchange(&mut self, request: &[u8], end: Instant) -> io::Result<Answer> {
        self.write(request, end)?;
        let mut header = [0; HEADER];
        self.read(&mut header, end)?;
        let length = wire::body_length(&header).map_err(|_| nonsense("it answers nonsense"))?;
        let mut body = vec![0; length];
        self.read(&mut body, end)?;
        wire::parse(&body).map_err(|_| nonsense("it answers nonsense"))
    }

    fn write(&mut self, mut bytes: &[u8], end: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.set_write_timeout(Some(left(end)?))?;
            match self.0.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn read(&mut self, mut room: &mut [u8], end: Instant) -> io::Result<()> {
        while !room.is_empty() {
            self.0.set_read_timeout(Some(left(end)?))?;
            match self.0.read(room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => room = &mut room[n..],
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
