//! What this server has seen of the shared rows, by the watch. The shared names alone use this.
//!
//! Invariant: it may be behind, so nothing is told from it alone: whatever it suggests is compared by a transaction. A lease counts from
//! when its last renewal was seen here, by this server's own clock, so no clock is compared with another; and a moment without the
//! store does not count.

use super::rows::{self, Held, Id, Row};
use super::store::{Cell, Event, SharedError};
use crate::fate::Fate;
use crate::record::Record;
use crate::server::names::By;
use crate::server::owner::{MAX_BYTES, Owner};
use crate::wire::Token;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The memory of a name besides its texts, in bytes.
const OVERHEAD: usize = 512;
/// How long the row of a free name is kept, and how many of them at most.
const GONE: Duration = Duration::from_secs(3600);
const MAX_GONE: usize = 1 << 16;
/// A released token is remembered for so long at least: longer than any request can be on its way.
const ENDED: Duration = Duration::from_secs(120);
const MAX_ENDED: usize = 1 << 16;
/// Renewals come after a third of a lease. A name whose lease is older than this part of it may be a dead holder's.
const LATE: f32 = 0.45;
/// A change's number is the revision and, below, its place within that.
const PLACES: u32 = 16;

/// What is known of a name before a transaction compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// The revision at which this was so.
    pub at: u64,
    /// Of the name's row; 0 if there is none.
    pub modified: u64,
    pub row: Option<Row>,
    pub floor: u64,
    /// The token was released.
    pub ended: bool,
}

struct Seen {
    modified: u64,
    row: Row,
    since: Instant,
}

/// A change of a name that is told: its number, what happened, and the record without secrets.
pub(super) type News = (u64, Fate, Box<[u8]>);

/// What is to be done without being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Due {
    /// A lease is over: the name's place, and its rows' revisions.
    Over { place: Vec<u8>, name: u64, lease: u64, number: u64 },
    /// A released token is old enough.
    Forget(Token),
    /// The row of a free name is old enough.
    Collect { place: Vec<u8>, name: u64, number: u64 },
}

