//! What is asked of the shared names, as transactions and what they mean. The worker alone uses this.
//!
//! Invariant: an answer follows from a transaction that compared what it rests on, at a moment between the question and the answer.
//! Every transaction may be done twice, and late: the revision that it compares is then another one.

use super::rows::{self, Held, Row};
use super::store::{Cell, Compare, Op, Outcome, SharedError, Txn};
use super::table::{Due, Table, View, shown};
use crate::record::Key;
use crate::server::names::By;
use crate::server::owner::Owner;
use crate::wire::{Answer, PAGE, Refusal, Token};
use std::time::Instant;

/// The most names of one read.
const PAGE_NAMES: u32 = 32;

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) enum What {
    Take { token: Token, number: u64, place: Vec<u8>, record: Vec<u8>, owner: Owner },
    Release { token: Token, place: Vec<u8> },
    Lookup { place: Vec<u8> },
    List { after: Option<Vec<u8>>, records: Vec<Vec<u8>>, size: usize },
    Due(Due),
}

/// What is to be done, and for whom.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub by: By,
    pub what: What,
    /// What the last transaction has found, if there was one.
    pub view: Option<View>,
    pub tries: u32,
}

/// The next step of a task.
pub(super) enum Step {
    Answer(Answer),
    Run(Txn, Then),
}

/// What a transaction means if its comparisons held.
#[derive(Debug, Clone)]
pub(super) enum Then {
    /// A claim stands, with this number; `None` for the transaction's revision.
    Granted(Option<u64>, u32),
    /// Another has the name.
    Held(Held),
    Say(Answer),
    /// What was read is the answer.
    Read,
}

/// After a transaction.
pub(super) enum Next {
    Answer(Answer),
    /// What is to be done was done for nobody.
    Done,
    /// It is to be tried again, with what was found.
    Again(Task),
}

impl Task {
    pub(super) fn new(by: By, what: What) -> Task {
        Task { by, what, view: None, tries: 0 }
    }

    /// Whether a client waits for its answer.
    pub(super) fn is_asked(&self) -> bool {
        !matches!(self.what, What::Due(_))
    }

    fn place(&self) -> Option<(&[u8], Option<Token>)> {
        match &self.what {
            What::Take { token, place, .. } | What::Release { token, place } => Some((place, Some(*token))),
            What::Lookup { place } => Some((place, None)),
            _ => None,
        }
    }

    pub(super) fn step(&self, table: &Table, lease: u32) -> Step {
        let seen = |place: &[u8], token| self.view.clone().unwrap_or_else(|| table.view(place, token));
        match &self.what {
            What::Take { token, number, place, record, owner } => {
                let view = seen(place, Some(*token));
                let wanted = Wanted { token: *token, number: *number, place, record, owner: *owner, lease };
                wanted.take(&view, |record| table.has_room(*owner, place, record))
            }
            What::Release { token, place } => {
                let view = seen(place, Some(*token));
                release(*token, place, &view)
            }
            What::Lookup { place } => {
                Step::Run(Txn { then: vec![Op::Get(rows::name(place))], ..Txn::default() }, Then::Read)
            }
            What::List { after, .. } => {
                let (from, to) = rows::names(after.as_deref());
                Step::Run(Txn { then: vec![Op::Range(from, to, PAGE_NAMES)], ..Txn::default() }, Then::Read)
            }
            What::Due(due) => Step::Run(on_time(due, table), Then::Read),
        }
    }

    pub(super) fn done(
        mut self,
        then: Then,
        revision: u64,
        outcome: Outcome,
        table: &mut Table,
        now: Instant,
    ) -> Result<Next, SharedError> {
        let place = self.place().map(|(place, token)| (place.to_vec(), token));
        if !outcome.held {
            let Some((place, token)) = place else { return Ok(Next::Done) };
            self.view = Some(found(&place, token, revision, &outcome)?);
            self.tries += 1;
            return Ok(Next::Again(self));
        }
        let place = place.map(|(place, _)| place).unwrap_or_default();
        Ok(Next::Answer(match (then, self.what) {
            (_, What::Due(_)) => return Ok(Next::Done),
            (Then::Granted(number, lease), _) => {
                table.renewed(&place, revision, self.by);
                Answer::Granted { lease, number: number.unwrap_or(revision), common: true }
            }
            (Then::Held(held), _) => {
                let lease = outcome.read.iter().flatten().next().map_or(0, |cell| cell.modified);
                let doubtful = table.is_doubtful(&place, lease, &held, now);
                Answer::Held { record: shown(&held.record).unwrap_or_default().into(), doubtful }
            }
            (Then::Say(answer), _) => answer,
            (Then::Read, What::List { records, size, .. }) => return page(self.by, records, size, &outcome),
            (Then::Read, _) => {
                let cell = outcome.read.into_iter().flatten().next();
                let row = cell.map(|cell| read(&place, &cell).map(|row| (row, cell.modified))).transpose()?;
                match row {
                    Some((Row::Held(held), modified)) => {
                        Answer::Found { number: held.number(modified), record: Some(held.record), common: true }
                    }
                    _ => Answer::Found { record: None, number: 0, common: true },
                }
            }
        }))
    }
}

/// A claim or renewal.
struct Wanted<'a> {
    token: Token,
    number: u64,
    place: &'a [u8],
    record: &'a [u8],
    owner: Owner,
    lease: u32,
}

