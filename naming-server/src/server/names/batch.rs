//! What a ledger lacks of the names, and how to undo it. The names alone use this.

use super::entry::Entry;
use super::rows::RowId;
use crate::record::Key;
use crate::wire::Token;
use std::collections::BTreeSet;

/// What has changed since the ledger was written last.
#[derive(Default)]
pub(super) struct Batch {
    /// The rows that the ledger has otherwise.
    pub rows: BTreeSet<RowId>,
    /// Something has to be in the ledger before it is told.
    pub must: bool,
    /// What was there before, in order, since [`Batch::begin`].
    undo: Vec<Undo>,
    /// The number of changes that were to be told then.
    news: usize,
}

/// A change that can be undone.
pub(super) enum Undo {
    /// A name had this entry.
    Name(Key, Option<Entry>),
    /// A token was released.
    Ended(Token),
}

impl Batch {
    pub(super) fn begin(&mut self, news: usize) {
        (self.must, self.news) = (false, news);
        self.undo.clear();
    }

    /// A name has another entry than this one.
    pub(super) fn changing(&mut self, key: &Key, old: Option<Entry>) {
        self.undo.push(Undo::Name(key.clone(), old));
        self.rows.extend([RowId::Name(key.clone()), RowId::Lease(key.clone())]);
        self.must = true;
    }

    pub(super) fn ended(&mut self, token: Token) {
        self.undo.push(Undo::Ended(token));
        self.rows.insert(RowId::Ended(token));
        self.must = true;
    }

    /// This row has changed, and nothing that is told depends on it.
    pub(super) fn later(&mut self, row: RowId) {
        self.rows.insert(row);
    }

    pub(super) fn take_undo(&mut self) -> (Vec<Undo>, usize) {
        (std::mem::take(&mut self.undo), self.news)
    }
}