pub(super) struct Table {
    names: BTreeMap<Vec<u8>, Seen>,
    /// The revision of the last renewal, and when it was seen.
    leases: HashMap<Vec<u8>, (u64, Instant)>,
    ended: HashMap<Token, Instant>,
    /// Its value, and its revision.
    floor: (u64, u64),
    /// All changes up to this one are here.
    pub revision: u64,
    used: HashMap<Owner, usize>,
    pub kinds: [u64; 3],
    /// By which client of this server a name was renewed last, and the revision of that.
    by: HashMap<Vec<u8>, (u64, By)>,
    /// The renewals whose client has gone.
    doubted: HashMap<Vec<u8>, u64>,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            names: BTreeMap::new(),
            leases: HashMap::new(),
            ended: HashMap::new(),
            floor: (0, 0),
            revision: 0,
            used: HashMap::new(),
            kinds: [0; 3],
            by: HashMap::new(),
            doubted: HashMap::new(),
        }
    }

    /// Everything anew, as it was at this revision. Returns what has changed since the last that was seen.
    pub(super) fn fill(&mut self, at: u64, cells: Vec<Cell>, now: Instant) -> Result<Vec<News>, SharedError> {
        let (mut old, by) = (std::mem::replace(self, Table::new()), HashMap::new());
        self.by = std::mem::replace(&mut old.by, by);
        let (mut news, mut place_of) = (Vec::new(), 0);
        let mut number = || {
            place_of = (place_of + 1).min((1 << PLACES) - 1);
            number(at, place_of)
        };
        for cell in cells {
            let seen = match Id::of(&cell.key) {
                Id::Lease(place) => {
                    old.leases.get(place).filter(|(modified, _)| *modified == cell.modified).map(|(_, at)| *at)
                }
                _ => None,
            };
            self.put(&cell.key, &cell.value, cell.modified, seen.unwrap_or(now))?;
        }
        let places: BTreeSet<&Vec<u8>> = old.names.keys().chain(self.names.keys()).collect();
        for place in places {
            let (before, after) = (old.names.get(place), self.names.get(place));
            let number_of = |seen: Option<&Seen>| seen.and_then(|seen| claim(&seen.row, seen.modified));
            if number_of(before) == number_of(after) {
                continue;
            }
            if let Some(Seen { row: Row::Held(held), .. }) = before {
                let over = matches!(after, Some(Seen { row: Row::Gone { over: true, .. }, .. }));
                news.extend(shown(&held.record).map(|s| (number(), if over { Fate::Over } else { Fate::Released }, s)));
            }
            if let Some(Seen { row: Row::Held(held), .. }) = after {
                news.extend(shown(&held.record).map(|s| (number(), Fate::Claimed, s)));
            }
        }
        self.revision = at;
        Ok(news)
    }

    /// A change that the watch tells of; `nth` of those in its revision that are told. Returns what is to be told of it.
    pub(super) fn hear(&mut self, event: &Event, nth: &mut u64, now: Instant) -> Result<Vec<News>, SharedError> {
        let mut news = Vec::new();
        if let Id::Name(place) = Id::of(&event.key) {
            let read = |value: &Option<Vec<u8>>| value.as_ref().and_then(|value| Row::read(place, value));
            let (before, after) = (read(&event.before), read(&event.value));
            let mut tell = |fate, held: &Held| {
                let number = number(event.modified, *nth);
                *nth += 1;
                news.extend(shown(&held.record).map(|shown| (number, fate, shown)));
            };
            match (&before, &after) {
                (Some(Row::Held(a)), Some(Row::Held(b))) if a.token == b.token => {}
                (before, after) => {
                    if let Some(Row::Held(held)) = before {
                        let over = matches!(after, Some(Row::Gone { over: true, .. }));
                        tell(if over { Fate::Over } else { Fate::Released }, held);
                    }
                    if let Some(Row::Held(held)) = after {
                        tell(Fate::Claimed, held);
                    }
                }
            }
        }
        // A watch may begin before what is here, for what it tells.
        if event.modified > self.revision {
            match &event.value {
                Some(value) => self.put(&event.key, value, event.modified, now)?,
                None => self.remove(&event.key),
            }
        }
        Ok(news)
    }

    fn put(&mut self, key: &[u8], value: &[u8], modified: u64, now: Instant) -> Result<(), SharedError> {
        let bad = |what: &str| SharedError::Damaged(format!("it has {what} that this version does not write"));
        match Id::of(key) {
            Id::Name(place) => {
                let row = Row::read(place, value).ok_or_else(|| bad("a name"))?;
                self.count(place, false);
                self.names.insert(place.into(), Seen { modified, row, since: now });
                self.count(place, true);
            }
            Id::Lease(place) => drop(self.leases.insert(place.into(), (modified, now))),
            Id::Ended(token) => drop(self.ended.insert(token, now)),
            Id::Floor => self.floor = (rows::read(value).ok_or_else(|| bad("a number"))?, modified),
            Id::Other => {}
        }
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) {
        match Id::of(key) {
            Id::Name(place) => {
                self.count(place, false);
                self.names.remove(place);
            }
            Id::Lease(place) => {
                self.leases.remove(place);
                self.by.remove(place);
                self.doubted.remove(place);
            }
            Id::Ended(token) => drop(self.ended.remove(&token)),
            Id::Floor | Id::Other => {}
        }
    }

    /// Counts a held name, or counts it no more.
    fn count(&mut self, place: &[u8], more: bool) {
        let Some(Seen { row: Row::Held(held), .. }) = self.names.get(place) else { return };
        let (cost, owner) = (cost(place, &held.record), held.owner);
        // The kind is before the last eight bytes.
        let kind = place.len().checked_sub(9).map_or(0, |at| usize::from(place[at]).min(2));
        let used = self.used.entry(owner).or_default();
        if more {
            *used += cost;
            self.kinds[kind] += 1;
        } else {
            *used = used.saturating_sub(cost);
            self.kinds[kind] -= 1;
        }
    }

    /// Whether an owner may have this name too: see the names of a server that is alone.
    pub(super) fn has_room(&self, owner: Owner, place: &[u8], record: &[u8]) -> bool {
        let own = self.used.get(&owner).copied().unwrap_or(0);
        let others = self.used.values().sum::<usize>() - own;
        own + cost(place, record) <= MAX_BYTES.saturating_sub(others) / 2
    }

    pub(super) fn view(&self, place: &[u8], token: Option<Token>) -> View {
        let seen = self.names.get(place);
        View {
            at: self.revision,
            modified: seen.map_or(0, |seen| seen.modified),
            row: seen.map(|seen| seen.row.clone()),
            floor: self.floor.0,
            ended: token.is_some_and(|token| self.ended.contains_key(&token)),
        }
    }

    /// A client of this server has renewed a name with this revision.
    pub(super) fn renewed(&mut self, place: &[u8], revision: u64, by: By) {
        self.by.insert(place.into(), (revision, by));
    }

    /// A client has gone: the holders of names that were last renewed by it may be dead.
    pub(super) fn doubt(&mut self, by: By) {
        for (place, (revision, _)) in self.by.iter().filter(|(_, (_, other))| *other == by) {
            self.doubted.insert(place.clone(), *revision);
        }
        self.by.retain(|_, (_, other)| *other != by);
    }

    /// Whether the holder of a name, which it renewed last by this revision, may be dead.
    pub(super) fn is_doubtful(&self, place: &[u8], lease: u64, held: &Held, now: Instant) -> bool {
        let is_late = self.leases.get(place).is_some_and(|(modified, since)| {
            *modified == lease && now.saturating_duration_since(*since) > lasts(held).mul_f32(LATE)
        });
        is_late || self.doubted.get(place).is_some_and(|gone| *gone >= lease)
    }

    /// The store was away for this long, so no claim could be renewed: all leases last longer by it.
    pub(super) fn excuse(&mut self, gap: Duration, now: Instant) {
        for (_, since) in self.leases.values_mut() {
            *since = (*since + gap).min(now);
        }
    }

    /// What is due, and when to look again.
    pub(super) fn due(&self, now: Instant, ended: Duration) -> (Vec<Due>, Instant) {
        let (mut due, mut next) = (Vec::new(), now + Duration::from_secs(1));
        let gone = self.names.values().filter(|seen| matches!(seen.row, Row::Gone { .. })).count();
        let mut surplus = gone.saturating_sub(MAX_GONE);
        for (place, seen) in &self.names {
            match (&seen.row, self.leases.get(place)) {
                (Row::Held(held), Some((lease, since))) => {
                    let until = *since + lasts(held);
                    if until <= now {
                        let number = held.number(seen.modified);
                        due.push(Due::Over { place: place.clone(), name: seen.modified, lease: *lease, number });
                    } else {
                        next = next.min(until);
                    }
                }
                (Row::Gone { number, .. }, _) if surplus > 0 || now >= seen.since + GONE => {
                    surplus = surplus.saturating_sub(1);
                    due.push(Due::Collect { place: place.clone(), name: seen.modified, number: *number });
                }
                _ => {}
            }
        }
        let mut tokens: Vec<(Instant, Token)> = self.ended.iter().map(|(token, since)| (*since, *token)).collect();
        tokens.sort();
        let surplus = tokens.len().saturating_sub(MAX_ENDED);
        let old = tokens.iter().enumerate().filter(|(i, (since, _))| *i < surplus || now >= *since + ended.max(ENDED));
        due.extend(old.map(|(_, (_, token))| Due::Forget(*token)));
        (due, next)
    }

    /// The value of the floor that forgetting this number needs, and the revision that it has now.
    pub(super) fn floor(&self, number: u64) -> (u64, u64) {
        (self.floor.0.max(number), self.floor.1)
    }
}