impl Wanted<'_> {
    fn take(&self, view: &View, has_room: impl Fn(&[u8]) -> bool) -> Step {
        if view.ended {
            return Step::Answer(Answer::Refused(Refusal::Ended));
        }
        let (name, lease) = (rows::name(self.place), rows::lease(self.place));
        let same = Compare::Modified(name.clone(), view.modified);
        let standing = Compare::Modified(rows::ended(self.token), 0);
        let otherwise = look(self.place, Some(self.token));
        let last = match &view.row {
            Some(Row::Held(held)) if held.token != self.token => {
                let txn = Txn { when: vec![same], then: vec![Op::Get(lease)], otherwise };
                return Step::Run(txn, Then::Held(held.clone()));
            }
            Some(Row::Held(held)) => {
                let mut then = vec![Op::Put(lease, Vec::new())];
                let number = held.number(view.modified);
                if held.record != self.record {
                    let record = self.record.to_vec();
                    then.push(Op::Put(name, rows::bytes(&Row::Held(Held { number, record, ..held.clone() }))));
                }
                return Step::Run(
                    Txn { when: vec![same, standing], then, otherwise },
                    Then::Granted(Some(number), held.lease),
                );
            }
            Some(Row::Gone { number, .. }) => *number,
            None => view.floor,
        };
        let mut when = vec![same];
        if view.row.is_none() {
            // A row that is not there may have been there and be forgotten, but not since.
            when.push(Compare::Before(rows::FLOOR.to_vec(), view.at));
        }
        if self.number != 0 && self.number < last {
            let said = Then::Say(Answer::Refused(Refusal::Superseded));
            return Step::Run(Txn { when, then: Vec::new(), otherwise }, said);
        }
        if !has_room(self.record) {
            return Step::Answer(Answer::Refused(Refusal::Full));
        }
        when.push(standing);
        let held =
            Held { token: self.token, number: 0, owner: self.owner, lease: self.lease, record: self.record.to_vec() };
        let then = vec![Op::Put(name, rows::bytes(&Row::Held(held))), Op::Put(lease, Vec::new())];
        Step::Run(Txn { when, then, otherwise }, Then::Granted(None, self.lease))
    }
}

fn release(token: Token, place: &[u8], view: &View) -> Step {
    let name = rows::name(place);
    let mut then = vec![Op::Put(rows::ended(token), Vec::new())];
    match &view.row {
        Some(Row::Held(held)) if held.token == token => {
            let gone = Row::Gone { number: held.number(view.modified), over: false };
            then.extend([Op::Put(name.clone(), rows::bytes(&gone)), Op::Delete(rows::lease(place))]);
        }
        _ if view.ended => then.clear(),
        _ => {}
    }
    let when = vec![Compare::Modified(name, view.modified)];
    Step::Run(Txn { when, then, otherwise: look(place, Some(token)) }, Then::Say(Answer::Released))
}

fn on_time(due: &Due, table: &Table) -> Txn {
    match due {
        Due::Over { place, name, lease, number } => Txn {
            when: vec![Compare::Modified(rows::name(place), *name), Compare::Modified(rows::lease(place), *lease)],
            then: vec![
                Op::Put(rows::name(place), rows::bytes(&Row::Gone { number: *number, over: true })),
                Op::Delete(rows::lease(place)),
            ],
            otherwise: Vec::new(),
        },
        Due::Forget(token) => Txn { then: vec![Op::Delete(rows::ended(*token))], ..Txn::default() },
        Due::Collect { place, name, number } => {
            let (floor, modified) = table.floor(*number);
            Txn {
                when: vec![
                    Compare::Modified(rows::name(place), *name),
                    Compare::Modified(rows::FLOOR.to_vec(), modified),
                ],
                then: vec![Op::Delete(rows::name(place)), Op::Put(rows::FLOOR.to_vec(), rows::bytes(&floor))],
                otherwise: Vec::new(),
            }
        }
    }
}

/// Reads what a view needs.
fn look(place: &[u8], token: Option<Token>) -> Vec<Op> {
    let keys = [rows::name(place), rows::FLOOR.to_vec()];
    keys.into_iter().chain(token.map(rows::ended)).map(Op::Get).collect()
}

/// What those reads have found.
fn found(place: &[u8], token: Option<Token>, at: u64, outcome: &Outcome) -> Result<View, SharedError> {
    let cell = |i: usize| outcome.read.get(i).and_then(|cells| cells.first());
    let row = cell(0).map(|cell| read(place, cell)).transpose()?;
    Ok(View {
        at,
        modified: cell(0).map_or(0, |cell| cell.modified),
        row,
        floor: cell(1).and_then(|cell| rows::read(&cell.value)).unwrap_or(0),
        ended: token.is_some() && cell(2).is_some(),
    })
}

fn read(place: &[u8], cell: &Cell) -> Result<Row, SharedError> {
    Row::read(place, &cell.value)
        .ok_or_else(|| SharedError::Damaged("it has a name that this version does not write".into()))
}

/// One read of a list: an answer holds as many as fit, and one at least if there is any.
fn page(by: By, mut records: Vec<Vec<u8>>, mut size: usize, outcome: &Outcome) -> Result<Next, SharedError> {
    let cells: Vec<&Cell> = outcome.read.iter().flatten().collect();
    let mut last = None;
    for cell in &cells {
        let rows::Id::Name(place) = rows::Id::of(&cell.key) else { continue };
        if let Row::Held(held) = read(place, cell)? {
            let record = shown(&held.record).unwrap_or_default();
            // Each record is sent with its length.
            size += record.len() + 4;
            if size > PAGE {
                return Ok(Next::Answer(Answer::Names { records, more: true, common: true }));
            }
            records.push(record.into());
        }
        last = Some(place.to_vec());
    }
    if cells.len() < PAGE_NAMES as usize {
        return Ok(Next::Answer(Answer::Names { records, more: false, common: true }));
    }
    Ok(Next::Again(Task::new(by, What::List { after: last, records, size })))
}

/// Where the name of a key is.
pub(super) fn place(key: &Key) -> Vec<u8> {
    rows::place(key)
}
