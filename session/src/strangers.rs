//! Strangers: those who came with a good cookie before anybody has told us who they are. At a port that is every caller,
//! until it has said whose leader it is; in a group, whoever comes before our own program has met the other job.
//!
//! Part of the session. Invariant: only a contact record says which process a pair's other side is. What a stranger says of
//! itself holds until then, and what it has left is forgotten if the record says otherwise; all strangers together cost
//! no more than the limits here.

use crate::state::Session;
use crate::state::pair::{Identity, Pair, PathRef};
use crate::state::talk::Called;
use base::{Memory, Time};
use engine::Gone;
use std::collections::HashMap;
use std::time::Duration;
use wire::lane::Lane;
use wire::{Contact, Hello, Status};

/// Strangers at one port, and of one group.
const MAX_CALLERS: usize = 256;
const MAX_EARLY: usize = 64;
/// Whoever came to us, and cannot be gone to, may come again for so long when its lane is lost: at a port, and where it holds
/// the place of another.
pub(crate) const RETURN_LIMIT: Duration = Duration::from_secs(5);
/// So long whoever has come to a port and said something has time to make its whole offer, before others may take its place.
const OFFER_LIMIT: Duration = Duration::from_secs(10);
/// The part of the program's descriptors that strangers, with those who have not said their HELLO yet, may take.
const STRANGERS_PART: usize = 2;
/// The most that one lane takes of them when it is made.
const LANE_DESCRIPTORS: usize = 3;
/// CONTROL of one stranger that nobody has asked for yet, in bytes, and what all of them may have beyond that together:
/// one offer of the largest group, and a little.
const MAX_STRANGER_CONTROL: usize = 64 << 10;
const MAX_STRANGERS_CONTROL: usize = 65 << 20;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// A pair for one who has come and is not known, if there is place; or what to say to it.
    pub(crate) fn make_stranger(&mut self, hello: &Hello, now: Time) -> Result<usize, (Status, u16)> {
        let group = hello.dest;
        let most = if self.groups.is_port(group.incarnation) { MAX_CALLERS } else { MAX_EARLY };
        let of_group = |s: &Self, i: usize| s.pairs[i].local() == group;
        while self.pairs.strangers.iter().filter(|i| of_group(self, **i)).count() >= most {
            self.drop_stranger(of_group, now)?;
        }
        // One more comes by this. Only those who are connected hold any.
        while self.strangers_descriptors() + LANE_DESCRIPTORS > self.own.descriptors / STRANGERS_PART {
            self.drop_stranger(|s, i| s.pairs[i].lane().is_some(), now)?;
        }
        let i = self.make_pair(hello.dest, hello.source);
        self.pairs[i].who.identity = Identity::Claimed { process: hello.process, came: now };
        self.pairs.strangers.push(i);
        Ok(i)
    }

    /// Descriptors that are open for strangers, and for those who may become some.
    fn strangers_descriptors(&self) -> usize {
        let lanes = self.pairs.strangers.iter().filter_map(|i| self.pairs[*i].lane());
        lanes.map(|up| up.lane.descriptors()).sum::<usize>() + self.visitors.len()
    }

    /// Whether a stranger has hung up and does not come again.
    fn has_left(&self, i: usize, now: Time) -> bool {
        !self.is_coming(i) && self.pairs[i].lost().is_some_and(|lost| now.since(lost.since) >= RETURN_LIMIT)
    }

    /// Makes place: those go first who have left. Then, of those who have said nothing, or have been at a port for long
    /// without a whole offer, the one that has waited longest, of the host that has sent most of them, so that no host keeps
    /// others out. The others stay, and the newcomer is to come again.
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

    /// How it stands with one that was dialled for a port.
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

    /// Has nothing more to do with one that was dialled for a port, as if that had never been.
    pub fn call_off(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            base::log!(Debug, "{} is not dialled any more", self.pairs[i].remote());
            self.end_pair(i, false);
        }
    }

    /// Ends a stranger's pair as if it had never been.
    pub(crate) fn forget_stranger(&mut self, i: usize) {
        self.end_pair(i, false);
    }

    /// It is a stranger no more: its contact record is there. False: somebody else has come in its place.
    pub(crate) fn recognise(&mut self, i: usize, process: [u8; 16]) -> bool {
        let Identity::Claimed { process: claimed, .. } = self.pairs[i].who.identity else { return true };
        self.pairs.strangers.retain(|s| *s != i);
        // If not, it stays a stranger, so that its end leaves no trace.
        claimed == process
    }

    /// How the end of a pair is to be remembered; of a stranger nobody knows whether it was what it said.
    pub(crate) fn remembered(&self, pair: &Pair<L>, removed: bool) -> Option<Gone> {
        let counts = !removed && pair.caller.is_none() && !pair.is_stranger();
        counts.then(|| pair.gone().unwrap_or(Gone::Finished))
    }

    /// Whether there is room for so many bytes of CONTROL from this pair.
    pub(crate) fn has_control_room(&self, i: usize, bytes: usize) -> bool {
        let pair = &self.pairs[i];
        let beyond = |pair: &Pair<L>| pair.inbox.bytes.saturating_sub(MAX_STRANGER_CONTROL);
        if !pair.is_stranger() || pair.inbox.bytes + bytes <= MAX_STRANGER_CONTROL {
            return true;
        }
        let all: usize = self.pairs.strangers.iter().map(|s| beyond(&self.pairs[*s])).sum();
        all + bytes <= MAX_STRANGERS_CONTROL
    }

    /// Learns which process it is that this path leads to, among these, which only now are known to be its group: so what its
    /// lane has shown counts for its whole host. If it has come to us, asks whether we get through to it, too.
    pub fn introduce(&mut self, path: PathRef, contacts: &[Contact]) {
        let Some(i) = self.of_path(path) else { return };
        let process = self.pairs[i].process();
        let Some(contact) = contacts.iter().find(|c| Some(c.process) == process) else { return };
        self.recognise(i, contact.process);
        let pair = &mut self.pairs[i];
        pair.who.identity = Identity::Known(contact.process);
        pair.who.contact = Some(contact.clone());
        match pair.evidence.worked.clone() {
            Some(place) => self.prove(i, &place),
            None => self.probe_host(i),
        }
    }

    /// For tests: bytes of CONTROL that they have said and nobody has asked for.
    pub fn strangers_control(&self) -> usize {
        self.pairs.strangers.iter().map(|i| self.pairs[*i].inbox.bytes).sum()
    }

    /// For tests: how many strangers there are.
    pub fn strangers(&self) -> usize {
        self.pairs.strangers.len()
    }
}
