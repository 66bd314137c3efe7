//! The keys that are accepted.
//!
//! Pure. Invariant: there is always one, which this side dials with.

use crate::key::{Key, KeyId};

/// The keys that are accepted, with their identifiers. The first is the one that this side dials with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring(Vec<(KeyId, Key)>);

impl Ring {
    /// `own` is dialled with; `others` are accepted too.
    pub fn new(own: Key, others: impl IntoIterator<Item = Key>) -> Ring {
        Ring(std::iter::once(own).chain(others).map(|key| (key.id(), key)).collect())
    }

    /// The key that this side dials with.
    pub fn own(&self) -> &Key {
        &self.0[0].1
    }

    /// The other keys that are accepted.
    pub fn others(&self) -> impl Iterator<Item = &Key> {
        self.0[1..].iter().map(|(_, key)| key)
    }

    /// The key with this identifier.
    pub fn find(&self, id: KeyId) -> Option<&Key> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, key)| key)
    }
}
