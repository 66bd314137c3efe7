//! What is to be looked at: as time passes, when a turn comes, at the end.

use crate::state::lossy::Lossy;
use base::Time;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Agenda {
    /// Pairs that are being connected.
    pub timed: BTreeSet<usize>,
    /// Pairs that may end.
    pub leaving: BTreeSet<usize>,
    /// Pairs that have something to write; and memory for as many.
    pub dirty: Vec<usize>,
    pub spare: Vec<usize>,
    /// When time is looked at next; `due`: whenever that is.
    pub(crate) next_tick: Time,
    pub due: bool,
    /// Pairs with lanes that are being left.
    pub left: BTreeSet<usize>,
    /// Pairs that have had a lane which may lose frames.
    pub lossy: BTreeMap<usize, Lossy>,
}
