//! The snapshot: engine, paths and session as one versioned value.
//!
//! Invariant: nothing in it refers to a live lane, to the memory of a process, or to a moment in time. Bodies that were
//! under way on lanes are with the paths again, and the data of announced rendezvous is asked for again.

use crate::path::Path;
use crate::state::Own;
use crate::state::Session;
use crate::state::directory::Ranges;
use crate::state::groups::Groups;
use crate::state::hosts::Hosts;
use crate::state::inters::Inters;
use crate::state::pair::{Caller, Dial, Identity, Link, Lost, Pair};
use crate::state::pairs::Pairs;
use crate::state::talk::FrozenTalk;
use crate::strangers::RETURN_LIMIT;
use base::{Memory, ProcId, Time};
use engine::{Engine, Gone, PeerId, without_addresses};
use serde::{Deserialize, Serialize};
use std::fmt;
use wire::lane::Lane;
use wire::{Contact, Place, TransportId};

/// The version of the format that this library writes and reads.
const VERSION: u8 = 10;
/// The version, and the CRC-32 of all that follows.
const HEAD: usize = 5;

/// Why bytes could not be read as a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotError {
    /// They have this other version of the format.
    Version(u8),
    /// They are not what [`Session::freeze`] writes.
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

/// What a snapshot holds, behind its version.
#[derive(Serialize, Deserialize)]
struct Frozen<'a> {
    process: [u8; 16],
    host: [u8; 16],
    engine: std::borrow::Cow<'a, Engine>,
    pairs: Vec<FrozenPair>,
    last_serial: u64,
    strangers: Vec<usize>,
    groups: Groups,
    ranges: Ranges,
    inters: Inters,
    hosts: Hosts,
}

/// What a snapshot holds of a [`Pair`]: each field is one of the pair's, so it is one thing as that is. Lanes, dials,
/// moments and what is learnt again by dialling are left out.
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
    /// Of a caller: how many bytes of its offer are still to come.
    caller: Option<Option<usize>>,
    inbox: Vec<Vec<u8>>,
    early: Vec<Vec<u8>>,
    talk: Option<Box<FrozenTalk>>,
    inters: usize,
    wanted: bool,
    bye_said: bool,
    backlogged: bool,
    met: bool,
    at_port: bool,
    /// It had a lane, and has none: whether the other side had closed it.
    lost: Option<bool>,
    /// Where the other side was reached: a refusal there proves its death.
    seen_at: Option<Place>,
    /// The other side is away, and comes back by itself.
    away: bool,
    /// And so does this one, for the other side.
    is_expected_back: bool,
    /// The transport that an operator wants.
    pinned: Option<TransportId>,
}

