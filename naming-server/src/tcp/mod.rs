//! `tcp://HOST:PORT,…`: names are kept by one or several servers, each of which knows all of them. Opened through
//! [`crate::open`].
//!
//! Invariant: a claim is made at every server that answers, in the order of the URL, so two that claim one name meet at
//! the first that both reach; nothing here waits for longer than seconds.

mod address;
mod peer;
mod renewer;

use crate::claim::Holding;
use crate::error::{AddressError, ClaimError, LookupError, RenewError, StoreError};
use crate::record::{Kind, Record, check_name};
use crate::wire::{Answer, Refusal, Request, Token};
use crate::{Claim, Naming, State};
pub use address::Address;
use base::ident::random;
use peer::{ANSWER, Peer, PeerError};
use renewer::Held;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a claim is tried again while its holder may be dead, and for how long at most.
const DOUBT_AGAIN: Duration = Duration::from_millis(50);
const DOUBT_LIMIT: Duration = Duration::from_secs(20);
/// More pages than this of one list are nonsense.
const MAX_PAGES: usize = 1 << 16;

pub struct TcpStore {
    peers: Vec<Arc<Peer>>,
}

/// What all servers together say to a claim.
enum Outcome {
    Granted(Held),
    Held(Box<Record>, bool),
}

impl TcpStore {
    /// Touches nothing. `rest` is what follows `tcp:`.
    pub fn new(rest: &str) -> Result<TcpStore, AddressError> {
        let servers = rest.strip_prefix("//").ok_or(AddressError::NoHost)?;
        let peers = Address::parse_all(servers)?.iter().map(Peer::at).collect();
        Ok(TcpStore { peers })
    }

