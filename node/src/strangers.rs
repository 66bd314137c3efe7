//! Strangers: those who came with a good cookie before anybody has told us who they are. At a port that is every caller,
//! until it has said whose leader it is; in a group, whoever comes before our own program has met the other job.
//!
//! Part of the core. Invariant: only a contact record says which process a pair's other side is. What a stranger says of
//! itself holds until then, and what it has left is forgotten if the record says otherwise; all strangers together cost
//! no more than the limits here.

use crate::PathRef;
use crate::connect::RETURN_LIMIT;
use crate::core::Core;
use crate::pair::Pair;
use nix::sys::resource::{Resource, getrlimit};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use transports::tcp::{Contact, Hello, Status};

/// Strangers at one port, and of one group.
const MAX_CALLERS: usize = 256;
const MAX_EARLY: usize = 64;
/// So long whoever has come to a port and said something has time to make its whole offer, before others may take its place.
const OFFER_LIMIT: Duration = Duration::from_secs(10);
/// The part of the program's descriptors that strangers, with those who have not said their HELLO yet, may take.
const STRANGERS_PART: usize = 2;
/// What a lane of shared memory takes of them.
const NEAR_DESCRIPTORS: usize = 3;
/// CONTROL of one stranger that nobody has asked for yet, in bytes, and what all of them may have beyond that together:
/// one offer of the largest group, and a little.
const MAX_STRANGER_CONTROL: usize = 64 << 10;
const MAX_STRANGERS_CONTROL: usize = 65 << 20;
/// The longest frame of a caller: an offer comes in parts of 256 KiB.
pub(crate) const MAX_CALLER_FRAME: usize = 320 << 10;

/// How it stands with a caller that a port has dialled, since it asked for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Called {
    Gone,
    /// Nobody has answered yet.
    Dialled,
    /// No dial has got through.
    InVain,
    Connected,
    /// It has made its whole offer.
    Offers,
}

/// How many descriptors the program may have open.
pub(crate) fn most_descriptors() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}

impl Core {
    /// A pair for one who has come and is not known, if there is place; or what to say to it.
    pub(crate) fn make_stranger(&mut self, hello: &Hello) -> Result<usize, (Status, u16)> {
        let group = hello.dest;
        let is_port = self.groups.get(&group.incarnation).is_some_and(|known| known.callers.is_some());
        let most = if is_port { MAX_CALLERS } else { MAX_EARLY };
        let of_group = |core: &Core, i: usize| core.pairs[i].local == group;
        while self.strangers.iter().filter(|i| of_group(self, **i)).count() >= most {
            self.drop_stranger(|core, i| of_group(core, i))?;
        }
        // One more comes by this, over shared memory perhaps. Only those who are connected hold any.
        while self.strangers_descriptors() + NEAR_DESCRIPTORS > most_descriptors() / STRANGERS_PART {
            self.drop_stranger(|core, i| core.pairs[i].lane.is_some())?;
        }
        let i = self.make_pair(hello.dest, hello.source);
        self.pairs[i].claimed = Some(hello.process);
        self.pairs[i].came = Some(Instant::now());
        self.strangers.push(i);
        Ok(i)
    }

    /// Descriptors that are open for strangers, and for those who may become some.
    fn strangers_descriptors(&self) -> usize {
        let lanes = self.strangers.iter().filter_map(|i| self.pairs[*i].lane.as_ref());
        let taken =
            lanes.map(|l| if l.lane.shm().is_some() { NEAR_DESCRIPTORS } else { l.taken.count_ones() as usize });
        taken.sum::<usize>() + self.halfway.len()
    }

    /// Whether a stranger has hung up and does not come again.
    fn has_left(&self, i: usize, now: Instant) -> bool {
        let pair = &self.pairs[i];
        pair.lane.is_none()
            && !self.is_coming(i)
            && pair.lost.is_some_and(|lost| now.saturating_duration_since(lost) >= RETURN_LIMIT)
    }