impl FrozenPair {
    fn of<L>(pair: &Pair<L>, now: Time) -> FrozenPair {
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
            early: pair.early.messages.iter().cloned().collect(),
            talk: pair.talk.as_ref().map(|talk| Box::new(talk.freeze(now))),
            inters: pair.inters,
            wanted: pair.wanted,
            bye_said: pair.bye_said,
            backlogged: pair.backlogged,
            met: pair.evidence.met,
            at_port: pair.evidence.at_port,
            lost: pair.lost().map(|lost| lost.hung_up),
            seen_at: pair.evidence.seen_at.clone(),
            away: pair.evidence.away,
            is_expected_back: pair.is_expected_back,
            pinned: pair.moves.pinned,
        }
    }

    /// `None`: it holds more than a pair may.
    fn thaw<L>(self, now: Time) -> Option<Pair<L>> {
        let mut pair = Pair::new(self.path, self.peer, self.serial);
        // Whoever is missed has the whole time to come back, or to be found dead.
        pair.link = match self.gone {
            Some(how) => Link::Gone { how, last: None },
            None => Link::Apart { lost: self.lost.map(|hung_up| Lost { since: now, hung_up }) },
        };
        if self.caller.is_some() && self.lost.is_some() {
            pair.dial = Dial::Resting(now + RETURN_LIMIT);
        }
        pair.who.cookie = self.cookie;
        pair.who.contact = self.contact;
        pair.who.identity = match self.process {
            None => Identity::Unknown,
            Some(process) if self.is_stranger => Identity::Claimed { process, came: now },
            Some(process) => Identity::Known(process),
        };
        pair.caller = self.caller.map(|offer_missing| Caller { offer_missing });
        for message in self.inbox {
            pair.inbox.put(message).then_some(())?;
        }
        for message in self.early {
            pair.early.put(message).then_some(())?;
        }
        pair.talk = self.talk.map(|talk| Box::new(talk.thaw(now)));
        pair.inters = self.inters;
        pair.wanted = self.wanted;
        pair.is_expected_back = self.is_expected_back;
        pair.bye_said = self.bye_said;
        pair.backlogged = self.backlogged;
        pair.evidence.met = self.met;
        pair.evidence.at_port = self.at_port;
        pair.evidence.seen_at = self.seen_at;
        pair.evidence.away = self.away;
        pair.moves.pinned = self.pinned;
        Some(pair)
    }

    #[cfg(feature = "plant")]
    fn forget(&mut self, what: crate::plant::Forgotten) {
        use crate::plant::Forgotten;
        match what {
            Forgotten::Gone => self.gone = None,
            Forgotten::Cookie => self.cookie = None,
            Forgotten::Contact => self.contact = None,
            Forgotten::Process => self.process = None,
            Forgotten::IsStranger => self.is_stranger = false,
            Forgotten::Caller => self.caller = None,
            Forgotten::Inbox => self.inbox.clear(),
            Forgotten::Talk => self.talk = None,
            Forgotten::TalkLimit => self.talk.iter_mut().for_each(|talk| talk.limit = None),
            Forgotten::InterCount => self.inters = 0,
            Forgotten::Wanted => self.wanted = false,
            Forgotten::ByeSaid => self.bye_said = false,
            Forgotten::Backlogged => self.backlogged = false,
            Forgotten::Met => self.met = false,
            Forgotten::AtPort => self.at_port = false,
            Forgotten::Lost => self.lost = None,
            Forgotten::SeenAt => self.seen_at = None,
            Forgotten::Away => self.away = false,
            Forgotten::Pinned => self.pinned = None,
            // Values of the session.
            _ => {}
        }
    }
}

fn write(frozen: &Frozen<'_>) -> Vec<u8> {
    let mut bytes = postcard::to_extend(frozen, vec![0; HEAD]).expect("plain data can be written");
    let sum = crc32fast::hash(&bytes[HEAD..]);
    bytes[0] = VERSION;
    bytes[1..HEAD].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Result<Frozen<'_>, SnapshotError> {
    let (version, rest) = bytes.split_first().ok_or(SnapshotError::Damaged)?;
    if *version != VERSION {
        return Err(SnapshotError::Version(*version));
    }
    let (sum, rest) = rest.split_first_chunk().ok_or(SnapshotError::Damaged)?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*sum) {
        return Err(SnapshotError::Damaged);
    }
    match postcard::take_from_bytes(rest) {
        Ok((frozen, [])) => Ok(frozen),
        _ => Err(SnapshotError::Damaged),
    }
}

