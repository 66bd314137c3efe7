//! The names that a server knows, with their leases. The server alone calls this.
//!
//! Invariant: no I/O and no clock (the time is an argument); a name whose lease is over is never handed out, whether it is
//! removed yet or not; each claim has a larger number than all before.

mod batch;
mod clock;
mod entry;
mod kept;
mod numbers;
mod rows;
#[cfg(test)]
mod tests;

use super::owner::{MAX_BYTES, Owner};
use crate::fate::Fate;
use crate::record::{Key, Record};
use crate::wire::Token;
use batch::Batch;
use clock::Clock;
pub(super) use entry::By;
use entry::Entry;
pub(super) use kept::{restore, roll_back, save};
use numbers::Numbers;
use rows::RowId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The most released tokens that are remembered.
const MAX_ENDED: usize = 1 << 16;
/// How often names whose lease is over are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// The outcome of a claim or renewal.
pub(super) enum Taken<'a> {
    /// With this number.
    Granted(u64),
    /// Another process has the name.
    Held {
        /// Its record, without secrets.
        by: &'a [u8],
        doubtful: bool,
    },
    /// This token was released.
    Ended,
    /// There is no room for another name of this owner.
    Full,
    /// Another claim was granted since the one that is renewed, and is over.
    Superseded,
}

/// Changes, each with the record without secrets.
pub(super) type News = Vec<(Fate, Box<[u8]>)>;

/// All names of a server.
pub(super) struct Names {
    pub lease: Duration,
    all: BTreeMap<Key, Entry>,
    /// The memory of each owner's names, in bytes.
    of: HashMap<Owner, usize>,
    /// Tokens that were released. Each is kept as long as a claim or renewal with it could still be on its way.
    ended: HashMap<Token, Instant>,
    ended_order: VecDeque<Token>,
    /// The names of each kind.
    kinds: [u64; 3],
    swept: Option<Instant>,
    numbers: Numbers,
    clock: Clock,
    /// What a ledger still lacks; `None` if there is no ledger.
    batch: Option<Batch>,
    /// The changes since the last call of [`Names::news`], in order.
    news: News,
}

impl Names {
    pub(super) fn new(lease: Duration) -> Names {
        let (ended, ended_order) = (HashMap::new(), VecDeque::new());
        let (all, of, news) = (BTreeMap::new(), HashMap::new(), Vec::new());
        let (numbers, clock) = (Numbers::new(), Clock::new(Instant::now(), Duration::ZERO));
        Names { lease, all, of, ended, ended_order, kinds: [0; 3], swept: None, numbers, clock, batch: None, news }
    }

