//! What an operator changes in a process that runs: which transport carries its pairs, which transports it uses, and whether
//! it is connected at all.
//!
//! Part of the core; control commands come here, and tests. Invariant: an operation of the program never fails because of
//! what is done here.

use crate::memory::Buffers;
use crate::signal;
use crate::state::Core;
use base::ProcId;
use session::{Became, CannotMove, Hold, Ordered, Pair};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};
use transports::registry::{AnyLane, Entry, TAKEN_OUT};
use transports::transport::Env;
use wire::lane::Lane;
use wire::{About, Scope, TransportId};

/// How long pairs may take to leave a transport that is taken out of use. Then their lanes are cut.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// Processes that an answer names.
const MOST_NAMED: usize = 3;

/// What became of the order to move pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Pairs that have begun to move: our process and theirs.
    pub begun: Vec<(ProcId, ProcId)>,
    /// How many pairs use the transport already, by its title: `best` may mean several.
    pub there: BTreeMap<&'static str, usize>,
    /// Pairs that are not connected, and may use it when they are.
    pub unconnected: usize,
    /// Pairs that cannot be moved, and why.
    pub refused: Vec<(ProcId, CannotMove)>,
}

impl Moved {
    fn note(&mut self, pair: &Pair<AnyLane>, what: Result<Ordered, CannotMove>) {
        let (local, remote) = (pair.local(), pair.remote());
        match what {
            Ok(Ordered::Moves) => self.begun.push((local, remote)),
            Ok(Ordered::There) => {
                let title = pair.lane().map_or("", |up| up.lane.about().title);
                *self.there.entry(title).or_default() += 1;
            }
            Ok(Ordered::NotConnected) => self.unconnected += 1,
            Err(why) => self.refused.push((remote, why)),
        }
    }
}

/// The first few of these, of which there are so many, and how many others.
pub(crate) fn named(all: impl Iterator<Item = String>, number: usize, between: &str) -> String {
    let mut named: Vec<String> = all.take(MOST_NAMED).collect();
    match number - named.len() {
        0 => (),
        1 => named.push("another one".into()),
        more => named.push(format!("{more} others")),
    }
    named.join(between)
}

/// There is no such transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTransport(pub String);

impl fmt::Display for NoTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = transports::registry::words().collect();
        write!(f, "'{}' is no transport: one of best, {} is expected", self.0, all.join(", "))
    }
}

/// Why a transport cannot be taken out of use, or used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotUse {
    /// There is none of that name.
    Unknown(NoTransport),
    /// No other one reaches the same processes, and connections are made by it.
    Last,
    /// No other one reaches these processes, with which there are connections.
    Only(Vec<ProcId>),
    /// It could not be opened.
    System(String),
}

impl fmt::Display for CannotUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotUse::Unknown(e) => e.fmt(f),
            CannotUse::Last => f.write_str("no other transport can take its place, so it stays"),
            CannotUse::Only(of) => {
                write!(
                    f,
                    "no other transport reaches {}, so it stays",
                    named(of.iter().map(ProcId::to_string), of.len(), ", ")
                )
            }
            CannotUse::System(e) => f.write_str(e),
        }
    }
}

impl Core {
    /// Has the pairs of which `which` is true, of our process and theirs, use the transport of this word from now on; `best`
    /// gives the choice back to the library. [`Core::moved`] says what becomes of those that have begun.
    pub fn switch(&mut self, which: impl Fn(ProcId, ProcId) -> bool, word: &str) -> Result<Moved, NoTransport> {
        let transport = match word {
            "best" => None,
            _ => Some(self.named(word)?.1.id),
        };
        let now = self.now();
        let mut moved = Moved::default();
        for (i, ..) in self.live_pairs().filter(|(_, local, remote)| which(*local, *remote)).collect::<Vec<_>>() {
            let what = self.session.move_to(i, transport, now);
            moved.note(self.session.pair(i), what);
        }
        Ok(moved)
    }