/// A snapshot in which one value is missing, as if [`Session::thaw`] forgot it.
#[cfg(feature = "plant")]
#[doc(hidden)]
pub fn forget(bytes: &[u8], what: crate::plant::Forgotten) -> Result<Vec<u8>, SnapshotError> {
    use crate::plant::Forgotten;
    let mut frozen = read(bytes)?;
    match what {
        Forgotten::LastSerial => frozen.last_serial = 0,
        Forgotten::Strangers => frozen.strangers.clear(),
        Forgotten::Groups => frozen.groups = Groups::default(),
        Forgotten::Inters => frozen.inters = Inters::default(),
        Forgotten::Hosts => frozen.hosts = Hosts::default(),
        _ => frozen.pairs.iter_mut().filter(|pair| pair.serial != 0).for_each(|pair| pair.forget(what)),
    }
    Ok(write(&frozen))
}

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Gives up all lanes, dials and incoming connections, and replaces what refers to addresses in memory, so that the
    /// state can be written by [`Session::freeze`]. Lanes give back the bodies that the other side has not read.
    pub fn detach(&mut self) {
        for i in 0..self.pairs.len() {
            self.end_dial(i);
            if self.drop_lane(i)
                && let Link::Apart { lost } = &mut self.pairs[i].link
            {
                *lost = Some(Lost { since: self.agenda.next_tick, hung_up: false });
            }
            self.pairs[i].answered = None;
        }
        for incoming in self.incoming.drain() {
            self.act(crate::Action::Dismiss { incoming });
        }
        self.hosts.drop_probes();
        #[cfg(feature = "plant")]
        if self.plant == crate::Plant::OldAddresses {
            self.settle();
            self.pairs.iter_mut().for_each(|pair| pair.path.detach(|_| None));
            return;
        }
        self.engine.detach();
        // What the engine has put out goes to the paths.
        self.settle();
        for pair in self.pairs.iter_mut() {
            pair.path.detach(without_addresses);
        }
    }

    /// The state as bytes. Call [`Session::detach`] first. Time limits are written as what is left of them at `now`.
    pub fn freeze(&self, now: Time) -> Vec<u8> {
        let frozen = Frozen {
            process: self.own.process,
            host: self.own.host,
            engine: std::borrow::Cow::Borrowed(&self.engine),
            pairs: self.pairs.iter().map(|(_, pair)| FrozenPair::of(pair, now)).collect(),
            last_serial: self.pairs.last_serial(),
            strangers: self.pairs.strangers.clone(),
            groups: self.groups.clone(),
            ranges: self.ranges.clone(),
            inters: self.inters.clone(),
            hosts: self.hosts.clone(),
        };
        write(&frozen)
    }

    /// Reads the state of [`Session::freeze`] in another process, which has the memory `mem` and is described by `own`. The
    /// caller then reports the contact record of this process to each peer, and those of peers that have moved to
    /// [`Session::relocated`].
    ///
    /// `Err`: see [`SnapshotError`].
    pub fn thaw(bytes: &[u8], own: Own, mem: M, now: Time) -> Result<Session<L, M>, SnapshotError> {
        let frozen = read(bytes)?;
        Session::of(frozen, own, mem, now).ok_or(SnapshotError::Damaged)
    }

    /// `None`: the bytes have the right checksum, but what they say cannot be.
    fn of(frozen: Frozen<'_>, own: Own, mem: M, now: Time) -> Option<Session<L, M>> {
        let mut session = Session::new(own, frozen.engine.into_owned(), mem);
        let pairs: Option<Vec<_>> = frozen.pairs.into_iter().map(|pair| pair.thaw(now)).collect();
        session.pairs = Pairs::of(pairs?, frozen.last_serial, frozen.strangers);
        let (pairs, engine) = (&session.pairs, &session.engine);
        let is_sound = crate::sound::is_sound(engine, pairs, &frozen.groups, &frozen.inters, &frozen.hosts);
        if !is_sound || !frozen.ranges.is_sound(pairs.len()) {
            return None;
        }
        session.groups = frozen.groups;
        session.ranges = frozen.ranges;
        session.inters = frozen.inters;
        if session.own.host == frozen.host {
            session.hosts = frozen.hosts;
        }
        for i in 0..session.pairs.len() {
            session.look_soon(i);
            session.agenda.leaving.insert(i);
        }
        Some(session)
    }

    /// Reports that a process of another job was restored elsewhere, with this contact record. Its lanes are lost, and
    /// addresses in its memory mean nothing any more.
    pub fn relocated(&mut self, remote: ProcId, contact: &Contact, now: Time) {
        let its: Vec<usize> =
            self.pairs.iter().filter(|(_, pair)| pair.serial != 0 && pair.remote() == remote).map(|(i, _)| i).collect();
        for (_, between) in self.groups.between.iter_mut().filter(|((_, theirs), _)| *theirs == remote.incarnation) {
            if between.size().is_some_and(|size| remote.rank < size) {
                between.moved.insert(remote.rank, contact.clone());
            }
        }
        for i in its {
            self.end_dial(i);
            let had_lane = self.drop_lane(i);
            if let Link::Apart { lost } = &mut self.pairs[i].link
                && (had_lane || lost.is_some())
            {
                // It has the whole time to come back.
                *lost = Some(Lost { since: now, hung_up: false });
                self.await_caller(i, now);
            }
            if let Some(incoming) = self.pairs[i].answered.take()
                && self.incoming.take(incoming).is_some()
            {
                self.act(crate::Action::Dismiss { incoming });
            }
            self.pairs.strangers.retain(|stranger| *stranger != i);
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
            #[cfg(feature = "plant")]
            if self.plant == crate::Plant::OldHeld {
                self.look_soon(i);
                continue;
            }
            self.pairs[i].path.rewrite_held(without_addresses);
            self.look_soon(i);
        }
    }
}
