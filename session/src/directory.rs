//! The directory: contact records of large groups, which are asked for where they are needed.
//!
//! Of a large group a process knows the root of a tree of hashes, and the leader's record. Of a rank that it first needs it asks for
//! the range of records: the rank above it in its own group, which asks on and keeps what comes, up to its leader, which asks the
//! other side's. Whoever is dead or cannot tell is passed by: then the other side's leader is asked directly.
//!
//! Part of the session. Invariants: a record is used only if its range leads to the root. A process of a large group gets no
//! lane before its record is known. Each range that is waited for comes, or fails what needs it: nothing waits for one who is gone.

use crate::state::Session;
use crate::state::directory::{Asked, Awaited, Directory, Gathered, Key, MOST_ASKED};
use crate::state::groups::RemoteGroup;
use crate::state::inters::InterId;
use crate::state::pair::PathRef;
use base::bytes::{Malformed, Put, Take};
use base::protocol::control::{ASK_RANGE, RANGE};
use base::{Memory, ProcId, Time};
use engine::Gone;
use std::time::Duration;
use wire::Contacts;
use wire::lane::Lane;
use wire::ranges::{RANKS, Range, Ranked};

/// How long one who asks for a group that is not known here waits: it may have heard of it sooner than this process.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(2);
/// How long the rank above may be without a lane before it is passed by, though nothing proves that it is dead.
const PARENT_LIMIT: Duration = Duration::from_secs(5);
/// The same of the other side's leader, behind which there is nobody to ask: what needs the record fails then.
const LEADER_LIMIT: Duration = Duration::from_secs(30);
/// Bytes under way to a process that has not acknowledged them, beyond which its questions are not answered.
const MOST_UNHEARD: usize = 4 << 20;
/// How many ranges are asked for at a time where a call needs all.
const AT_ONCE: usize = 32;

impl<L: Lane<M>, M: Memory> Session<L, M> {
    /// Sets the place of this process in a group of its own that is joined with a large one, or is large itself. It answers others
    /// until it ends or, if the group was removed, until some more are.
    pub fn set_directory(&mut self, incarnation: u64, directory: Directory) {
        let number = self.groups.next_number();
        if let Some(known) = self.groups.own.get_mut(&incarnation) {
            let before = known.directory.take().map(|(_, before)| *before).unwrap_or_default();
            known.directory = Some((number, Box::new(directory.or(before))));
        }
    }

    /// All processes of our groups are at their end: nobody asks any more.
    pub fn end_directories(&mut self) {
        let own: Vec<u64> = self.groups.own.keys().copied().collect();
        own.into_iter().for_each(|incarnation| self.end_directory(incarnation));
        self.leave_all();
    }

    /// Ends the oldest directories of groups that were removed, if there are many.
    pub(crate) fn end_old_directories(&mut self) {
        while let Some(incarnation) = self.groups.oldest_directory() {
            self.end_directory(incarnation);
        }
    }

    fn end_directory(&mut self, incarnation: u64) {
        let Some(known) = self.groups.own.get_mut(&incarnation) else { return };
        if known.directory.take().is_some() {
            self.ranges.forget(incarnation);
            if self.groups.is_removed(incarnation) {
                self.remove_group(incarnation);
            }
        }
    }

    /// Whether a pair serves the directory, so that it stays when its group was removed.
    pub(crate) fn is_of_directory(&self, i: usize) -> bool {
        let (local, remote) = (self.pairs[i].local(), self.pairs[i].remote());
        let Some((_, directory)) = self.groups.get(local.incarnation).and_then(|known| known.directory.as_ref()) else {
            return false;
        };
        let leader = || {
            let contacts = &self.groups.between(local.incarnation, remote.incarnation)?.known.as_ref()?.contacts;
            Some(contacts.leader().unwrap_or(0))
        };
        remote.incarnation == local.incarnation || directory.parent.is_none() && leader() == Some(remote.rank)
    }

    /// Makes a remote group known, before [`Session::open`]. `false`: processes have come of which the records are asked for; call
    /// it again after some progress. Those that are not what they claim are sent away.
    pub fn acquaint(&mut self, local: ProcId, remote: &RemoteGroup) -> bool {
        let theirs = remote.incarnation;
        let between = self.groups.meet(local.incarnation, theirs);
        // The newest records are those that were told last.
        (between.known, between.moved) = (Some(remote.clone()), Default::default());
        let key = |number| Key { ours: local.incarnation, theirs, number };
        let early = self.ranges.awaited.range(key(0)..=key(u32::MAX));
        let early = early.filter(|(_, awaited)| awaited.asked == Asked::Nobody).map(|(key, _)| *key);
        early.collect::<Vec<_>>().into_iter().for_each(|key| self.ask_next(key));
        let came: Vec<usize> = self.pairs_between(local, theirs).collect();
        let came: Vec<usize> = came.into_iter().filter(|i| self.lacks_record(*i)).collect();
        came.iter().for_each(|i| self.ask_for(*i));
        self.settle();
        !came.into_iter().any(|i| self.pairs[i].is_stranger())
    }

