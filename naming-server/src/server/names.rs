//! The names that a server knows, with their leases. The server alone calls this.
//!
//! Invariant: no I/O and no clock (the time is an argument), so that a durable store can stand behind it or beside it; a
//! name whose lease is over is never handed out, whether it is swept away yet or not.

use crate::record::{Kind, Record};
use crate::wire::Token;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// How many bytes all records may have together, in their written form.
const MAX_BYTES: usize = 256 << 20;
/// How many released tokens are remembered at most.
const MAX_ENDED: usize = 1 << 16;
/// How often what is over is swept away.
const SWEEP: Duration = Duration::from_secs(1);

/// The connection that a claim or renewal came by.
pub type By = u64;

struct Entry {
    record: Record,
    bytes: Vec<u8>,
    token: Token,
    until: Instant,
    by: By,
    /// The holder's connection ended, and nothing was heard since.
    doubtful: bool,
}

/// What became of a claim or renewal.
pub enum Taken<'a> {
    Granted,
    Held {
        by: &'a Record,
        doubtful: bool,
    },
    /// This token was released.
    Ended,
    Full,
}

pub struct Names {
    pub lease: Duration,
    all: BTreeMap<(String, Kind), Entry>,
    bytes: usize,
    /// Tokens that were released, for as long as a claim or renewal with one could still be on its way.
    ended: HashMap<Token, Instant>,
    ended_order: VecDeque<Token>,
    swept: Option<Instant>,
}

impl Names {
    pub fn new(lease: Duration) -> Names {
        let (ended, ended_order) = (HashMap::new(), VecDeque::new());
        Names { lease, all: BTreeMap::new(), bytes: 0, ended, ended_order, swept: None }
    }

