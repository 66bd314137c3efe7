//! The naming server: clients claim, renew and look up names over TCP. `mpi-connect serve` runs it, in a process of its
//! own.
//!
//! Invariant: one thread and one loop, which never waits for a client. A client costs a bounded amount of memory; beyond a
//! number of clients, the one that was quiet for longest gives way to a new one. Who has not proved the key is told nothing, and
//! pushes out nobody who has.

mod alone;
mod conn;
mod journal;
mod keeper;
mod ledger;
mod metrics;
mod names;
mod owner;
mod room;
mod shared;
mod teller;

use crate::error::ServeError;
use crate::fate::Fate;
use crate::record::Record;
use crate::tcp::Address;
use crate::wire::{Answer, Request};
use alone::answer;
use conn::{Conn, End};
use journal::Journal;
use keeper::Keeper;
pub use ledger::{Ledger, LedgerError, Row};
pub use metrics::Metrics;
use metrics::count;
use names::{Names, News};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{Backlog, listen};
use owner::Owner;
use room::Room;
use shared::Shared;
pub use shared::{Cell, Compare, Event, Op, Outcome, SharedError, SharedStore, SharedWatch, Txn};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};
use teller::Teller;
use trust::{Ring, Trust};

/// The default of how long a claim stands without being renewed.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(24 * 3600);

/// The loop runs at least this often.
const ROUND: Duration = Duration::from_secs(1);
/// The most clients that are accepted before the others are looked at again: fewer than may wait for their proof, so that who is
/// quick with it is not pushed out by who comes with it.
const MOST_AT_ONCE: usize = 50;
/// The pause while no client can be accepted.
const NAP: Duration = Duration::from_millis(50);
/// A round that is late by this much shows that the process was stopped, or had no processor.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// A naming server that listens. It serves once [`Server::run`] is called.
pub struct Server {
    listeners: Vec<TcpListener>,
    names: Names,
    clients: Vec<Conn>,
    trust: Arc<Trust>,
    /// The keys of the last round.
    ring: Arc<Ring>,
    room: Room,
    last: u64,
    teller: Teller,
    journal: Journal,
    /// Keeps the names beyond this server's death, if it is asked to.
    keeper: Option<Keeper>,
    /// The names are there, instead of here.
    shared: Option<Shared>,
    /// Requests of this round that are answered together, once the ledger has what they change.
    waiting: Vec<Asked>,
    /// Somebody reads what is counted.
    metrics: Option<Arc<Metrics>>,
}

/// A request, and by which client of whom.
type Asked = ((names::By, Owner), Request);

impl Server {
    /// Listens at these addresses (`HOST`, `HOST:PORT`), or at the default port of 127.0.0.1 if there are none. Claims stand for
    /// `lease` without being renewed; it lasts from half a second to a day. Clients have to prove a key of `trust`.
    pub fn listen(addresses: &[String], lease: Duration, trust: Arc<Trust>) -> Result<Server, ServeError> {
        if !LEASES.contains(&lease) {
            return Err(ServeError::Lease(lease));
        }
        let addresses = match addresses {
            [] => vec![Address { host: "127.0.0.1".into(), port: crate::DEFAULT_PORT }],
            some => some.iter().map(|a| Address::parse(a)).collect::<Result<_, _>>().map_err(ServeError::Address)?,
        };
        let mut listeners = Vec::new();
        for address in &addresses {
            let failed = |e| ServeError::Listen(address.to_string(), e);
            let places = (address.host.as_str(), address.port).to_socket_addrs().map_err(failed)?;
            let listener = TcpListener::bind(&*places.collect::<Vec<SocketAddr>>()).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            // As many may wait to be accepted as the system allows, so that a flood of them leaves room for others.
            listen(&listener, Backlog::MAXALLOWABLE).map_err(|e| failed(e.into()))?;
            listeners.push(listener);
        }
        Ok(Server {
            listeners,
            names: Names::new(lease),
            clients: Vec::new(),
            ring: trust.ring(),
            trust,
            room: Room::of_process(),
            last: 0,
            teller: Teller::default(),
            journal: Journal::default(),
            keeper: None,
            shared: None,
            waiting: Vec::new(),
            metrics: None,
        })
    }

    /// Has `out` get a line for each claim, release and refusal, instead of the log. Their number per minute is bounded.
    pub fn telling(mut self, out: impl Fn(&str) + Send + 'static) -> Server {
        self.teller.out = Some(Box::new(out));
        self
    }