    /// Whether the record of the other side is to be asked for, should it be needed.
    pub(crate) fn lacks_record(&self, i: usize) -> bool {
        let pair = &self.pairs[i];
        pair.serial != 0
            && pair.who.contact.is_none()
            && pair.known_process().is_none()
            && pair.caller.is_none()
            && pair.gone().is_none()
            && self.groups.is_rooted(pair.local().incarnation, pair.remote().incarnation)
    }

    /// Asks for the record of the other side of a pair.
    pub(crate) fn ask_for(&mut self, i: usize) {
        let (local, remote) = (self.pairs[i].local(), self.pairs[i].remote());
        let key = Key { ours: local.incarnation, theirs: remote.incarnation, number: remote.rank / RANKS };
        self.await_range(key);
    }

    fn await_range(&mut self, key: Key) {
        if !self.ranges.awaited.contains_key(&key) {
            self.ranges.awaited.insert(key, Awaited::new());
            self.ask_next(key);
        }
    }

    /// Asks the next one who may know a range.
    fn ask_next(&mut self, key: Key) {
        let Some(asked) = self.ranges.awaited.get(&key).map(|awaited| awaited.asked) else { return };
        let is_known = self.groups.is_rooted(key.ours, key.theirs);
        let mut next = None;
        match asked {
            Asked::Nobody if !is_known => return,
            Asked::Nobody => next = self.parent(key.ours).map(Asked::Parent),
            _ => (),
        }
        if next.is_none() && is_known && !matches!(asked, Asked::Leader(_)) {
            next = self.other_leader(key).map(Asked::Leader);
        }
        let Some(next) = next else { return self.cannot_be_had(key) };
        if let Some(awaited) = self.ranges.awaited.get_mut(&key) {
            awaited.asked = next;
        }
        let Some(i) = next.path().and_then(|path| self.of_path(path)) else { return };
        let mut message = vec![ASK_RANGE];
        message.put_u64(key.theirs);
        message.put_u32(key.number);
        self.engine.control(self.pairs[i].peer, &message);
        self.settle();
    }

    /// The path to the rank above us, if it is not gone.
    fn parent(&mut self, ours: u64) -> Option<PathRef> {
        let known = self.groups.get(ours)?;
        let (rank, contact) = known.directory.as_ref()?.1.parent.clone()?;
        let (local, cookie) = (ProcId { incarnation: ours, rank: known.group.rank }, known.group.cookie);
        let i = self.know(local, ProcId { incarnation: ours, rank }, cookie, &contact);
        self.path_to(i)
    }

    /// The rank above us is gone: from now on it is passed by.
    fn lose_parent(&mut self, ours: u64) {
        if let Some((_, directory)) = self.groups.own.get_mut(&ours).and_then(|known| known.directory.as_mut()) {
            directory.parent = None;
        }
    }

    /// The path to the leader of the group whose records are asked for, if it is not gone.
    fn other_leader(&mut self, key: Key) -> Option<PathRef> {
        let local = ProcId { incarnation: key.ours, rank: self.groups.get(key.ours)?.group.rank };
        let rank = self.groups.between(key.ours, key.theirs)?.known.as_ref()?.contacts.leader()?;
        let i = self.meet_member(local, ProcId { incarnation: key.theirs, rank })?;
        self.path_to(i)
    }

    fn path_to(&self, i: usize) -> Option<PathRef> {
        let pair = &self.pairs[i];
        pair.gone().is_none().then_some(PathRef { slot: i, serial: pair.serial })
    }

    /// Nobody is left who could know a range: whatever needs it fails.
    fn cannot_be_had(&mut self, key: Key) {
        let Some(awaited) = self.ranges.awaited.remove(&key) else { return };
        self.answer_all(&awaited.by, key, &[]);
        if let Some(gathered) = self.ranges.gathered.get_mut(&(key.ours, key.theirs)) {
            gathered.failed = true;
        }
        for i in self.lacking(key) {
            if self.pairs[i].is_stranger() && !self.is_used(i) {
                self.forget_stranger(i);
            } else if self.pairs[i].needs_lane() {
                self.give_up(i, Gone::Dead, "nobody is left who knows how it is reached");
            }
        }
    }

