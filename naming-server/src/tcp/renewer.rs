//! The claims that this process holds at servers, and the one thread that renews them all. The client alone uses this.
//!
//! Invariant: the thread runs while there are claims, and only in the process that made them. A release waits at most for a
//! renewal of the same claim that is under way, and a released claim is never renewed.

use super::asked::{AskError, ask, patience};
use super::peer::Peer;
use crate::error::RenewError;
use crate::quiet;
use crate::record::Key;
use crate::wire::{Answer, Refusal, Request, Token, refusal};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a claim is renewed again while no server answers.
const AGAIN: Duration = Duration::from_secs(1);
/// For how long a release is tried again while the servers do not reach the store that they share.
const GIVE_BACK: Duration = Duration::from_secs(2);
const AWAY: Duration = Duration::from_millis(50);
/// A claim is lost when the first server that answers has said this often in a row that another process has the name, while
/// a later server says that we have it. Once is not enough, since the other claim may be about to be given back.
const STRIKES: u32 = 2;

/// A claim at servers.
pub(super) struct Held {
    pub key: Key,
    pub token: Token,
    /// The record as it is written.
    pub record: Vec<u8>,
    /// The servers, in the order of the URL.
    pub peers: Vec<Arc<Peer>>,
    lost: AtomicBool,
    /// The largest number that it was granted with, if one server speaks for all; else 0.
    fence: AtomicU64,
    state: Mutex<State>,
}

struct State {
    lease: Duration,
    /// The number of the claim at each server; 0 where it was not granted yet.
    numbers: Vec<u64>,
    /// The servers stand before one store: one is asked for all.
    of_all: bool,
    released: bool,
    strikes: u32,
    alone: bool,
    /// No server has granted it yet.
    untold: bool,
    /// The time of the next renewal.
    due: Instant,
}

impl Held {
    /// A claim that was granted; `lease` is the shortest of all servers.
    pub(super) fn new(key: Key, token: Token, record: Vec<u8>, peers: Vec<Arc<Peer>>, lease: Duration) -> Held {
        let due = Instant::now() + lease / 3;
        let numbers = vec![0; peers.len()];
        let (released, alone, untold, of_all) = (false, false, false, false);
        let state = Mutex::new(State { lease, numbers, of_all, released, strikes: 0, alone, untold, due });
        Held { key, token, record, peers, lost: AtomicBool::new(false), fence: AtomicU64::new(0), state }
    }

    /// The same claim, with the number that each server has granted it with, and whether one server speaks for all.
    pub(super) fn numbered(self, numbers: Vec<u64>, of_all: bool) -> Held {
        if of_all || numbers.len() == 1 {
            self.fence.store(numbers.iter().copied().max().unwrap_or(0), Ordering::Relaxed);
        }
        {
            let mut state = lock(&self.state);
            (state.numbers, state.of_all) = (numbers, of_all);
        }
        self
    }

    /// The same claim, which was made at no server yet. Its first renewal makes it.
    pub(super) fn due_now(self) -> Held {
        {
            let mut state = lock(&self.state);
            (state.due, state.untold) = (Instant::now(), true);
        }
        self
    }

    /// Whether the claim stands, as far as is known; asks no server.
    pub(super) fn standing(&self) -> Result<(), RenewError> {
        if self.lost.load(Ordering::Relaxed) { Err(RenewError::Lost(format!("'{}'", self.key.name))) } else { Ok(()) }
    }

