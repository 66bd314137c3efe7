//! What a ledger has of the names: what it lacks yet, how to undo what it could not take, and what it gives back after a
//! restart. The server's keeper calls this.
//!
//! Invariant: rows are made from the names as they are, so a row that was not written goes with the next that are.

use super::batch::{Batch, Undo};
use super::clock::Clock;
use super::entry::Entry;
use super::rows::{self, Named, RowId, State};
use super::{MAX_ENDED, Names};
use crate::record::Record;
use crate::server::ledger::{Ledger, LedgerError, Row};
use std::time::{Duration, Instant};

/// Undoes what has changed since [`Names::begin`], but for renewals.
pub(in crate::server) fn roll_back(names: &mut Names) {
    let Some(batch) = &mut names.batch else { return };
    let (undo, news) = batch.take_undo();
    for change in undo.into_iter().rev() {
        match change {
            Undo::Name(key, old) => drop(names.put(key, old)),
            Undo::Ended(token) => drop(names.ended.remove(&token)),
        }
    }
    names.news.truncate(news);
    names.begin();
}

/// Writes what the ledger lacks.
pub(in crate::server) fn save(names: &mut Names, ledger: &mut dyn Ledger, now: Instant) -> Result<(), LedgerError> {
    let Some(batch) = &names.batch else { return Ok(()) };
    let mut all = vec![row_of(names, &RowId::State, now)];
    all.extend(batch.rows.iter().map(|row| row_of(names, row, now)));
    ledger.write(&all)?;
    if let Some(batch) = &mut names.batch {
        batch.rows.clear();
    }
    names.begin();
    Ok(())
}

fn row_of(names: &Names, row: &RowId, now: Instant) -> Row {
    let value = match row {
        RowId::State => {
            let (last, floor) = (names.numbers.last, names.numbers.floor);
            Some(rows::bytes(&State { version: rows::VERSION, ran: names.clock.at(now), last, floor }))
        }
        RowId::Name(key) => names.all.get(key).map(|entry| rows::bytes(&Named::of(entry))),
        RowId::Lease(key) => names.all.get(key).map(|entry| rows::bytes(&names.clock.at(entry.until))),
        RowId::Ended(token) => names.ended.get(token).map(|at| rows::bytes(&names.clock.at(*at))),
        RowId::Gone(hash) => names.numbers.of_gone(*hash).map(|number| rows::bytes(&number)),
    };
    (rows::bytes(row), value)
}

/// The names of a ledger, with the time that their leases had left. An empty ledger has none.
pub(in crate::server) fn restore(lease: Duration, ledger: &mut dyn Ledger, now: Instant) -> Result<Names, LedgerError> {
    let (mut names, mut state) = (Names::new(lease), None);
    let (mut named, mut leases, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut bad = None;
    ledger.read(&mut |key, value| {
        let mut known = || {
            match rows::read::<RowId>(key)? {
                RowId::State => {
                    // Of another version, only the version can be read.
                    let version = rows::read_version(value)?;
                    if version != rows::VERSION {
                        bad = Some(LedgerError::Version(version));
                        return Some(());
                    }
                    state = Some(rows::read::<State>(value)?);
                }
                RowId::Name(key) => named.push((key, rows::read::<Named>(value)?)),
                RowId::Lease(key) => leases.push((key, rows::read::<Duration>(value)?)),
                RowId::Ended(token) => ended.push((rows::read::<Duration>(value)?, token)),
                RowId::Gone(hash) => gone.push((rows::read::<u64>(value)?, hash)),
            }
            Some(())
        };
        if known().is_none() && bad.is_none() {
            bad = Some(LedgerError::Damaged("it has a row that no version writes".into()));
        }
    })?;
    if let Some(bad) = bad {
        return Err(bad);
    }
    let is_empty = named.is_empty() && leases.is_empty() && ended.is_empty() && gone.is_empty();
    match state {
        Some(state) => {
            names.clock = Clock::new(now, state.ran);
            (names.numbers.last, names.numbers.floor) = (state.last, state.floor);
        }
        None if is_empty => {}
        None => return Err(LedgerError::Damaged("the row of its state is missing".into())),
    }
    if named.len() != leases.len() {
        return Err(LedgerError::Damaged("it has names without leases, or leases without names".into()));
    }
    leases.sort();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    for ((key, name), (other, until)) in named.into_iter().zip(leases) {
        let record = rows::record(&key, &name.record).filter(|_| key == other);
        let Some(shown) = record.as_ref().and_then(Record::without_secrets) else {
            return Err(LedgerError::Damaged(format!("what it has of '{}' is no record", key.name)));
        };
        let Named { token, number, owner, record } = name;
        let (bytes, shown, until) = (record.into(), shown.into(), names.clock.when(until));
        // Its connection has ended with the last server.
        names.put(key, Some(Entry { bytes, shown, owner, token, number, until, by: 0, doubtful: true }));
    }
    ended.sort();
    for (at, token) in ended.into_iter().rev().take(MAX_ENDED).rev() {
        names.ended.insert(token, names.clock.when(at));
        names.ended_order.push_back(token);
    }
    gone.sort();
    for (number, hash) in gone {
        names.numbers.remember(hash, number);
    }
    names.batch = Some(Batch::default());
    Ok(names)
}
