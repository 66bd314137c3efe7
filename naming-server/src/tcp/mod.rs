//! `tcp://HOST:PORT,…`: names are kept by one or several servers, each of which knows all of them. Opened by [`crate::open`].
//!
//! Invariant: a claim is made at every server that answers, in the order of the URL, so two claims of one name meet at the
//! first server that both reach. No call waits longer than seconds, but for a name whose holder seems dead.

mod address;
mod asked;
mod peer;
mod probe;
mod renewer;

use crate::claim::Holding;
use crate::error::{ClaimError, LookupError, RenewError, StoreError};
use crate::record::{Key, Kind, Record, check_name};
use crate::wire::{Answer, Request, Token, refusal};
use crate::{Change, Claim, Naming, State, Watch};
pub(crate) use address::Address;
use asked::{AskError, ask, patience};
use base::ident::random;
use base::log::Patience;
use base::settings;
use peer::{Peer, PeerError};
pub use probe::{Probe, Said};
use renewer::Held;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use trust::{Encrypt, Trust};

/// How often a claim is tried again while the name's holder may be dead, and for how long at most.
const DOUBT_AGAIN: Duration = Duration::from_millis(50);
const DOUBT_LIMIT: Duration = Duration::from_secs(20);
/// For how long a claim is tried again while the servers do not reach the store that they share.
const STORE_LIMIT: Duration = Duration::from_secs(5);
/// The lease of a note, until a server grants one.
const NOTED: Duration = Duration::from_secs(6);
/// More pages than this of one list are nonsense.
const MAX_PAGES: usize = 1 << 16;

/// A store of names at servers.
pub(crate) struct TcpStore {
    peers: Vec<Arc<Peer>>,
    run: String,
}

/// The answer of all servers together to a claim.
enum Outcome {
    Granted(Box<Held>),
    Held(Box<Record>, bool),
}

impl TcpStore {
    /// The store at these servers, for names of no run. This connects to none of them.
    pub(crate) fn new(servers: &[Address], trust: &Arc<Trust>) -> TcpStore {
        let peers = servers.iter().map(|server| Peer::at(server, trust)).collect();
        TcpStore { peers, run: String::new() }
    }

    /// The same store, for the names of a run that has been checked; empty for none.
    pub(crate) fn of_run(mut self, run: &str) -> TcpStore {
        self.run = run.into();
        self
    }

    /// Claims at all servers, or at none.
    fn claim_everywhere(&self, token: Token, rec: &Record, bytes: &[u8]) -> Result<Outcome, StoreError> {
        let request = Request::Claim { token, record: bytes.to_vec() };
        let (mut silent, mut lease, mut numbers) = (Vec::new(), None, vec![0; self.peers.len()]);
        let mut of_all = false;
        // A server that did not answer may have heard the claim, so it is ended there too.
        let give_back = |peers: &[Arc<Peer>]| {
            let request = Request::Release { token, key: rec.key() };
            for peer in peers {
                let _ = ask(peer, &request, patience(&self.peers));
            }
        };
        for (i, peer) in self.peers.iter().enumerate() {
            match ask(peer, &request, patience(&self.peers)) {
                Ok(Answer::Granted { lease: ms, number, common }) => {
                    numbers[i] = number;
                    let granted = Duration::from_millis(ms.into());
                    lease = Some(lease.map_or(granted, |l: Duration| l.min(granted)));
                    if common {
                        (numbers, of_all) = (vec![number; self.peers.len()], true);
                        break;
                    }
                }
                Ok(Answer::Held { record, doubtful }) => {
                    give_back(&self.peers[..i]);
                    let by = Record::decode(&record).map_err(|_| nonsense(peer))?;
                    return Ok(Outcome::Held(Box::new(by), doubtful));
                }
                Ok(Answer::Refused(why)) => {
                    give_back(&self.peers[..i]);
                    return Err(StoreError::Refused(peer.address.to_string(), refusal(why)));
                }
                Ok(_) => {
                    give_back(&self.peers[..i]);
                    return Err(nonsense(peer));
                }
                Err(e) => silent.push((peer, e)),
            }
        }
        let Some(lease) = lease else { return Err(unreachable(silent)) };
        for (peer, e) in silent {
            base::log!(Info, "'{}' is not known to the naming server {} yet: {e}", rec.name, peer.address);
        }
        let held = Held::new(rec.key(), token, bytes.to_vec(), self.peers.clone(), lease);
        Ok(Outcome::Granted(Box::new(held.numbered(numbers, of_all))))
    }