    /// The pairs with ranks of a range whose record is not known.
    fn lacking(&self, key: Key) -> Vec<usize> {
        let Some(known) = self.groups.get(key.ours) else { return Vec::new() };
        let local = ProcId { incarnation: key.ours, rank: known.group.rank };
        let first = key.number.saturating_mul(RANKS);
        let ranks = first..first.saturating_add(RANKS);
        let its = ranks.filter_map(|rank| self.pairs.find(local, ProcId { incarnation: key.theirs, rank }));
        its.filter(|i| self.lacks_record(*i)).collect()
    }

    /// Passes by those that are gone, and gives up questions about groups that nobody here has met.
    pub(crate) fn step_directory(&mut self, now: Time) {
        if !self.ranges.is_waiting() {
            return;
        }
        let mut over = Vec::new();
        for (key, awaited) in self.ranges.awaited.iter_mut() {
            let pair = awaited.asked.path().map(|path| (&self.pairs[path.slot], path.serial));
            let is_there = pair.is_none_or(|(pair, serial)| pair.serial == serial && pair.gone().is_none());
            let limit = match (awaited.asked, pair) {
                (Asked::Nobody, _) => Some(UNKNOWN_LIMIT),
                (_, Some((pair, _))) if pair.lane().is_some() => None,
                (Asked::Parent(_), _) => Some(PARENT_LIMIT),
                (Asked::Leader(_), _) => Some(LEADER_LIMIT),
            };
            let is_late = match limit {
                Some(limit) => now.since(*awaited.since.get_or_insert(now)) >= limit,
                None => {
                    awaited.since = None;
                    false
                }
            };
            over.extend((!is_there || is_late).then_some(*key));
        }
        for key in over {
            match self.ranges.awaited.get(&key).map(|awaited| awaited.asked) {
                Some(Asked::Nobody) => self.cannot_be_had(key),
                Some(Asked::Parent(path)) => {
                    if self.of_path(path).is_none_or(|i| self.pairs[i].gone().is_some()) {
                        self.lose_parent(key.ours);
                    }
                    self.ask_next(key);
                }
                _ => self.ask_next(key),
            }
        }
    }

    // ---- what others say

    /// Whether a CONTROL message is about ranges of records; it is answered or taken in then.
    pub(crate) fn hear_of_ranges(&mut self, i: usize, bytes: &[u8]) -> bool {
        let Some((kind @ (&ASK_RANGE | &RANGE), rest)) = bytes.split_first() else { return false };
        if self.pairs[i].caller.is_some() || self.pairs[i].gone().is_some() {
            return true;
        }
        let mut rest = Take(rest);
        let (Ok(group), Ok(number)) = (rest.u64(), rest.u32()) else { return true };
        if *kind == RANGE {
            self.on_range(i, group, number, rest.rest());
        } else if rest.end().is_ok() {
            self.on_question(i, group, number);
        }
        true
    }

    fn on_question(&mut self, i: usize, group: u64, number: u32) {
        let (local, remote, serial) = (self.pairs[i].local(), self.pairs[i].remote(), self.pairs[i].serial);
        let key = Key { ours: local.incarnation, theirs: group, number };
        let path = PathRef { slot: i, serial };
        if group == local.incarnation {
            let digest = self.own.digest;
            let known = self.groups.own.get_mut(&group).and_then(|known| known.directory.as_mut());
            let range = known.and_then(|(_, directory)| directory.range(number, digest));
            return self.answer_all(&[path], key, &range.unwrap_or_default());
        }
        let of_ours = remote.incarnation == local.incarnation;
        if let Some(kept) = self.ranges.kept(key).filter(|_| of_ours) {
            let kept = kept.to_vec();
            return self.answer_all(&[path], key, &kept);
        }
        let between = self.groups.between(key.ours, group);
        let size = between.and_then(|between| between.size());
        let may_be = size.is_none_or(|size| number < wire::ranges::ranges(size));
        let is_new = !self.ranges.awaited.contains_key(&key);
        if !of_ours || !may_be || is_new && self.ranges.awaited.len() >= MOST_ASKED {
            return self.answer_all(&[path], key, &[]);
        }
        self.await_range(key);
        // If it cannot be had, that is known by now.
        match self.ranges.awaited.get_mut(&key) {
            Some(awaited) if awaited.by.contains(&path) => {}
            Some(awaited) => awaited.by.push(path),
            None => self.answer_all(&[path], key, &[]),
        }
        // A driver that sleeps is to look after it.
        self.agenda.due = true;
    }

