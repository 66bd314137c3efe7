//! The names that a server knows, with their leases. The server alone calls this.
//!
//! Invariant: no I/O and no clock (the time is an argument); a name whose lease is over is never handed out, whether it is
//! removed yet or not.

use super::owner::Owner;
use crate::record::{Key, Record};
use crate::wire::Token;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The most memory of all names together, in bytes.
const MAX_BYTES: usize = 128 << 20;
/// The memory of a name besides its texts, in bytes: its entries in two tables, and what the allocator adds.
const OVERHEAD: usize = 512;
/// The most released tokens that are remembered.
const MAX_ENDED: usize = 1 << 16;
/// How often names whose lease is over are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// The number of the connection by which a claim or renewal came.
pub(super) type By = u64;

struct Entry {
    /// The written record, and the same without secrets.
    bytes: Box<[u8]>,
    shown: Box<[u8]>,
    owner: Owner,
    token: Token,
    /// The end of the lease.
    until: Instant,
    by: By,
    /// The holder's connection has ended since the last renewal.
    doubtful: bool,
}

/// The outcome of a claim or renewal.
pub(super) enum Taken<'a> {
    Granted,
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
}

/// What has happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Claimed,
    Released,
    /// Its lease is over.
    Over,
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
    swept: Option<Instant>,
    /// The changes since the last call of [`Names::news`], in order.
    news: News,
}

impl Names {
    pub(super) fn new(lease: Duration) -> Names {
        let (ended, ended_order) = (HashMap::new(), VecDeque::new());
        let (all, of, news) = (BTreeMap::new(), HashMap::new(), Vec::new());
        Names { lease, all, of, ended, ended_order, swept: None, news }
    }

    /// Claims the name of a record, or renews the claim. `bytes` is the written record, `shown` the same without secrets.
    pub(super) fn take(
        &mut self,
        token: Token,
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
            self.remove(&key, Some(Fate::Over));
        }
        let before = self.all.get(&key).map(|old| if old.owner == owner { old.cost(&key) } else { 0 });
        let (bytes, shown, until) = (bytes.into_boxed_slice(), shown.into_boxed_slice(), now + self.lease);
        let entry = Entry { bytes, shown, owner, token, until, by, doubtful: false };
        let cost = entry.cost(&key);
        // A claim that was granted is always renewed.
        if cost > before.unwrap_or(0) && !self.has_room(owner, cost - before.unwrap_or(0)) {
            return Taken::Full;
        }
        if before.is_none() {
            self.news.push((Fate::Claimed, entry.shown.clone()));
        }
        self.remove(&key, None);
        *self.of.entry(owner).or_default() += cost;
        self.all.insert(key, entry);
        Taken::Granted
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
        }
        while self.ended_order.len() > MAX_ENDED {
            self.forget_oldest_ended();
        }
        if self.all.get(key).is_some_and(|e| e.token == token) {
            self.remove(key, Some(Fate::Released));
            return true;
        }
        false
    }

    /// The written record of a live name.
    pub(super) fn lookup(&self, key: &Key, now: Instant) -> Option<&[u8]> {
        let entry = self.all.get(key)?;
        (entry.until > now).then_some(&entry.bytes)
    }

    /// The live records behind `after`, without secrets, in order.
    pub(super) fn list(&self, after: Option<Key>, now: Instant) -> impl Iterator<Item = &[u8]> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.all.range((from, Bound::Unbounded)).filter(move |(_, e)| e.until > now).map(|(_, e)| &*e.shown)
    }

    /// A client has closed its connection. The holders of names that were last renewed by it may be dead.
    pub(super) fn doubt(&mut self, by: By) {
        for entry in self.all.values_mut().filter(|e| e.by == by) {
            entry.doubtful = true;
        }
    }

    /// The server has not run for this long, so no claim could be renewed: all leases last longer by it.
    pub(super) fn excuse(&mut self, gap: Duration) {
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
        over.iter().for_each(|key| self.remove(key, Some(Fate::Over)));
    }

    fn forget_oldest_ended(&mut self) {
        if let Some(token) = self.ended_order.pop_front() {
            self.ended.remove(&token);
        }
    }

    /// Removes a name. With a `fate`, this is a change that is told.
    fn remove(&mut self, key: &Key, fate: Option<Fate>) {
        if let Some(entry) = self.all.remove(key) {
            let cost = entry.cost(key);
            if let Some(own) = self.of.get_mut(&entry.owner) {
                *own = own.saturating_sub(cost);
                if *own == 0 {
                    self.of.remove(&entry.owner);
                }
            }
            if let Some(fate) = fate {
                self.news.push((fate, entry.shown));
            }
        }
    }
}