    /// See [`crate::Claim::fence`].
    pub(super) fn fence(&self) -> Option<u64> {
        Some(self.fence.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }

    /// Gives the name back at all servers. A claim that no server knows yet is made at one first, so that clients that watch see
    /// it.
    pub(super) fn release(&self) {
        let mut state = lock(&self.state);
        state.released = true;
        if state.untold && !self.peers.iter().all(|peer| peer.is_failing()) {
            let request = Request::Renew { token: self.token, number: 0, record: self.record.clone() };
            let _ = self.peers.iter().find_map(|peer| ask(peer, &request, patience(&self.peers)).ok());
        }
        self.give_back(state.of_all);
    }

    fn give_back(&self, of_all: bool) {
        let request = Request::Release { token: self.token, key: self.key.clone() };
        let again = Instant::now() + GIVE_BACK;
        // A store that the servers share may be away only for a moment.
        while of_all && Instant::now() < again {
            let mut is_away = false;
            for peer in &self.peers {
                match ask(peer, &request, patience(&self.peers)) {
                    Ok(Answer::Released) => return,
                    Err(AskError::StoreAway) => is_away = true,
                    _ => {}
                }
            }
            if !is_away {
                break;
            }
            std::thread::sleep(AWAY);
        }
        for peer in &self.peers {
            let why = match ask(peer, &request, patience(&self.peers)) {
                Ok(Answer::Refused(why)) => format!("the naming server {}", refusal(why)),
                Ok(_) if of_all => return,
                Ok(_) => continue,
                Err(e) => e.to_string(),
            };
            base::log!(Info, "'{}' stays at {} until its lease is over: {why}", self.key.name, peer.address);
        }
    }

    /// Renews the claim at all servers. Returns the time of the next renewal.
    fn renew(&self) -> Instant {
        let mut state = lock(&self.state);
        let begun = Instant::now();
        if state.released || self.lost.load(Ordering::Relaxed) {
            return begun + Duration::from_secs(3600);
        }
        // A server that does not answer must not cost the claim its lease at the others.
        let patience = (state.lease / 3).min(patience(&self.peers));
        let mut order: Vec<usize> = (0..self.peers.len()).collect();
        order.sort_by_key(|i| self.peers[*i].is_failing());
        let mut answers: Vec<Option<bool>> = vec![None; self.peers.len()];
        let mut lease: Option<Duration> = None;
        for i in order {
            let peer = &self.peers[i];
            let number = state.numbers[i];
            let request = Request::Renew { token: self.token, number, record: self.record.clone() };
            answers[i] = match ask(peer, &request, patience) {
                Ok(Answer::Granted { lease: ms, number, common }) => {
                    state.numbers[i] = number;
                    if common {
                        state.numbers.fill(number);
                    }
                    state.of_all = common;
                    if common || self.peers.len() == 1 {
                        self.fence.fetch_max(number, Ordering::Relaxed);
                    }
                    let granted = Duration::from_millis(ms.into());
                    lease = Some(lease.map_or(granted, |l| l.min(granted)));
                    Some(true)
                }
                Ok(Answer::Held { .. } | Answer::Refused(Refusal::Superseded)) => Some(false),
                Ok(other) => {
                    let why = if let Answer::Refused(why) = other { refusal(why) } else { "answers nonsense" };
                    base::log_seldom!(
                        Error,
                        "'{}' is not renewed: the naming server {} {why}",
                        self.key.name,
                        peer.address
                    );
                    None
                }
                Err(e) => {
                    base::log!(Debug, "'{}' is not renewed at {}: {e}", self.key.name, peer.address);
                    None
                }
            };
            if state.of_all && answers[i].is_some() {
                break;
            }
        }
        let mut told = answers.iter().flatten();
        let first = told.next().copied();
        let ours = answers.contains(&Some(true));
        state.strikes = if first == Some(false) { state.strikes + 1 } else { 0 };
        if first == Some(false) && (!ours || state.strikes >= STRIKES) {
            self.lost.store(true, Ordering::Relaxed);
            base::log!(Error, "the name '{}' is another's by now: this process was taken for dead", self.key.name);
            self.give_back(state.of_all);
            return begun + Duration::from_secs(3600);
        }
        if ours == state.alone {
            state.alone = !ours;
            if ours {
                base::log!(Info, "'{}' is renewed again", self.key.name);
            } else {
                base::log!(Error, "'{}' can be renewed at no naming server; trying on", self.key.name);
            }
        }
        state.untold &= !ours;
        state.lease = lease.unwrap_or(state.lease);
        state.due = begun + if ours { state.lease / 3 } else { AGAIN.min(state.lease / 3) };
        state.due
    }
}

/// The thread and its work. A forked child has a copy without a thread, which it knows by the pid.
struct Renewer {
    process: u32,
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    claims: Vec<(Instant, Arc<Held>)>,
    running: bool,
}

/// The renewer of this process. It is locked only for an instant, since the program may fork at any time.
static CURRENT: Mutex<Option<Arc<Renewer>>> = Mutex::new(None);

fn current() -> Arc<Renewer> {
    let mut current = lock(&CURRENT);
    let me = std::process::id();
    match &*current {
        Some(renewer) if renewer.process == me => renewer.clone(),
        _ => {
            let new = Arc::new(Renewer { process: me, work: Mutex::default(), changed: Condvar::new() });
            // The copy of the parent's claims is leaked, so that dropping it does not end them.
            std::mem::forget(current.replace(new.clone()));
            new
        }
    }
}

/// Renews the claim from now on.
pub(super) fn add(held: Arc<Held>) -> io::Result<()> {
    let renewer = current();
    let mut work = lock(&renewer.work);
    if !work.running {
        let this = renewer.clone();
        quiet::spawn("mpi_connect names", move || this.run())?;
        work.running = true;
    }
    let due = lock(&held.state).due;
    work.claims.push((due, held));
    renewer.changed.notify_one();
    Ok(())
}

/// Renews the claim no more.
pub(super) fn remove(held: &Arc<Held>) {
    let renewer = current();
    lock(&renewer.work).claims.retain(|(_, other)| !Arc::ptr_eq(held, other));
    renewer.changed.notify_one();
}

impl Renewer {
    fn run(&self) {
        let mut work = lock(&self.work);
        loop {
            let now = Instant::now();
            let Some(index) = (0..work.claims.len()).min_by_key(|i| work.claims[*i].0) else {
                work.running = false;
                return;
            };
            let (due, held) = work.claims[index].clone();
            if due > now {
                let waited = self.changed.wait_timeout(work, due - now);
                work = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(work);
            let next = held.renew();
            work = lock(&self.work);
            if let Some(claim) = work.claims.iter_mut().find(|(_, other)| Arc::ptr_eq(&held, other)) {
                claim.0 = next;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