    /// Claims the name of a record or renews the claim; `bytes` are its written form.
    pub fn take(&mut self, token: Token, record: Record, bytes: Vec<u8>, by: By, now: Instant) -> Taken<'_> {
        if self.ended.contains_key(&token) {
            return Taken::Ended;
        }
        let key = (record.name.clone(), record.kind());
        let mut before = 0;
        if let Some(old) = self.all.get(&key) {
            if old.token != token && old.until > now {
                let old = &self.all[&key];
                return Taken::Held { by: &old.record, doubtful: old.doubtful };
            }
            before = old.bytes.len();
        }
        if self.bytes - before + bytes.len() > MAX_BYTES {
            return Taken::Full;
        }
        self.bytes = self.bytes - before + bytes.len();
        self.all.insert(key, Entry { record, bytes, token, until: now + self.lease, by, doubtful: false });
        Taken::Granted
    }

    /// Ends a token, and the claim that was made with it. Whether there was one.
    pub fn release(&mut self, token: Token, kind: Kind, name: &str, now: Instant) -> bool {
        if self.ended.insert(token, now).is_none() {
            self.ended_order.push_back(token);
        }
        while self.ended_order.len() > MAX_ENDED {
            self.forget_oldest_ended();
        }
        let key = (name.to_owned(), kind);
        if self.all.get(&key).is_some_and(|e| e.token == token) {
            self.remove(&key);
            return true;
        }
        false
    }

    /// The written record of a live name.
    pub fn lookup(&self, kind: Kind, name: &str, now: Instant) -> Option<&[u8]> {
        let entry = self.all.get(&(name.to_owned(), kind))?;
        (entry.until > now).then_some(&entry.bytes)
    }

    /// The live records behind `after`, in order.
    pub fn list(&self, after: Option<(String, Kind)>, now: Instant) -> impl Iterator<Item = &Record> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.all.range((from, Bound::Unbounded)).filter(move |(_, e)| e.until > now).map(|(_, e)| &e.record)
    }

    /// A connection has ended by its client's hand: whoever claimed or renewed by it last may be dead.
    pub fn doubt(&mut self, by: By) {
        for entry in self.all.values_mut().filter(|e| e.by == by) {
            entry.doubtful = true;
        }
    }

    /// The server itself has not run for so long: nobody could renew.
    pub fn excuse(&mut self, gap: Duration) {
        for entry in self.all.values_mut() {
            entry.until += gap;
        }
    }

    /// Drops what is over; the names of it.
    pub fn sweep(&mut self, now: Instant) -> Vec<String> {
        if self.swept.is_some_and(|last| now < last + SWEEP) {
            return Vec::new();
        }
        self.swept = Some(now);
        while let Some(oldest) = self.ended_order.front()
            && self.ended.get(oldest).is_none_or(|at| *at + self.lease < now)
        {
            self.forget_oldest_ended();
        }
        let over: Vec<_> = self.all.iter().filter(|(_, e)| e.until <= now).map(|(k, _)| k.clone()).collect();
        over.iter().for_each(|key| self.remove(key));
        over.into_iter().map(|(name, _)| name).collect()
    }

    fn forget_oldest_ended(&mut self) {
        if let Some(token) = self.ended_order.pop_front() {
            self.ended.remove(&token);
        }
    }

    fn remove(&mut self, key: &(String, Kind)) {
        if let Some(entry) = self.all.remove(key) {
            self.bytes -= entry.bytes.len();
        }
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
        /// What became of it, in a word.
        fn take(&mut self, token: u8, name: &str) -> &'static str {
            let record = sample(name);
            let bytes = record.encode().unwrap();
            match self.names.take([token; 16], record, bytes, token.into(), self.now) {
                Taken::Granted => "granted",
                Taken::Held { doubtful: true, .. } => "doubtful",
                Taken::Held { .. } => "held",
                Taken::Ended => "ended",
                Taken::Full => "full",
            }
        }
        fn listed(&self) -> Vec<&str> {
            self.names.list(None, self.now).map(|r| r.name.as_str()).collect()
        }
    }

    #[test]
    fn one_holder_until_release_or_the_end_of_the_lease() {
        let mut s = Stage::new();
        assert_eq!(s.take(1, "ocean"), "granted");
        assert_eq!(s.take(1, "ocean"), "granted", "again is the same");
        assert_eq!(s.take(2, "ocean"), "held");
        assert!(!s.names.release([2; 16], Kind::Job, "ocean", s.now), "only the holder releases");
        assert_eq!(s.listed(), ["ocean"]);
        assert!(s.names.release([1; 16], Kind::Job, "ocean", s.now));
        assert!(s.listed().is_empty() && s.names.bytes == 0);
        assert_eq!(s.take(3, "ocean"), "granted");
        s.now += LEASE - Duration::from_millis(1);
        assert_eq!(s.take(4, "ocean"), "held");
        s.now += Duration::from_millis(1);
        assert!(s.listed().is_empty() && s.names.lookup(Kind::Job, "ocean", s.now).is_none(), "before any sweep");
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
        s.names.release([1; 16], Kind::Job, "ocean", s.now);
        assert_eq!(s.take(1, "ocean"), "ended", "a claim that was overtaken by its release");
        s.now += LEASE + SWEEP;
        s.names.sweep(s.now);
        assert!(s.names.ended.is_empty() && s.names.ended_order.is_empty());
        for i in 0..MAX_ENDED as u128 + 10 {
            s.names.release(i.to_le_bytes(), Kind::Job, "ocean", s.now);
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
        assert_eq!(s.names.sweep(s.now), ["air"]);
        assert_eq!(s.listed(), ["ocean"]);
        s.now += LEASE;
        assert_eq!(s.names.sweep(s.now), ["ocean"]);
        assert_eq!(s.names.bytes, 0);
    }

    #[test]
    fn there_is_room_for_so_much() {
        let mut s = Stage::new();
        s.names.bytes = MAX_BYTES;
        assert_eq!(s.take(1, "ocean"), "full");
    }
}