    /// The names that a server knows, and whether it speaks for all.
    fn list_at(&self, peer: &Peer) -> Result<(Vec<Record>, bool), AskError> {
        let odd = || AskError::Peer(PeerError::Failed("it answers nonsense".into()));
        let mut all: Vec<Record> = Vec::new();
        for _ in 0..MAX_PAGES {
            let after = all.last().map(Record::key);
            let Answer::Names { records, more, common } = ask(peer, &Request::List { after }, patience(&self.peers))?
            else {
                return Err(odd());
            };
            if records.is_empty() && more {
                return Err(odd());
            }
            for bytes in records {
                all.push(Record::decode(&bytes).map_err(|_| odd())?);
            }
            if !more {
                return Ok((all, common));
            }
        }
        Err(odd())
    }

    fn look_up(&self, key: &Key) -> Result<Option<(Record, Option<u64>)>, LookupError> {
        let request = Request::Lookup { key: key.clone() };
        let mut silent = Vec::new();
        for peer in &self.peers {
            match ask(peer, &request, patience(&self.peers)) {
                Ok(Answer::Found { record: None, common: true, .. }) => return Ok(None),
                Ok(Answer::Found { record: None, .. }) => {}
                Ok(Answer::Found { record: Some(bytes), number, common }) => match Record::decode(&bytes) {
                    Ok(rec) if rec.key() == *key => {
                        return Ok(Some((rec, (common || self.peers.len() == 1).then_some(number))));
                    }
                    _ => return Err(nonsense(peer).into()),
                },
                Ok(Answer::Refused(why)) => {
                    return Err(StoreError::Refused(peer.address.to_string(), refusal(why)).into());
                }
                Ok(_) => return Err(nonsense(peer).into()),
                Err(e) => silent.push((peer, e)),
            }
        }
        if silent.len() == self.peers.len() { Err(unreachable(silent).into()) } else { Ok(None) }
    }
}

impl Naming for TcpStore {
    fn claim(&self, rec: &Record) -> Result<Claim, ClaimError> {
        check_name(&rec.name).map_err(ClaimError::Name)?;
        let rec = &Record { run: self.run.clone(), ..rec.clone() };
        let bytes = rec.encode().map_err(ClaimError::Record)?;
        let begun = Instant::now();
        let mut limit = begun + DOUBT_LIMIT;
        let mut patience = Patience::new(begun);
        // Whether a server has answered, and since when no server answers.
        let (mut waits, mut unreachable) = (false, None);
        let mut token: Token = random();
        let held: Arc<Held> = loop {
            let outcome = match self.claim_everywhere(token, rec, &bytes) {
                // A store whose nodes are choosing a new leader is away for a moment. It may have the claim all the same, so that is made
                // again as it was.
                Err(StoreError::StoreAway(_)) if begun.elapsed() < STORE_LIMIT => {
                    sleep(DOUBT_AGAIN);
                    continue;
                }
                // Servers that do not answer now may come back. One that was restarted does not know the dead holder.
                Err(e @ StoreError::Unreachable(_)) if waits && begun.elapsed() < patience_of_set_up() => {
                    let since = *unreachable.get_or_insert_with(Instant::now);
                    if let Some(seconds) = patience.is_over(Instant::now()) {
                        let away = since.elapsed().as_secs();
                        base::log!(Notice, "waiting for {seconds} s for the name '{}': since {away} s {e}", rec.name);
                    }
                    sleep(DOUBT_AGAIN);
                    token = random();
                    limit = Instant::now() + DOUBT_LIMIT;
                    continue;
                }
                outcome => outcome?,
            };
            unreachable = None;
            // It may have been given back.
            token = random();
            match outcome {
                Outcome::Granted(held) => break Arc::from(held),
                Outcome::Held(by, doubtful) if !doubtful || Instant::now() >= limit => {
                    return Err(ClaimError::Held { by });
                }
                // Most likely the holder was killed, and its lease will end.
                Outcome::Held(..) => {
                    waits = true;
                    if let Some(seconds) = patience.is_over(Instant::now()) {
                        base::log!(
                            Notice,
                            "waiting for {seconds} s for the name '{}': it is held by a process that seems dead, until its \
                             lease is over",
                            rec.name
                        );
                    }
                    sleep(DOUBT_AGAIN);
                }
            }
        };
        if let Err(e) = renewer::add(held.clone()) {
            held.release();
            return Err(StoreError::Thread(e).into());
        }
        base::log!(Info, "'{}' is ours at {}", rec.name, self.describe());
        Ok(Claim::new(Box::new(TcpHolding { held })))
    }