    /// Keeps the names in this ledger: those that it has are there from now on, each with what its lease had left. What a client
    /// is told is in the ledger before.
    pub fn keeping(mut self, mut ledger: impl Ledger + 'static) -> Result<Server, LedgerError> {
        let now = Instant::now();
        self.names = names::restore(self.names.lease, &mut ledger, now)?;
        self.keeper = Some(Keeper::new(Box::new(ledger), now));
        Ok(self)
    }

    /// Has its names in a store that other servers have theirs in too.
    pub fn sharing(mut self, store: impl SharedStore + 'static) -> Result<Server, SharedError> {
        let (shared, next) = Shared::start(Box::new(store), self.names.lease)?;
        self.journal = Journal::common(next);
        self.shared = Some(shared);
        Ok(self)
    }

    /// What it counts from now on.
    pub fn metrics(&mut self) -> Arc<Metrics> {
        self.metrics.get_or_insert_default().clone()
    }

    /// The number of names that it has.
    pub fn names(&self) -> usize {
        self.shared.as_ref().map_or(self.names.count(), |shared| shared.names() as usize)
    }

    /// For tests: bounds the number of clients at a time that have proved the key, and of those that have not.
    pub fn at_most(mut self, clients: usize) -> Server {
        self.room = Room::of(clients);
        self
    }

    /// A URL for each address, and whether only this host can use it. The host's name stands for all of its addresses.
    pub fn urls(&self) -> Vec<(String, bool)> {
        let url = |listener: &TcpListener| {
            let address = listener.local_addr().ok()?;
            let host = if address.ip().is_unspecified() { crate::host() } else { address.ip().to_string() };
            Some((format!("tcp://{}", Address { host, port: address.port() }), address.ip().is_loopback()))
        };
        self.listeners.iter().filter_map(url).collect()
    }

    /// Serves until `stop` is readable.
    pub fn run(mut self, stop: &impl AsFd) -> Result<(), ServeError> {
        let mut now = Instant::now();
        loop {
            let limits = self.clients.iter().map(|c| if c.has_more { now } else { c.limit() });
            let wake = limits.fold(now + ROUND, Instant::min);
            let ready = self.wait(stop.as_fd(), wake.saturating_duration_since(now))?;
            let before = std::mem::replace(&mut now, Instant::now());
            let late = now.saturating_duration_since(wake.max(before));
            if late > STOOD_STILL {
                base::log!(
                    Info,
                    "this server stood still for {:.1} s: all leases last so much longer",
                    late.as_secs_f32()
                );
                self.names.excuse(late);
            }
            let (ends, rest) = ready.split_at(1);
            if ends[0] {
                base::log!(Info, "told to end; {} clients", self.clients.len());
                if let Some(keeper) = &mut self.keeper {
                    keeper.end(&mut self.names, (&mut self.teller, &self.metrics), now);
                }
                return Ok(());
            }
            let (arrivals, rest) = rest.split_at(self.listeners.len());
            let (_, moves) = rest.split_at(self.shared.is_some().into());
            self.serve(moves, now);
            self.share(now);
            self.look_at_keys();
            // Some may have proved the key just now.
            self.make_room();
            self.names.sweep(now);
            self.settle(now);
            self.accept(arrivals, now);
            tell(self.names.news(), &mut self.journal, &mut self.teller, &self.metrics, now);
            self.measure();
            self.teller.go_on(now);
        }
    }

    /// Waits. Returns which descriptors are ready: the stop, the listeners, the shared names, the clients.
    fn wait(&self, stop: BorrowedFd<'_>, limit: Duration) -> Result<Vec<bool>, ServeError> {
        let mut all = vec![PollFd::new(stop, PollFlags::POLLIN)];
        all.extend(self.listeners.iter().map(|l| PollFd::new(l.as_fd(), PollFlags::POLLIN)));
        all.extend(self.shared.iter().map(|s| PollFd::new(s.fd(), PollFlags::POLLIN)));
        all.extend(self.clients.iter().map(|c| PollFd::new(c.fd(), c.interest())));
        // Rounded up, since poll() counts milliseconds and would return too early.
        let limit = if limit.is_zero() { limit } else { limit + Duration::from_millis(1) };
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        match poll(&mut all, limit) {
            Ok(_) => Ok(all.iter().map(|p| p.any().unwrap_or(true)).collect()),
            Err(nix::Error::EINTR) => Ok(vec![false; all.len()]),
            Err(e) => Err(ServeError::Poll(e.into())),
        }
    }

    /// What is counted now, not once for each.
    fn measure(&self) {
        let Some(metrics) = &self.metrics else { return };
        metrics.connections.store(self.clients.len() as u64, Ordering::Relaxed);
        let watchers = self.clients.iter().filter(|client| client.watches).count();
        metrics.watchers.store(watchers as u64, Ordering::Relaxed);
        let kinds = self.shared.as_ref().map_or_else(|| self.names.kinds(), |shared| shared.kinds);
        for (number, now) in metrics.names.iter().zip(kinds) {
            number.store(now, Ordering::Relaxed);
        }
    }