    /// Claims at all servers, or at none.
    fn claim_everywhere(&self, rec: &Record, bytes: &[u8]) -> Result<Outcome, StoreError> {
        let token: Token = random();
        let request = Request::Claim { token, record: bytes.to_vec() };
        let (mut silent, mut lease) = (Vec::new(), None);
        // What is given back is also what a silent server may have heard.
        let give_back = |peers: &[Arc<Peer>]| {
            let request = Request::Release { token, kind: rec.kind(), name: rec.name.clone() };
            for peer in peers {
                let _ = peer.ask(&request, ANSWER);
            }
        };
        for (i, peer) in self.peers.iter().enumerate() {
            match peer.ask(&request, ANSWER) {
                Ok(Answer::Granted { lease: ms }) => {
                    let granted = Duration::from_millis(ms.into());
                    lease = Some(lease.map_or(granted, |l: Duration| l.min(granted)));
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
        let name = (rec.name.clone(), rec.kind());
        Ok(Outcome::Granted(Held::new(name, token, bytes.to_vec(), self.peers.clone(), lease)))
    }

    fn list_at(&self, peer: &Peer) -> Result<Vec<Record>, PeerError> {
        let odd = || PeerError::Failed("it answers nonsense".into());
        let mut all: Vec<Record> = Vec::new();
        for _ in 0..MAX_PAGES {
            let after = all.last().map(|r| (r.name.clone(), r.kind()));
            let Answer::Names { records, more } = peer.ask(&Request::List { after }, ANSWER)? else {
                return Err(odd());
            };
            if records.is_empty() && more {
                return Err(odd());
            }
            for bytes in records {
                all.push(Record::decode(&bytes).map_err(|_| odd())?);
            }
            if !more {
                return Ok(all);
            }
        }
        Err(odd())
    }
}

impl Naming for TcpStore {
    fn claim(&self, rec: &Record) -> Result<Claim, ClaimError> {
        check_name(&rec.name).map_err(ClaimError::Name)?;
        let bytes = rec.encode().map_err(ClaimError::Record)?;
        let limit = Instant::now() + DOUBT_LIMIT;
        let mut told = false;
        let held = loop {
            match self.claim_everywhere(rec, &bytes)? {
                Outcome::Granted(held) => break Arc::new(held),
                Outcome::Held(by, doubtful) if !doubtful || Instant::now() >= limit => {
                    return Err(ClaimError::Held { by });
                }
                // Its process was killed, as a rule: its lease will end.
                Outcome::Held(..) => {
                    if !std::mem::replace(&mut told, true) {
                        base::log!(Info, "'{}' is held by a process that seems dead; waiting for its lease", rec.name);
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

    fn lookup(&self, kind: Kind, name: &str) -> Result<Option<Record>, LookupError> {
        check_name(name).map_err(LookupError::Name)?;
        let request = Request::Lookup { kind, name: name.into() };
        let mut silent = Vec::new();
        for peer in &self.peers {
            match peer.ask(&request, ANSWER) {
                Ok(Answer::Found { record: None }) => {}
                Ok(Answer::Found { record: Some(bytes) }) => match Record::decode(&bytes) {
                    Ok(rec) if rec.name == name && rec.kind() == kind => return Ok(Some(rec)),
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

    fn list(&self) -> Result<Vec<(Record, State)>, StoreError> {
        let (mut all, mut silent) = (BTreeMap::new(), Vec::new());
        for peer in &self.peers {
            match self.list_at(peer) {
                // Of two that have a name, the first decides, as in a look-up.
                Ok(records) => records.into_iter().for_each(|r| {
                    all.entry((r.name.clone(), r.kind())).or_insert((r, State::Live));
                }),
                Err(e) => silent.push((peer, e)),
            }
        }
        if silent.len() == self.peers.len() { Err(unreachable(silent)) } else { Ok(all.into_values().collect()) }
    }

    fn is_alive(&self, rec: &Record) -> Result<bool, LookupError> {
        Ok(self.lookup(rec.kind(), &rec.name)?.is_some_and(|r| r.incarnation == rec.incarnation))
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        let name = format!("mpi-connect-check-{:016x}", u64::from_le_bytes(random()));
        let probe = Record { size: 0, ..Record::new(&name) };
        let bytes = probe.encode().map_err(|_| StoreError::Refused(self.describe(), "is not asked: a bad record"))?;
        let (mut notes, mut silent) = (Vec::new(), Vec::new());
        for peer in &self.peers {
            let token: Token = random();
            match peer.ask(&Request::Claim { token, record: bytes.clone() }, ANSWER) {
                Ok(Answer::Granted { .. }) => {}
                Ok(Answer::Refused(why)) => return Err(StoreError::Refused(peer.address.to_string(), refusal(why))),
                Ok(_) => return Err(nonsense(peer)),
                Err(e) => {
                    silent.push((peer, e));
                    continue;
                }
            }
            let _ = peer.ask(&Request::Release { token, kind: Kind::Job, name: probe.name.clone() }, ANSWER);
            if !peer.address.is_loopback() {
                notes.push(format!(
                    "what is said to {} is not encrypted, and whoever reaches it may ask it",
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

    fn describe(&self) -> String {
        let servers: Vec<_> = self.peers.iter().map(|p| p.address.to_string()).collect();
        format!("tcp://{}", servers.join(","))
    }
}

struct TcpHolding {
    held: Arc<Held>,
}

impl Holding for TcpHolding {
    /// The thread renews; this only says how it stands.
    fn renew(&self) -> Result<(), RenewError> {
        self.held.standing()
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn release(&mut self) {
        renewer::remove(&self.held);
        self.held.release();
    }

    /// The thread is the parent's, and so is every lock.
    fn abandon(&mut self) {}
}

fn nonsense(peer: &Peer) -> StoreError {
    StoreError::Refused(peer.address.to_string(), "answers nonsense")
}

fn unreachable(silent: Vec<(&Arc<Peer>, PeerError)>) -> StoreError {
    StoreError::Unreachable(silent.into_iter().map(|(peer, e)| (peer.address.to_string(), e.to_string())).collect())
}

fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::Malformed => "does not understand what it was asked",
        Refusal::RecordVersion(_) => "is of another version of MPI_Connect; both need the same",
        Refusal::Full => "has no room for another name",
        Refusal::Ended => "knows this claim as given back",
    }
}