    /// The first renewal makes the claim.
    fn note(&self, rec: &Record) -> Result<Claim, ClaimError> {
        check_name(&rec.name).map_err(ClaimError::Name)?;
        let rec = Record { run: self.run.clone(), ..rec.clone() };
        let bytes = rec.encode().map_err(ClaimError::Record)?;
        // The first renewal is due at once.
        let held = Held::new(rec.key(), random(), bytes, self.peers.clone(), NOTED).due_now();
        let held = Arc::new(held);
        renewer::add(held.clone()).map_err(StoreError::Thread)?;
        Ok(Claim::new(Box::new(TcpHolding { held })))
    }

    fn lookup(&self, kind: Kind, name: &str) -> Result<Option<Record>, LookupError> {
        Ok(self.lookup_fenced(kind, name)?.map(|(record, _)| record))
    }

    fn lookup_key(&self, key: &Key) -> Result<Option<Record>, LookupError> {
        Ok(self.look_up(key)?.map(|(record, _)| record))
    }

    fn lookup_fenced(&self, kind: Kind, name: &str) -> Result<Option<(Record, Option<u64>)>, LookupError> {
        check_name(name).map_err(LookupError::Name)?;
        self.look_up(&Key::of(&self.run, kind, name))
    }

    fn list(&self) -> Result<Vec<(Record, State)>, StoreError> {
        let (mut all, mut silent) = (BTreeMap::new(), Vec::new());
        for peer in &self.peers {
            match self.list_at(peer) {
                // If two servers have a name, the first counts, as in a look-up.
                Ok((records, of_all)) => {
                    for record in records {
                        all.entry(record.key()).or_insert((record, State::Live));
                    }
                    if of_all {
                        return Ok(all.into_values().collect());
                    }
                }
                Err(e) => silent.push((peer, e)),
            }
        }
        if silent.len() == self.peers.len() { Err(unreachable(silent)) } else { Ok(all.into_values().collect()) }
    }

    /// By a look-up, whose answer does not matter: a claim would be told to all who watch.
    fn make_ready(&self) -> Result<(), StoreError> {
        match self.look_up(&Key::of(&self.run, Kind::Job, "mpi-connect-check")) {
            Err(LookupError::Store(e)) => Err(e),
            _ => Ok(()),
        }
    }

    fn watch(&self) -> Box<dyn Watch + '_> {
        let mut watch = TcpWatch { peers: &self.peers, from: vec![None; self.peers.len()], of_all: None };
        watch.look();
        Box::new(watch)
    }

    fn is_alive(&self, rec: &Record) -> Result<bool, LookupError> {
        Ok(self.lookup(rec.kind(), &rec.name)?.is_some_and(|r| r.incarnation == rec.incarnation))
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        let name = format!("mpi-connect-check-{:016x}", u64::from_le_bytes(random()));
        let probe = Record { size: 0, ..Record::new(&name) };
        let bytes = probe.encode().map_err(|_| StoreError::Refused(self.url(), "is not asked: a bad record"))?;
        let (mut notes, mut silent) = (Vec::new(), Vec::new());
        for peer in &self.peers {
            let token: Token = random();
            match ask(peer, &Request::Claim { token, record: bytes.clone() }, patience(&self.peers)) {
                Ok(Answer::Granted { .. }) => {}
                Ok(Answer::Refused(why)) => return Err(StoreError::Refused(peer.address.to_string(), refusal(why))),
                Ok(_) => return Err(nonsense(peer)),
                Err(e) => {
                    silent.push((peer, e));
                    continue;
                }
            }
            let _ = ask(peer, &Request::Release { token, key: probe.key() }, patience(&self.peers));
            if peer.encrypts() == Encrypt::Never && !peer.address.is_loopback() {
                notes.push(format!(
                    "what is said to {} is not encrypted, for MPI_CONNECT_ENCRYPT is never: whoever is on the way can read and \
                     change it",
                    peer.address
                ));
            }
        }
        if silent.len() == self.peers.len() {
            return Err(unreachable(silent));
        }
        notes.extend(silent.iter().map(|(peer, e)| format!("the naming server {} is of no use: {e}", peer.address)));
        Ok(notes)
    }

    fn run(&self) -> &str {
        &self.run
    }

    fn url(&self) -> String {
        let servers: Vec<_> = self.peers.iter().map(|p| p.address.to_string()).collect();
        format!("tcp://{}", servers.join(","))
    }
}