impl Entry {
    /// Its memory, in bytes.
    fn cost(&self, key: &Key) -> usize {
        key.name.len() + key.run.len() + self.bytes.len() + self.shown.len() + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    const LEASE: Duration = Duration::from_secs(15);

    struct Stage {
        names: Names,
        now: Instant,
    }

    impl Stage {
        fn new() -> Stage {
            Stage { names: Names::new(LEASE), now: Instant::now() }
        }
        /// The outcome of a claim, in a word.
        fn take(&mut self, token: u8, name: &str) -> &'static str {
            let bytes = sample(name).encode().unwrap();
            self.take_bytes(0, [token; 16], name, bytes, token.into())
        }
        fn take_bytes(&mut self, user: u32, token: Token, name: &str, bytes: Vec<u8>, by: By) -> &'static str {
            match self.names.take(token, &sample(name), (bytes.clone(), bytes), by, Owner::User(user), self.now) {
                Taken::Granted => "granted",
                Taken::Held { doubtful: true, .. } => "doubtful",
                Taken::Held { .. } => "held",
                Taken::Ended => "ended",
                Taken::Full => "full",
            }
        }
        fn listed(&self) -> Vec<String> {
            self.names.list(None, self.now).map(|r| Record::decode(r).unwrap().name).collect()
        }
        /// Claims names with records of this size until there is no room for this user. Returns their number.
        fn fill(&mut self, user: u32, size: usize) -> usize {
            let mut n = 0u32;
            loop {
                let token = (u128::from(user) << 64 | u128::from(n)).to_le_bytes();
                match self.take_bytes(user, token, &format!("{user}-{n}"), vec![0; size], 0) {
                    "granted" => n += 1,
                    "full" => return n as usize,
                    other => panic!("{other}"),
                }
            }
        }
    }

    #[test]
    fn one_holder_until_release_or_the_end_of_the_lease() {
        let mut s = Stage::new();
        assert_eq!(s.take(1, "ocean"), "granted");
        assert_eq!(s.take(1, "ocean"), "granted", "again is the same");
        assert_eq!(s.take(2, "ocean"), "held");
        assert!(!s.names.release([2; 16], &sample("ocean").key(), s.now), "only the holder releases");
        assert_eq!(s.listed(), ["ocean"]);
        assert!(s.names.release([1; 16], &sample("ocean").key(), s.now));
        assert!(s.listed().is_empty() && s.names.of.is_empty());
        assert_eq!(s.take(3, "ocean"), "granted");
        s.now += LEASE - Duration::from_millis(1);
        assert_eq!(s.take(4, "ocean"), "held");
        s.now += Duration::from_millis(1);
        assert!(s.listed().is_empty() && s.names.lookup(&sample("ocean").key(), s.now).is_none(), "before any sweep");
        assert_eq!(s.take(4, "ocean"), "granted");
        assert_eq!(s.take(3, "ocean"), "held", "the old holder learns of it");
    }

    #[test]
    fn renewals_go_on_and_teach_a_server_that_knows_nothing() {
        let mut s = Stage::new();
        for _ in 0..10 {
            assert_eq!(s.take(1, "ocean"), "granted");
            s.now += LEASE / 3;
        }
        s.names = Names::new(LEASE);
        assert_eq!(s.take(1, "ocean"), "granted");
        assert_eq!(s.listed(), ["ocean"]);
    }

    #[test]
    fn what_was_released_does_not_come_back() {
        let mut s = Stage::new();
        s.names.release([1; 16], &sample("ocean").key(), s.now);
        assert_eq!(s.take(1, "ocean"), "ended", "a claim that was overtaken by its release");
        s.now += LEASE + SWEEP;
        s.names.sweep(s.now);
        assert!(s.names.ended.is_empty() && s.names.ended_order.is_empty());
        for i in 0..MAX_ENDED as u128 + 10 {
            s.names.release(i.to_le_bytes(), &sample("ocean").key(), s.now);
        }
        assert_eq!(s.names.ended.len(), MAX_ENDED);
    }

    #[test]
    fn doubt_ends_with_the_next_renewal() {
        let mut s = Stage::new();
        s.take(1, "ocean");
        s.names.doubt(2);
        assert_eq!(s.take(2, "ocean"), "held");
        s.names.doubt(1);
        assert_eq!(s.take(2, "ocean"), "doubtful");
        assert_eq!(s.listed(), ["ocean"], "it is only doubt");
        s.take(1, "ocean");
        assert_eq!(s.take(2, "ocean"), "held");
    }

    #[test]
    fn a_server_that_stood_still_blames_nobody() {
        let mut s = Stage::new();
        s.take(1, "ocean");
        s.now += LEASE * 3;
        s.names.excuse(LEASE * 3);
        assert_eq!(s.take(2, "ocean"), "held");
    }

    #[test]
    fn sweeping_drops_what_is_over_and_nothing_else() {
        let mut s = Stage::new();
        s.take(1, "air");
        s.now += LEASE / 2;
        s.take(2, "ocean");
        s.now += LEASE / 2;
        s.names.sweep(s.now);
        assert_eq!(s.listed(), ["ocean"]);
        s.now += LEASE;
        s.names.sweep(s.now);
        s.take(3, "ocean");
        s.names.release([3; 16], &sample("ocean").key(), s.now);
        let name = |shown: &[u8]| Record::decode(shown).unwrap().name;
        let news: Vec<_> = s.names.news().iter().map(|(fate, shown)| (*fate, name(shown))).collect();
        let [air, ocean] = ["air", "ocean"].map(String::from);
        assert_eq!(
            news,
            [
                (Fate::Claimed, air.clone()),
                (Fate::Claimed, ocean.clone()),
                (Fate::Over, air),
                (Fate::Over, ocean.clone()),
                (Fate::Claimed, ocean.clone()),
                (Fate::Released, ocean)
            ],
            "each is told of once, renewals are not"
        );
        assert!(s.names.of.is_empty());
    }

    #[test]
    fn whoever_takes_all_there_is_leaves_room_for_others() {
        for size in [4_000, 40_000] {
            let mut s = Stage::new();
            let had: Vec<_> = (1..=8).map(|user| s.fill(user, size)).collect();
            let whole = MAX_BYTES / (2 * size + OVERHEAD + 6);
            assert!(had[0].abs_diff(whole / 2) < whole / 50, "{had:?} of {whole}");
            assert!(had.windows(2).all(|w| w[1] > 0 && w[1].abs_diff(w[0] / 2) <= w[0] / 50 + 2), "{had:?}");
            assert_eq!(s.take(1, "ocean"), "granted", "another has room");
            assert_eq!(s.take_bytes(1, (1u128 << 64).to_le_bytes(), "1-0", vec![0; size], 0), "granted", "renewed");
            s.now += LEASE;
            s.names.sweep(s.now);
            assert!(s.names.of.is_empty(), "all is given back");
        }
    }
}