    /// Makes place: those go first who have left. Then, of those who have said nothing, or have been at a port for long
    /// without a whole offer, the one that has waited longest, of the host that has sent most of them, so that no host keeps
    /// others out. The others stay, and the newcomer is to come again.
    fn drop_stranger(&mut self, may_go: impl Fn(&Core, usize) -> bool) -> Result<(), (Status, u16)> {
        let host = |pair: &Pair| -> Option<IpAddr> { pair.seen_at.map(|address| address.ip()) };
        let mut of_host: HashMap<_, usize> = HashMap::new();
        for i in &self.strangers {
            *of_host.entry(host(&self.pairs[*i])).or_default() += 1;
        }
        let now = Instant::now();
        let late = |pair: &Pair| {
            let has_offered = pair.offer_missing == Some(0);
            pair.is_caller && !has_offered && pair.came.is_some_and(|came| now - came > OFFER_LIMIT)
        };
        let gives_way = |i: &usize| {
            let pair = &self.pairs[*i];
            may_go(self, *i)
                && (pair.gone.is_some() || self.has_left(*i, now) || pair.path.received() == 0 || late(pair))
        };
        let key = |i: &usize| {
            let pair = &self.pairs[*i];
            let is_there = pair.gone.is_none() && !self.has_left(*i, now);
            (is_there, usize::MAX - of_host.get(&host(pair)).copied().unwrap_or(0), pair.serial)
        };
        let Some(i) = self.strangers.iter().copied().filter(gives_way).min_by_key(key) else {
            return Err((Status::Later, 0));
        };
        base::log!(Debug, "{} came and gives way to another", self.pairs[i].remote);
        self.forget_stranger(i);
        Ok(())
    }

    /// How it stands with one that was dialled for a port.
    pub fn called(&self, path: PathRef) -> Called {
        let Some(pair) = self.of_path(path).map(|i| &self.pairs[i]).filter(|pair| pair.gone.is_none()) else {
            return Called::Gone;
        };
        match pair.lane {
            _ if pair.offer_missing == Some(0) => Called::Offers,
            Some(_) => Called::Connected,
            None if pair.tries > 0 => Called::InVain,
            None => Called::Dialled,
        }
    }

    /// Has nothing more to do with one that was dialled for a port, as if that had never been.
    pub fn call_off(&mut self, path: PathRef) {
        if let Some(i) = self.of_path(path) {
            base::log!(Debug, "{} is not dialled any more", self.pairs[i].remote);
            self.end_pair(i, false);
        }
    }

    /// Ends a stranger's pair as if it had never been.
    pub(crate) fn forget_stranger(&mut self, i: usize) {
        self.end_pair(i, false);
    }

    /// It is a stranger no more: its contact record is there. False: somebody else has come in its place.
    pub(crate) fn recognise(&mut self, i: usize, process: [u8; 16]) -> bool {
        let Some(claimed) = self.pairs[i].claimed.take() else { return true };
        self.strangers.retain(|s| *s != i);
        if claimed == process {
            return true;
        }
        // So that its end leaves no trace.
        self.pairs[i].claimed = Some(claimed);
        false
    }

    /// Whether there is room for so many bytes of CONTROL from this pair.
    pub(crate) fn has_control_room(&self, i: usize, bytes: usize) -> bool {
        let pair = &self.pairs[i];
        let beyond = |pair: &Pair| pair.control_bytes.saturating_sub(MAX_STRANGER_CONTROL);
        if pair.claimed.is_none() || pair.control_bytes + bytes <= MAX_STRANGER_CONTROL {
            return true;
        }
        self.strangers.iter().map(|s| beyond(&self.pairs[*s])).sum::<usize>() + bytes <= MAX_STRANGERS_CONTROL
    }

    /// Learns who it is that this path leads to, among these, which only now are known to be its group: so what its lane has
    /// shown counts for its whole host. If it has come to us, asks whether we get through to it, too.
    pub fn introduce(&mut self, path: PathRef, contacts: &[Contact]) {
        let Some(i) = self.of_path(path) else { return };
        let who = self.pairs[i].who();
        let Some(contact) = contacts.iter().find(|c| Some(c.process) == who) else { return };
        self.recognise(i, contact.process);
        let pair = &mut self.pairs[i];
        pair.process = Some(contact.process);
        pair.contact = Some(contact.clone());
        match pair.worked {
            Some(address) => self.prove(i, address),
            None => self.touch(i),
        }
    }

    /// For tests: bytes of CONTROL that they have said and nobody has asked for.
    #[doc(hidden)]
    pub fn strangers_control(&self) -> usize {
        self.strangers.iter().map(|i| self.pairs[*i].control_bytes).sum()
    }

    /// For tests: how many strangers there are.
    #[doc(hidden)]
    pub fn strangers(&self) -> usize {
        self.strangers.len()
    }
}