/// A watch that asks each server for its journal.
struct TcpWatch<'a> {
    peers: &'a [Arc<Peer>],
    /// The number from which to ask on, for each server; `None` if it is not known yet.
    from: Vec<Option<u64>>,
    /// The same for servers before one store, whose numbers are the same: the first that answers tells of all.
    of_all: Option<u64>,
}

impl TcpWatch<'_> {
    fn look(&mut self) -> Vec<Change> {
        let (mut all, now) = (Vec::new(), crate::now());
        for (peer, from) in self.peers.iter().zip(&mut self.from) {
            // A restarted server counts from 0 again. It tells of names that it learns by renewals as of new ones; the caller
            // knows them already.
            let mut is_common = false;
            loop {
                let after = self.of_all.or(*from);
                let Ok(Answer::Changes { next, changes, common }) =
                    ask(peer, &Request::Changes { after }, patience(self.peers))
                else {
                    break;
                };
                let is_last = changes.is_empty();
                is_common = common;
                if common {
                    self.of_all = Some(next);
                } else {
                    (*from, self.of_all) = (Some(next), None);
                }
                all.extend(changes.into_iter().filter_map(|change| {
                    let record = Record::decode(&change.record).ok()?;
                    Some(Change { fate: change.fate, at: now.saturating_sub(change.age / 1000), record })
                }));
                if is_last {
                    break;
                }
            }
            if is_common {
                break;
            }
        }
        all
    }
}

impl Watch for TcpWatch<'_> {
    fn next(&mut self, patience: Duration) -> Vec<Change> {
        sleep(patience);
        self.look()
    }
}

struct TcpHolding {
    held: Arc<Held>,
}

impl Holding for TcpHolding {
    /// The thread renews the claim, and this returns its state.
    fn renew(&self) -> Result<(), RenewError> {
        self.held.standing()
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn fence(&self) -> Option<u64> {
        self.held.fence()
    }

    fn release(&mut self) {
        renewer::remove(&self.held);
        self.held.release();
    }

    /// Nothing is to be done, since the thread runs in the parent. Locks may not be touched.
    fn abandon(&mut self) {}
}

/// How long a claim that waits for a dead holder goes on when no server answers: the time limit of connection set-up. A bad
/// setting is reported elsewhere.
fn patience_of_set_up() -> Duration {
    settings::timeout().unwrap_or(Duration::from_secs(settings::DEFAULT_TIMEOUT))
}

fn nonsense(peer: &Peer) -> StoreError {
    StoreError::Refused(peer.address.to_string(), "answers nonsense")
}

fn unreachable(silent: Vec<(&Arc<Peer>, AskError)>) -> StoreError {
    let is_away = silent.iter().any(|(_, e)| *e == AskError::StoreAway);
    let is_refused = silent.iter().any(|(_, e)| e.refused().is_some());
    let said = silent.into_iter().map(|(peer, e)| (peer.address.to_string(), e.to_string())).collect();
    // A server that trusts this process may reach its store again.
    match (is_away, is_refused) {
        (true, _) => StoreError::StoreAway(said),
        (_, true) => StoreError::Untrusted(said),
        _ => StoreError::Unreachable(said),
    }
}