    /// The pairs whose processes are not gone: our process and theirs.
    fn live_pairs(&self) -> impl Iterator<Item = (usize, ProcId, ProcId)> {
        let pairs = self.session.pairs().filter(|(i, pair)| self.session.is_pair(*i) && pair.gone().is_none());
        pairs.map(|(i, pair)| (i, pair.local(), pair.remote()))
    }

    /// Those of these pairs that have no connection.
    pub(crate) fn without_lane(&self, pairs: &[(ProcId, ProcId)]) -> Vec<ProcId> {
        let has_none = |(_, pair): &(usize, &Pair<AnyLane>)| pair.gone().is_none() && pair.lane().is_none();
        let found = pairs.iter().filter_map(|(local, remote)| self.find(*local, *remote));
        found.map(|i| (i, self.session.pair(i))).filter(has_none).map(|(_, pair)| pair.remote()).collect()
    }

    /// What has become of a pair that has begun to move.
    pub fn moved(&self, (local, remote): (ProcId, ProcId)) -> Became {
        let pair = self.find(local, remote);
        pair.map_or_else(|| Became::Stays("its process is gone".into()), |i| self.session.became(i))
    }

    /// Takes a transport out of use: its pairs move to others, and when its last lane is closed nothing of it is left.
    /// [`Core::uses`] says when. Returns which pairs leave it, of our process and theirs; `None`: nothing of it is left already.
    pub fn stop_using(&mut self, word: &str) -> Result<Option<Vec<(ProcId, ProcId)>>, CannotUse> {
        let (n, about) = self.named(word).map_err(CannotUse::Unknown)?;
        // One for this host alone can be replaced by any, one for all hosts by another such.
        let replaces = |e: &Entry| about.scope == Scope::Host || e.about.scope == Scope::Anywhere;
        let is_used = |e: &Entry| e.opened.is_ok() && !e.withdrawn;
        let is_last = !self.registry.entries().any(|e| e.about.id != about.id && is_used(e) && replaces(e));
        if is_last {
            return Err(CannotUse::Last);
        }
        if !self.uses(word) {
            return Ok(None);
        }
        let only = self.session.reached_only_by(about.id);
        if !only.is_empty() {
            return Err(CannotUse::Only(only));
        }
        let on_it = |i: &usize| self.session.pair(*i).lane().is_some_and(|up| up.transport == about.id);
        let leave = self.live_pairs().filter(|(i, ..)| on_it(i)).map(|(_, local, remote)| (local, remote)).collect();
        self.registry.withdraw(n);
        self.session.set_transport(about.id, Err(TAKEN_OUT));
        self.tell_contact();
        self.leaving.push((n, Instant::now() + LEAVE_LIMIT));
        self.move_from(Some(about.id));
        Ok(Some(leave))
    }

    /// Uses a transport from now on, one that was taken out of use or that was not there before. Pairs for which it is best
    /// move to it. Returns what becomes of all pairs: see [`Core::moved`].
    pub fn use_again(&mut self, word: &str) -> Result<Moved, CannotUse> {
        let (n, about) = self.named(word).map_err(CannotUse::Unknown)?;
        self.leaving.retain(|(leaving, _)| *leaving != n);
        let env = Env { trust: &self.trust, doorbell: self.watch.doorbell() };
        self.registry.open_again(n, &env).map_err(|e| CannotUse::System(crate::StartError::from(e).to_string()))?;
        if let Some(polling) = self.registry.polling.take() {
            self.polled.polling = Some(polling);
            self.watch.wake();
        }
        self.watch.set_listeners(&self.registry);
        self.session.set_transport(about.id, Ok(()));
        self.tell_contact();
        self.move_from(None);
        let mut moved = Moved::default();
        for (i, ..) in self.live_pairs() {
            moved.note(self.session.pair(i), self.session.uses(i, about.id));
        }
        Ok(moved)
    }

    /// Whether anything of a transport is left: a listener or a lane.
    pub fn uses(&self, word: &str) -> bool {
        let entry = self.registry.entries().find(|entry| entry.about.word == word);
        entry.is_some_and(|entry| entry.opened.is_ok() || self.session.lanes_of(entry.about.id) > 0)
    }

