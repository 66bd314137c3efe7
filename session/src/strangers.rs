//! Strangers: processes that came with a good cookie while no contact record of them is known. At a port each caller is
//! one, until its offer has come. In a group it is a process that dials before our program has met its job.
//!
//! Part of the session. Invariants: only a contact record says which process the other side of a pair is. Until then
//! the stranger's own claim holds, and if the record says otherwise, what it sent is forgotten. All strangers together
//! cost no more than the limits here.

use crate::state::Session;
use crate::state::pair::{Identity, Pair, PathRef};
use crate::state::talk::Called;
use base::{Memory, Time};
use engine::Gone;
use std::collections::HashMap;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Contacts, Hello, Status};

/// The most strangers at one port.
const MAX_CALLERS: usize = 256;
/// The most strangers of one group that is no port.
const MAX_EARLY: usize = 64;
/// The most beyond these in a group with a directory, whose other ranks ask this one for records.
const MAX_BELOW: usize = 128;
/// How long a stranger whose lane is lost may take to dial again, before a caller is given up or its place goes to another.
pub(crate) const RETURN_LIMIT: Duration = Duration::from_secs(5);
/// How long a caller that has said something may take to make its whole offer, before its place may go to another.
const OFFER_LIMIT: Duration = Duration::from_secs(10);
/// Strangers and incoming connections together take at most one in this many of the program's descriptors.
const STRANGERS_PART: usize = 2;
/// The most descriptors that one lane takes while it is made.
const LANE_DESCRIPTORS: usize = 3;
/// The bytes of CONTROL that are kept for each stranger until they are read.
pub(crate) const MAX_STRANGER_CONTROL: usize = 64 << 10;
/// The bytes beyond that for all strangers together: one offer of the largest group, and a little.
const MAX_STRANGERS_CONTROL: usize = 65 << 20;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Makes a pair for a stranger, if there is place. `Err`: the status and the generation of the refusal.
    pub(crate) fn make_stranger(&mut self, hello: &Hello, now: Time) -> Result<usize, (Status, u16)> {
        let group = hello.dest;
        let below = if self.groups.has_directory(group.incarnation) { MAX_BELOW } else { 0 };
        let most = if self.groups.is_port(group.incarnation) { MAX_CALLERS } else { MAX_EARLY + below };
        #[cfg(feature = "plant")]
        let most = if self.plant == crate::Plant::ManyStrangers { usize::MAX } else { most };
        let of_group = |s: &Self, i: usize| s.pairs[i].local() == group;
        while self.pairs.strangers.iter().filter(|i| of_group(self, **i)).count() >= most {
            self.drop_stranger(of_group, now)?;
        }
        // The new lane takes some too. Only strangers with a lane hold any.
        while self.strangers_descriptors() + LANE_DESCRIPTORS > self.own.descriptors / STRANGERS_PART {
            self.drop_stranger(|s, i| s.pairs[i].lane().is_some(), now)?;
        }
        let i = self.make_pair(hello.dest, hello.source);
        self.pairs[i].who.identity = Identity::Claimed { process: hello.process, came: now };
        self.pairs.strangers.push(i);
        Ok(i)
    }

    /// How many descriptors strangers and incoming connections hold.
    fn strangers_descriptors(&self) -> usize {
        let lanes = self.pairs.strangers.iter().filter_map(|i| self.pairs[*i].lane());
        lanes.map(|up| up.lane.descriptors()).sum::<usize>() + self.incoming.len()
    }

    /// Whether a stranger has lost its lane, and its time to dial again is over.
    fn has_left(&self, i: usize, now: Time) -> bool {
        !self.is_coming(i) && self.pairs[i].lost().is_some_and(|lost| now.since(lost.since) >= RETURN_LIMIT)
    }

    /// Makes place for another stranger, among those of which `may_go` is true. Strangers that have left go first. Then
    /// those that have sent nothing, and callers that have long been without a whole offer: of these, one of the host
    /// with the most strangers, so that no host keeps others out, and of that host the oldest. `Err`: none may go, so
    /// the newcomer is to come again.
    fn drop_stranger(&mut self, may_go: impl Fn(&Self, usize) -> bool, now: Time) -> Result<(), (Status, u16)> {
        fn host<L>(pair: &Pair<L>) -> Option<&[u8]> {
            pair.evidence.seen_at.as_ref().map(|place| place.host())
        }
        let mut of_host: HashMap<_, usize> = HashMap::new();
        for i in &self.pairs.strangers {
            *of_host.entry(host(&self.pairs[*i])).or_default() += 1;
        }
        let late = |pair: &Pair<L>| match (&pair.caller, &pair.who.identity) {
            (Some(caller), Identity::Claimed { came, .. }) => {
                caller.offer_missing != Some(0) && now.since(*came) > OFFER_LIMIT
            }
            _ => false,
        };
        let gives_way = |i: &usize| {
            let pair = &self.pairs[*i];
            may_go(self, *i)
                && !self.is_used(*i)
                && (pair.gone().is_some() || self.has_left(*i, now) || pair.path.received() == 0 || late(pair))
        };
        let key = |i: &usize| {
            let pair = &self.pairs[*i];
            let is_there = pair.gone().is_none() && !self.has_left(*i, now);
            (is_there, usize::MAX - of_host.get(&host(pair)).copied().unwrap_or(0), pair.serial)
        };
        let Some(i) = self.pairs.strangers.iter().copied().filter(gives_way).min_by_key(key) else {
            return Err((Status::Later, 0));
        };
        base::log!(Debug, "{} came and gives way to another", self.pairs[i].remote());
        self.forget_stranger(i);
        Ok(())
    }

    /// The state of a caller that was dialled for a dial request.
    pub fn called(&self, path: PathRef) -> Called {
        let pair = self.of_path(path).map(|i| &self.pairs[i]).filter(|pair| pair.gone().is_none());
        let Some(pair) = pair else { return Called::Gone };
        let has_offered = pair.caller.as_ref().is_some_and(|caller| caller.offer_missing == Some(0));
        match pair.lane() {
            _ if has_offered => Called::Offers,
            Some(_) => Called::Connected,
            None if pair.evidence.tries > 0 => Called::InVain,
            None => Called::Dialled,
        }
    }

    /// Gives up a caller that was dialled for a dial request. Nothing of it is remembered.
    pub fn call_off(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            base::log!(Debug, "{} is not dialled any more", self.pairs[i].remote());
            self.end_pair(i, false);
        }
    }

    /// Ends a stranger's pair. Nothing of it is remembered. One that has become a member of an open inter-communicator, before its record came, stays and
    /// loses its lane.
    pub(crate) fn forget_stranger(&mut self, i: usize) {
        if self.is_used(i) {
            self.drop_lane(i);
        } else {
            self.end_pair(i, false);
        }
    }

    /// Whether an inter-communicator or an operation needs this pair.
    pub(crate) fn is_used(&self, i: usize) -> bool {
        self.pairs[i].inters > 0 || self.engine.depends_on(self.pairs[i].peer)
    }

    /// A stranger has said more than there is room for.
    pub(crate) fn says_too_much(&mut self, i: usize) {
        base::log_seldom!(Info, "{} says more than there is room for, and is sent away", self.pairs[i].remote());
        self.forget_stranger(i);
    }

    /// Compares a stranger with its contact record, which says that its process number is `process`. `false`: the
    /// stranger is another process.
    pub(crate) fn recognise(&mut self, i: usize, process: [u8; 16]) -> bool {
        let Identity::Claimed { process: claimed, .. } = self.pairs[i].who.identity else {
            if self.pairs[i].known_process() == Some(process) {
                self.hand_on_early(i);
            }
            return true;
        };
        self.pairs.strangers.retain(|s| *s != i);
        if claimed == process {
            self.hand_on_early(i);
        }
        // If not, its identity stays a claim, so that nothing of it is remembered.
        claimed == process
    }

    /// How the end of a pair is remembered; `None`: not at all, as with strangers, whose claims may be false.
    pub(crate) fn remembered(&self, pair: &Pair<L>, removed: bool) -> Option<Gone> {
        let counts = !removed && pair.caller.is_none() && !pair.is_stranger();
        counts.then(|| pair.gone().unwrap_or(Gone::Finished))
    }

    /// Whether there is room for this many more bytes of CONTROL from this pair.
    pub(crate) fn has_control_room(&self, i: usize, bytes: usize) -> bool {
        let pair = &self.pairs[i];
        let beyond = |pair: &Pair<L>| pair.kept_control().saturating_sub(MAX_STRANGER_CONTROL);
        if !pair.is_stranger() || pair.kept_control() + bytes <= MAX_STRANGER_CONTROL {
            return true;
        }
        let all: usize = self.pairs.strangers.iter().map(|s| beyond(&self.pairs[*s])).sum();
        all + bytes <= MAX_STRANGERS_CONTROL
    }

    /// Reports the contact records of the group at the other end of a path, which tell which process its leader is.
    /// What a dial has shown then counts for its whole host, also if the path has ended meanwhile; if none has got through, its host is
    /// probed.
    pub fn introduce(&mut self, path: PathRef, contacts: &Contacts) {
        self.hosts.name(contacts);
        let Some(i) = self.of_path(path) else { return };
        let process = self.pairs[i].process();
        let Some(contact) = contacts.iter().find(|c| Some(c.process) == process) else { return };
        self.recognise(i, contact.process);
        let pair = &mut self.pairs[i];
        pair.who.identity = Identity::Known(contact.process);
        pair.who.contact = Some(contact.clone());
        if pair.evidence.worked.is_none() {
            self.probe_host(i);
        }
    }

    /// How many bytes of CONTROL are kept for strangers; for tests.
    pub fn strangers_control(&self) -> usize {
        self.pairs.strangers.iter().map(|i| self.pairs[*i].kept_control()).sum()
    }

    /// How many strangers there are; for tests.
    pub fn strangers(&self) -> usize {
        self.pairs.strangers.len()
    }
}