/// The number of a change, and with the place 0 that of the first in a revision.
pub(super) fn number(revision: u64, place: u64) -> u64 {
    revision << PLACES | place
}

fn lasts(held: &Held) -> Duration {
    Duration::from_millis(held.lease.into())
}

fn cost(place: &[u8], record: &[u8]) -> usize {
    place.len() + 2 * record.len() + OVERHEAD
}

fn claim(row: &Row, modified: u64) -> Option<u64> {
    match row {
        Row::Held(held) => Some(held.number(modified)),
        Row::Gone { .. } => None,
    }
}

/// A written record without its secrets.
pub(super) fn shown(record: &[u8]) -> Option<Box<[u8]>> {
    Record::decode(record).ok()?.without_secrets().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_gets_half_of_what_the_others_leave() {
        let (mut table, record) = (Table::new(), vec![0; 1000]);
        let has_room = |table: &Table, user| table.has_room(Owner::User(user), b"place", &record);
        table.used.insert(Owner::User(1), MAX_BYTES / 2 - cost(b"place", &record));
        assert!(has_room(&table, 1) && has_room(&table, 2));
        *table.used.entry(Owner::User(1)).or_default() += 1;
        assert!(!has_room(&table, 1) && has_room(&table, 2));
        table.used.insert(Owner::User(2), MAX_BYTES / 4);
        assert!(!has_room(&table, 2) && has_room(&table, 3));
    }
}
