//! The snapshot: engine, paths and session as one versioned value, which stands alone.
//!
//! Invariant: nothing in it refers to a live lane, to memory of any process, or to a moment; what was under way on lanes is
//! with the paths again, and rendezvous that were announced are asked for again.

use crate::path::Path;
use crate::state::Own;
use crate::state::Session;
use crate::state::groups::Groups;
use crate::state::hosts::Hosts;
use crate::state::inters::Inters;
use crate::state::pair::{Identity, Link, Pair};
use crate::state::pairs::Pairs;
use crate::state::talk::Talk;
use base::{Memory, ProcId, Time};
use engine::{Engine, Gone, PeerId, without_addresses};
use serde::{Deserialize, Serialize};
use std::fmt;
use wire::lane::Lane;
use wire::{Contact, TransportId};

/// The version that this library writes and reads.
const VERSION: u8 = 1;

/// Why there is no session in some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotError {
    /// Written by another version of the library.
    Version(u8),
    Damaged,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Version(v) => write!(f, "it has version {v} of its format, this library reads {VERSION}"),
            SnapshotError::Damaged => f.write_str("it is damaged"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Frozen<'a> {
    process: [u8; 16],
    host: [u8; 16],
    engine: std::borrow::Cow<'a, Engine>,
    pairs: Vec<FrozenPair>,
    last_serial: u64,
    strangers: Vec<usize>,
    groups: Groups,
    inters: Inters,
    hosts: Hosts,
}

/// What lasts of a pair.
#[derive(Serialize, Deserialize)]
struct FrozenPair {
    serial: u64,
    peer: PeerId,
    path: Path,
    gone: Option<Gone>,
    cookie: Option<[u8; 16]>,
    contact: Option<Contact>,
    process: Option<[u8; 16]>,
    is_stranger: bool,
    /// Of one that came to a port: bytes that its offer lacks.
    caller: Option<Option<usize>>,
    inbox: Vec<Vec<u8>>,
    talk: Option<Box<Talk>>,
    inters: usize,
    wanted: bool,
    bye_said: bool,
    backlogged: bool,
    met: bool,
    at_port: bool,
}

impl FrozenPair {
    fn of<L>(pair: &Pair<L>) -> FrozenPair {
        FrozenPair {
            serial: pair.serial,
            peer: pair.peer,
            path: pair.path.clone(),
            gone: pair.gone(),
            cookie: pair.who.cookie,
            contact: pair.who.contact.clone(),
            process: pair.process(),
            is_stranger: pair.is_stranger(),
            caller: pair.caller.as_ref().map(|caller| caller.offer_missing),
            inbox: pair.inbox.messages.iter().cloned().collect(),
            talk: pair.talk.clone(),
            inters: pair.inters,
            wanted: pair.wanted,
            bye_said: pair.bye_said,
            backlogged: pair.backlogged,
            met: pair.evidence.met,
            at_port: pair.evidence.at_port,
        }
    }

    fn thaw<L>(self, now: Time) -> Pair<L> {
        let mut pair = Pair::new(self.path, self.peer, self.serial);
        if let Some(how) = self.gone {
            pair.link = Link::Gone { how, last: None };
        }
        pair.who.cookie = self.cookie;
        pair.who.contact = self.contact;
        pair.who.identity = match self.process {
            None => Identity::Unknown,
            Some(process) if self.is_stranger => Identity::Claimed { process, came: now },
            Some(process) => Identity::Known(process),
        };
        pair.caller = self.caller.map(|offer_missing| crate::state::pair::Caller { offer_missing });
        for message in self.inbox {
            pair.inbox.put(message);
        }
        pair.talk = self.talk;
        pair.inters = self.inters;
        pair.wanted = self.wanted;
        pair.bye_said = self.bye_said;
        pair.backlogged = self.backlogged;
        pair.evidence.met = self.met;
        pair.evidence.at_port = self.at_port;
        pair
    }
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Makes the state independent of live lanes, of other processes' memory, and of addresses: lanes are given up, and
    /// give back what the other side has not taken.
    pub fn detach(&mut self) {
        for i in 0..self.pairs.len() {
            self.end_dial(i);
            self.drop_lane(i);
            self.pairs[i].answered = None;
        }
        for visitor in self.visitors.drain() {
            self.act(crate::Action::Dismiss { visitor });
        }
        self.hosts.drop_probes();
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::OldAddresses {
            self.settle();
            self.pairs.iter_mut().for_each(|pair| pair.path.detach(|_| None));
            return;
        }
        self.engine.detach();
        // What the engine had put out and no lane had taken goes to the paths.
        self.settle();
        for pair in self.pairs.iter_mut() {
            pair.path.detach(without_addresses);
        }
    }