    fn serve(&mut self, ready: &[bool], now: Instant) {
        let (names, teller, journal) = (&mut self.names, &mut self.teller, &mut self.journal);
        let metrics = &self.metrics;
        let (waiting, is_kept) = (&mut self.waiting, self.keeper.is_some());
        let shared = &self.shared;
        let mut ready = ready.iter();
        self.clients.retain_mut(|client| {
            let over = if ready.next() == Some(&true) || client.has_more {
                let by = (client.id, client.owner);
                let (mut has_claimed, mut watches) = (client.has_claimed, client.watches);
                let end = client.go_on(now, |request| {
                    let changes = match request {
                        Request::Changes { after } => {
                            watches = true;
                            return Some(journal.after(after, now));
                        }
                        Request::Claim { .. } | Request::Renew { .. } | Request::Release { .. } => true,
                        Request::Lookup { .. } | Request::List { .. } => false,
                    };
                    has_claimed |= matches!(request, Request::Claim { .. } | Request::Renew { .. });
                    if changes && is_kept {
                        waiting.push((by, request));
                        return None;
                    }
                    let (refusal, is_renewal) = (refused(&request), matches!(request, Request::Renew { .. }));
                    let answer = match shared {
                        Some(shared) => match shared.ask(by.0, by.1, request.clone()) {
                            Some(answer) => answer,
                            None => {
                                waiting.push((by, request));
                                return None;
                            }
                        },
                        None => answer(names, request, by, now),
                    };
                    counted(metrics, is_renewal, &answer);
                    tell(names.news(), journal, teller, metrics, now);
                    if let Some(why) = refusal.and_then(|refusal| refusal(&answer)) {
                        teller.refused(&why, now);
                    }
                    Some(answer)
                });
                (client.has_claimed, client.watches) = (has_claimed, watches);
                end.err()
            } else {
                None
            };
            let over = over.or_else(|| (client.limit() <= now).then_some(End::Server("it is too slow, or quiet")));
            let Some(end) = over else { return true };
            ended(client, &end, (names, shared), teller, now);
            false
        });
    }

    /// Answers what changes names, once the ledger has it: all of a round with one write, for which none of them waits twice.
    fn settle(&mut self, now: Instant) {
        let Some(keeper) = &mut self.keeper else { return };
        let waiting = std::mem::take(&mut self.waiting);
        let (names, teller, journal) = (&mut self.names, &mut self.teller, &mut self.journal);
        let run = |names: &mut Names, (by, request): &Asked| answer(names, request.clone(), *by, now);
        let answers = keeper.settle(names, (teller, &self.metrics), &waiting, run, now);
        tell(names.news(), journal, teller, &self.metrics, now);
        let answers = waiting.into_iter().zip(answers).collect();
        self.hand_out(answers, now);
    }

    /// Takes what the shared store has answered and told.
    fn share(&mut self, now: Instant) {
        let Some(shared) = &mut self.shared else { return };
        let done = shared.take();
        done.notes.iter().for_each(|text| self.teller.kept(text));
        for (number, fate, shown) in done.news {
            told(fate, &shown, &mut self.teller, &self.metrics, now);
            self.journal.note_as(number, fate, shown, now);
        }
        let mut answers = Vec::new();
        for (by, answer) in done.answers {
            // A client that has gone may still be among them.
            if let Some(at) = self.waiting.iter().position(|((id, _), _)| *id == by) {
                answers.push((self.waiting.swap_remove(at), answer));
            }
        }
        self.hand_out(answers, now);
    }

    /// Gives clients the answers that they wait for.
    fn hand_out(&mut self, answers: Vec<(Asked, Answer)>, now: Instant) {
        let (names, teller) = (&mut self.names, &mut self.teller);
        let mut answers: HashMap<names::By, Answer> = answers
            .into_iter()
            .map(|((by, request), answer)| {
                counted(&self.metrics, matches!(request, Request::Renew { .. }), &answer);
                if let Some(why) = refused(&request).and_then(|refusal| refusal(&answer)) {
                    teller.refused(&why, now);
                }
                (by.0, answer)
            })
            .collect();
        if answers.is_empty() {
            return;
        }
        self.clients.retain_mut(|client| {
            let Some(answer) = answers.remove(&client.id) else { return true };
            let Err(end) = client.put(&answer, now) else { return true };
            ended(client, &end, (names, &self.shared), teller, now);
            false
        });
    }