    fn answer_all(&mut self, to: &[PathRef], key: Key, range: &[u8]) {
        let mut message = vec![RANGE];
        message.put_u64(key.theirs);
        message.put_u32(key.number);
        message.extend_from_slice(range);
        for path in to {
            let Some(i) = self.of_path(*path) else { continue };
            let pair = &self.pairs[i];
            if pair.gone().is_none() && !pair.bye_said && pair.path.retained_bytes() < MOST_UNHEARD {
                self.engine.control(pair.peer, &message);
            }
        }
        self.settle();
    }

    fn on_range(&mut self, i: usize, group: u64, number: u32, bytes: &[u8]) {
        let local = self.pairs[i].local();
        let key = Key { ours: local.incarnation, theirs: group, number };
        let of = PathRef { slot: i, serial: self.pairs[i].serial };
        if self.ranges.awaited.get(&key).is_none_or(|awaited| awaited.asked.path() != Some(of)) {
            return;
        }
        match self.checked(key, bytes) {
            Ok((records, range)) => self.range_came(key, records, range, bytes),
            Err(Malformed) => {
                if !bytes.is_empty() {
                    base::log_seldom!(Error, "{} tells records that are not those of its job", self.pairs[i].remote());
                }
                self.ask_next(key);
            }
        }
    }

    /// The records of a range, and their bytes, if it is the right one.
    fn checked<'a>(&self, key: Key, bytes: &'a [u8]) -> Result<(Ranked, &'a [u8]), Malformed> {
        let known = self.groups.between(key.ours, key.theirs).and_then(|between| between.known.as_ref());
        let contacts = &known.ok_or(Malformed)?.contacts;
        let range = Range::decode(bytes)?;
        let root = contacts.root().ok_or(Malformed)?;
        Ok((range.check(root, contacts.len(), key.number, self.own.digest)?, range.records()))
    }

    fn range_came(&mut self, key: Key, records: Ranked, range: &[u8], bytes: &[u8]) {
        let Some(awaited) = self.ranges.awaited.remove(&key) else { return };
        if !awaited.by.is_empty() {
            self.ranges.keep(key, bytes);
            self.answer_all(&awaited.by, key, bytes);
        }
        if let Some(place) = self.ranges.gathered.get_mut(&(key.ours, key.theirs)) {
            place.put(key.number, range);
        }
        let Some(cookie) = self.groups.between(key.ours, key.theirs).and_then(|b| Some(b.known.as_ref()?.cookie))
        else {
            return;
        };
        for i in self.lacking(key) {
            let (local, remote) = (self.pairs[i].local(), self.pairs[i].remote());
            if let Some((_, contact)) = records.iter().find(|(rank, _)| *rank == remote.rank) {
                self.know(local, remote, cookie, contact);
            }
        }
        // Connections may wait for it.
        self.agenda.due |= !self.incoming.is_empty();
    }

    // ---- all records

    /// As [`Session::all_records`], of the group that an inter-communicator was made of.
    pub fn all_records_of(&mut self, inter: InterId) -> Option<Result<Contacts, Malformed>> {
        match self.inters.get(inter).map(|inter| (inter.local.incarnation, inter.theirs)) {
            Some((ours, theirs)) => self.all_records(ours, theirs),
            None => Some(Err(Malformed)),
        }
    }

    /// The contact records of all ranks of a remote group, which take some 23 bytes each from then on. `None`: they are being asked
    /// for, so call it again after some progress. `Err`: nobody can tell them.
    pub fn all_records(&mut self, ours: u64, theirs: u64) -> Option<Result<Contacts, Malformed>> {
        let Some(known) = self.groups.between(ours, theirs).and_then(|between| between.known.as_ref()) else {
            return Some(Err(Malformed));
        };
        let (contacts, size) = (known.contacts.clone(), known.contacts.len());
        if contacts.root().is_none() {
            return Some(Ok(contacts));
        }
        let gathered = self.ranges.gathered.entry((ours, theirs)).or_insert_with(|| Gathered::of(size));
        let (failed, missing) = (gathered.failed, gathered.missing(AT_ONCE));
        if !failed && !missing.is_empty() {
            missing.into_iter().for_each(|number| self.await_range(Key { ours, theirs, number }));
            return None;
        }
        let gathered = self.ranges.gathered.remove(&(ours, theirs))?;
        if failed {
            return Some(Err(Malformed));
        }
        let all = Contacts::decode(&gathered.concat(), size);
        if let (Ok(all), Some(between)) = (&all, self.groups.between.get_mut(&(ours, theirs)))
            && let Some(known) = &mut between.known
        {
            known.contacts = all.clone();
        }
        Some(all)
    }
}