    /// The state as bytes. [`Session::detach`] comes first.
    pub fn freeze(&self) -> Vec<u8> {
        let frozen = Frozen {
            process: self.own.process,
            host: self.own.host,
            engine: std::borrow::Cow::Borrowed(&self.engine),
            pairs: self.pairs.iter().map(|(_, pair)| FrozenPair::of(pair)).collect(),
            last_serial: self.pairs.last_serial(),
            strangers: self.pairs.strangers.clone(),
            groups: self.groups.clone(),
            inters: self.inters.clone(),
            hosts: self.hosts.clone(),
        };
        let bytes = vec![VERSION];
        postcard::to_extend(&frozen, bytes).expect("plain data can be written")
    }

    /// A session from such bytes, in a process that has `mem` and knows this of itself. Whoever reads it tells each peer where
    /// this process is now, and by [`Session::relocated`] where they are.
    pub fn thaw(bytes: &[u8], own: Own, mem: M, now: Time) -> Result<Session<L, M>, SnapshotError> {
        let (version, rest) = bytes.split_first().ok_or(SnapshotError::Damaged)?;
        if *version != VERSION {
            return Err(SnapshotError::Version(*version));
        }
        let frozen: Frozen<'_> = postcard::from_bytes(rest).map_err(|_| SnapshotError::Damaged)?;
        let mut session = Session::new(own, frozen.engine.into_owned(), mem);
        let pairs = frozen.pairs.into_iter().map(|pair| pair.thaw(now));
        session.pairs = Pairs::of(pairs.collect(), frozen.last_serial, frozen.strangers);
        session.groups = frozen.groups;
        session.inters = frozen.inters;
        if session.own.host == frozen.host {
            session.hosts = frozen.hosts;
        }
        for i in 0..session.pairs.len() {
            session.look_soon(i);
            session.agenda.leaving.insert(i);
        }
        Ok(session)
    }

    /// This process of another job runs elsewhere now, as this record says: its lanes are gone, and so is its memory.
    pub fn relocated(&mut self, remote: ProcId, contact: &Contact) {
        let its: Vec<usize> =
            self.pairs.iter().filter(|(_, pair)| pair.serial != 0 && pair.remote() == remote).map(|(i, _)| i).collect();
        for i in its {
            self.end_dial(i);
            self.drop_lane(i);
            let pair = &mut self.pairs[i];
            pair.who.contact = Some(contact.clone());
            pair.who.identity = Identity::Known(contact.process);
            (pair.evidence.worked, pair.evidence.seen_at, pair.evidence.refused) = (None, None, None);
            let peer = pair.peer;
            #[cfg(feature = "plant")]
            if self.plant == crate::Plant::OldAddresses {
                self.look_soon(i);
                continue;
            }
            self.engine.forget_memory(peer);
            self.pairs[i].path.rewrite_held(without_addresses);
            self.look_soon(i);
        }
    }

    /// Transports by which a pair is connected, for tests.
    pub fn transport_of(&self, i: usize) -> Option<TransportId> {
        self.pairs[i].lane().map(|up| up.transport)
    }
}