    /// The transport of this word, and its place in the registry.
    fn named(&self, word: &str) -> Result<(usize, About), NoTransport> {
        let found = self.registry.entries().map(|entry| entry.about).enumerate().find(|(_, about)| about.word == word);
        found.ok_or_else(|| NoTransport(word.into()))
    }

    /// The others are told how this process is reached now.
    fn tell_contact(&mut self) {
        let contact = self.registry.contact();
        self.session.set_contact(&contact);
    }

    /// Pairs whose lane is of this transport, or of any, move to the best that is left.
    fn move_from(&mut self, transport: Option<TransportId>) {
        let now = self.now();
        let concerned = |up: &session::Up<_>| transport.is_none_or(|from| up.transport == from);
        let pairs = self.session.pairs().filter(|(_, pair)| pair.lane().is_some_and(concerned));
        for i in pairs.map(|(i, _)| i).collect::<Vec<_>>() {
            // One that only the other side can move is cut at the end.
            let _ = self.session.move_to_preferred(i, now);
        }
    }

    /// Closes transports that no lane uses any more. Called at each tick.
    pub(crate) fn step_leaving(&mut self, instant: Instant) {
        for (n, until) in self.leaving.clone() {
            let Some(id) = self.registry.entries().nth(n).map(|entry| entry.about.id) else { continue };
            if self.session.lanes_of(id) == 0 {
                self.close_transport(n);
            } else if instant >= until {
                let is_left = |up: &session::Up<_>| up.transport == id;
                let pairs = self.session.pairs().filter(|(_, pair)| pair.lane().is_some_and(is_left));
                for i in pairs.map(|(i, _)| i).collect::<Vec<_>>() {
                    if let Some(up) = self.session.pair_mut(i).lane_mut() {
                        Lane::<Buffers>::cut(&mut up.lane);
                    }
                    let now = self.now();
                    self.session.lane_died(i, now);
                }
            }
        }
    }

    fn close_transport(&mut self, n: usize) {
        self.leaving.retain(|(leaving, _)| *leaving != n);
        let watch = &self.watch;
        if let Some(transport) = self.registry.at(n) {
            transport.listeners(&mut |_, fd| watch.unset(fd));
            if transport.doorbells().is_some() {
                self.polled.polling = None;
                // The background thread has them too.
                self.watch.wake();
            }
        }
        self.registry.close_one(n);
    }

    // ---- hold and resume

    /// Gives up all connections to other jobs, until [`Core::resume`]: calls wait meanwhile. Signals that came before are obeyed
    /// before.
    pub fn hold(&mut self) {
        signal::obey_pending(self);
        self.hold_now();
    }

    /// Connects again, also if this process is reached at other addresses now. Signals that came before are obeyed before.
    pub fn resume(&mut self) {
        signal::obey_pending(self);
        self.resume_now();
    }

    /// Connects again, now that all who wanted to know have been told.
    pub(crate) fn come_back(&mut self) {
        if self.session.is_held() != Hold::No {
            self.rebind();
        }
        let now = self.now();
        self.session.resume(now);
    }

    /// Waits no longer for processes of this job that were held and are gone. Returns how many were away.
    pub fn give_up(&mut self, job: &str) -> usize {
        let of_job = |remote: ProcId| base::ident::name_of_job(remote.incarnation).as_deref() == Some(job);
        let pairs = self.session.pairs().filter(|(i, pair)| self.session.is_pair(*i) && of_job(pair.remote()));
        let pairs: Vec<_> = pairs.map(|(i, _)| i).collect();
        pairs.into_iter().filter(|i| self.session.wait_no_longer(*i)).count()
    }

    /// Listens where this process can be reached now, and tells the others if that has changed.
    fn rebind(&mut self) {
        let before = self.registry.contact();
        let watch = &self.watch;
        self.registry.opened().for_each(|(_, t)| t.listeners(&mut |_, fd| watch.unset(fd)));
        let host = self.registry.rebind();
        self.watch.set_listeners(&self.registry);
        self.session.set_host(host);
        if self.registry.contact() != before {
            base::log!(Info, "this process is reached in another way from now on");
            self.tell_contact();
        }
    }
}