    /// Claims the name of a record, or renews the claim. `number` is that of the claim which is renewed; 0 for a new one.
    /// `bytes` is the written record, `shown` the same without secrets.
    pub(super) fn take(
        &mut self,
        (token, number): (Token, u64),
        record: &Record,
        (bytes, shown): (Vec<u8>, Vec<u8>),
        by: By,
        owner: Owner,
        now: Instant,
    ) -> Taken<'_> {
        if self.ended.contains_key(&token) {
            return Taken::Ended;
        }
        let key = record.key();
        if let Some(old) = self.all.get(&key).filter(|old| old.token != token) {
            if old.until > now {
                let old = &self.all[&key];
                return Taken::Held { by: &old.shown, doubtful: old.doubtful };
            }
            self.remove(&key, Fate::Over);
        }
        if !self.all.contains_key(&key) && self.numbers.is_superseded(&key, number) {
            return Taken::Superseded;
        }
        let until = now + self.lease;
        // Most calls are plain renewals.
        if let Some(same) = self.all.get_mut(&key).filter(|same| same.owner == owner && *same.bytes == *bytes) {
            (same.until, same.by, same.doubtful) = (until, by, false);
            let number = same.number;
            self.later(RowId::Lease(key));
            return Taken::Granted(number);
        }
        let same = self.all.get(&key);
        let before = same.map(|old| if old.owner == owner { old.cost(&key) } else { 0 });
        let number = same.map(|old| old.number);
        let (bytes, shown) = (bytes.into_boxed_slice(), shown.into_boxed_slice());
        let mut entry = Entry { bytes, shown, owner, token, number: 0, until, by, doubtful: false };
        let cost = entry.cost(&key);
        // A claim that was granted is always renewed.
        if cost > before.unwrap_or(0) && !self.has_room(owner, cost - before.unwrap_or(0)) {
            return Taken::Full;
        }
        if before.is_none() {
            self.news.push((Fate::Claimed, entry.shown.clone()));
        }
        entry.number = number.unwrap_or_else(|| self.numbers.next());
        let number = entry.number;
        self.put(key, Some(entry));
        Taken::Granted(number)
    }

    /// Whether an owner may have this much more memory. No owner gets more than half of what the others leave, so that there is
    /// always room for one more owner.
    fn has_room(&self, owner: Owner, more: usize) -> bool {
        let own = self.of.get(&owner).copied().unwrap_or(0);
        let others = self.of.values().sum::<usize>() - own;
        own + more <= MAX_BYTES.saturating_sub(others) / 2
    }

    /// Ends a token, and the claim that was made with it. Returns whether there was a claim.
    pub(super) fn release(&mut self, token: Token, key: &Key, now: Instant) -> bool {
        if self.ended.insert(token, now).is_none() {
            self.ended_order.push_back(token);
            if let Some(batch) = &mut self.batch {
                batch.ended(token);
            }
        }
        while self.ended_order.len() > MAX_ENDED {
            self.forget_oldest_ended();
        }
        if self.all.get(key).is_some_and(|e| e.token == token) {
            self.remove(key, Fate::Released);
            return true;
        }
        false
    }

    /// The written record of a live name, and the number of its claim.
    pub(super) fn lookup(&self, key: &Key, now: Instant) -> Option<(&[u8], u64)> {
        let entry = self.all.get(key)?;
        (entry.until > now).then_some((&entry.bytes, entry.number))
    }

    /// The records behind `after`, without secrets, in order. One whose lease is over is there until the sweep that tells of it: who follows
    /// the list and the news would take it for given back if it went from the list before.
    pub(super) fn list(&self, after: Option<Key>) -> impl Iterator<Item = &[u8]> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.all.range((from, Bound::Unbounded)).map(|(_, e)| &*e.shown)
    }

    /// A client has closed its connection. The holders of names that were last renewed by it may be dead.
    pub(super) fn doubt(&mut self, by: By) {
        for entry in self.all.values_mut().filter(|e| e.by == by) {
            entry.doubtful = true;
        }
    }

    /// The server has not run for this long, so no claim could be renewed: all leases last longer by it.
    pub(super) fn excuse(&mut self, gap: Duration) {
        self.clock.excuse(gap);
        for entry in self.all.values_mut() {
            entry.until += gap;
        }
    }

    /// The changes since the last call, in order.
    pub(super) fn news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Removes names whose lease is over, and tokens that are old enough.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|last| now < last + SWEEP) {
            return;
        }
        self.swept = Some(now);
        while let Some(oldest) = self.ended_order.front()
            && self.ended.get(oldest).is_none_or(|at| *at + self.lease < now)
        {
            self.forget_oldest_ended();
        }
        let over: Vec<_> = self.all.iter().filter(|(_, e)| e.until <= now).map(|(k, _)| k.clone()).collect();
        over.iter().for_each(|key| self.remove(key, Fate::Over));
    }

    fn forget_oldest_ended(&mut self) {
        if let Some(token) = self.ended_order.pop_front() {
            self.ended.remove(&token);
            self.later(RowId::Ended(token));
        }
    }

    /// From here on what changes can be undone.
    pub(in crate::server) fn begin(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.begin(self.news.len());
        }
    }

    /// Whether something has changed since [`Names::begin`] that has to be in the ledger before it is told.
    pub(in crate::server) fn must_save(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.must)
    }

    /// Whether the ledger differs from the names, or leases run.
    pub(in crate::server) fn differs(&self) -> bool {
        !self.all.is_empty() || self.batch.as_ref().is_some_and(|batch| !batch.rows.is_empty())
    }

    /// The names that a restart has brought back.
    pub(in crate::server) fn count(&self) -> usize {
        self.all.len()
    }

    /// The numbers of jobs, of ports, and of halves of couplings.
    pub(in crate::server) fn kinds(&self) -> [u64; 3] {
        self.kinds
    }

    /// This row of a ledger has changed, and nothing that is told depends on it.
    fn later(&mut self, row: RowId) {
        if let Some(batch) = &mut self.batch {
            batch.later(row);
        }
    }

    /// Removes a name. This is a change that is told.
    fn remove(&mut self, key: &Key, fate: Fate) {
        if let Some(entry) = self.put(key.clone(), None) {
            for row in self.numbers.gone(key, entry.number) {
                self.later(row);
            }
            self.news.push((fate, entry.shown));
        }
    }

    /// Replaces the entry of a name. Returns the old one.
    fn put(&mut self, key: Key, new: Option<Entry>) -> Option<Entry> {
        let old = self.all.remove(&key);
        if let Some(old) = &old {
            let cost = old.cost(&key);
            self.kinds[key.kind as usize] -= 1;
            if let Some(own) = self.of.get_mut(&old.owner) {
                *own = own.saturating_sub(cost);
                if *own == 0 {
                    self.of.remove(&old.owner);
                }
            }
        }
        if let Some(batch) = &mut self.batch {
            batch.changing(&key, old.clone());
        }
        if let Some(new) = new {
            self.kinds[key.kind as usize] += 1;
            *self.of.entry(new.owner).or_default() += new.cost(&key);
            self.all.insert(key, new);
        }
        old
    }
}
