//! The lists of pairs that are looked at as time passes, when they have something to write, and when they may end.

use crate::state::lossy::Lossy;
use base::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Which pairs are looked at next, and why.
#[derive(Default)]
pub(crate) struct Agenda {
    /// Pairs that are being connected.
    pub timed: BTreeSet<usize>,
    /// Pairs that may end.
    pub leaving: BTreeSet<usize>,
    /// Pairs that may have something to write.
    pub dirty: Vec<usize>,
    /// Pairs with credit that waits for a message.
    pub credit: Vec<usize>,
    /// The memory of the last turn's list, to be used again.
    pub spare: Vec<usize>,
    /// When the next tick is due.
    pub(crate) next_tick: Time,
    /// When strangers are heard again that say the same.
    pub(crate) next_hearing: Time,
    /// The next tick is due at once.
    pub due: bool,
    /// Pairs with a lane of another transport than they should use.
    pub worse: BTreeSet<usize>,
    /// Pairs with lanes that are being left.
    pub left: BTreeSet<usize>,
    /// Pairs that have had a lane which may lose frames.
    pub lossy: BTreeMap<usize, Lossy>,
}