    fn accept(&mut self, ready: &[bool], now: Instant) {
        for i in (0..self.listeners.len()).filter(|i| ready[*i]) {
            // A bounded number, so that `now` is not too old for the last of them.
            for _ in 0..MOST_AT_ONCE {
                match self.listeners[i].accept() {
                    Ok((stream, from)) => {
                        self.last += 1;
                        match Conn::new(self.last, (stream, from), &self.trust, now) {
                            Ok(client) => self.let_in(client),
                            Err(e) => base::log!(Info, "a client at {from} could not be served: {e}"),
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => {
                        base::log!(Error, "a client could not be let in: {e}");
                        // Mostly for want of descriptors or memory.
                        sleep(NAP);
                        break;
                    }
                }
            }
        }
    }

    fn let_in(&mut self, client: Conn) {
        let owner = client.owner;
        self.clients.push(client);
        while let Some(i) = self.room.surplus_of_strangers(self.clients.iter().map(Conn::seat), owner) {
            let client = self.clients.swap_remove(i);
            base::log_seldom!(Info, "client {} at {} has not proved the key and gives way", client.id, client.from());
        }
    }

    /// Drops clients until no more have proved the key than there is room for.
    fn make_room(&mut self) {
        while let Some(i) = self.room.surplus(self.clients.iter().map(Conn::seat)) {
            let client = self.clients.swap_remove(i);
            base::log!(Info, "client {} at {} gives way to another", client.id, client.from());
        }
    }

    /// Who has proved a key that is not accepted any more has to come again, with one that is.
    fn look_at_keys(&mut self) {
        let ring = self.trust.ring();
        if !Arc::ptr_eq(&ring, &self.ring) {
            self.clients.retain(|client| client.key().is_none_or(|key| ring.find(key).is_some()));
            self.ring = ring;
        }
    }
}

/// A descriptor that is readable once this process gets SIGTERM or SIGINT. From now on these signals do not end it.
pub fn told_to_end() -> io::Result<SignalFd> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// A client's connection is over.
fn ended(client: &Conn, end: &End, (names, shared): (&mut Names, &Option<Shared>), teller: &mut Teller, now: Instant) {
    base::log!(Debug, "client {} at {}: {end}", client.id, client.from());
    if let Some(why) = client.refusal(end) {
        teller.refused(&format!("a client at {} is refused: {why}", client.from()), now);
    }
    if client.has_claimed && matches!(end, End::Client) {
        names.doubt(client.id);
        shared.iter().for_each(|shared| shared.gone(client.id));
    }
}

/// Counts what an answer says; claims and releases are counted as news.
fn counted(metrics: &Option<Arc<Metrics>>, is_renewal: bool, answer: &Answer) {
    match (metrics, answer) {
        (Some(metrics), Answer::Granted { .. }) if is_renewal => count(&metrics.renewals),
        (Some(metrics), Answer::Held { .. } | Answer::Refused(_)) => count(&metrics.refusals),
        _ => {}
    }
}

/// Tells clients that watch and the person that runs the server of changes.
fn tell(news: News, journal: &mut Journal, teller: &mut Teller, metrics: &Option<Arc<Metrics>>, now: Instant) {
    for (fate, shown) in news {
        told(fate, &shown, teller, metrics, now);
        journal.note(fate, shown, now);
    }
}

fn told(fate: Fate, shown: &[u8], teller: &mut Teller, metrics: &Option<Arc<Metrics>>, now: Instant) {
    if let Some(metrics) = metrics {
        count(match fate {
            Fate::Claimed => &metrics.claims,
            Fate::Released => &metrics.releases,
            Fate::Over => &metrics.over,
        });
    }
    if let Ok(record) = Record::decode(shown) {
        teller.news(fate, &record, now);
    }
}

/// For a claim, the text about an answer that refuses it. There is none while its holder is in doubt, since the client then
/// tries again and again.
fn refused(request: &Request) -> Option<impl FnOnce(&Answer) -> Option<String> + use<>> {
    let Request::Claim { record, .. } = request else { return None };
    let wanted = Record::decode(record);
    Some(move |answer: &Answer| {
        let why = match answer {
            Answer::Held { record, doubtful: false } => {
                let by = Record::decode(record).ok()?;
                format!("process {} on {} has it", by.pid, by.host)
            }
            Answer::Held { .. } => return None,
            Answer::Refused(why) => format!("this server {}", crate::wire::refusal(*why)),
            _ => return None,
        };
        Some(match wanted {
            Ok(r) => format!("{} is refused to process {} on {}: {why}", teller::full_name(&r), r.pid, r.host),
            Err(e) => format!("a claim is refused: {e}"),
        })
    })
}
