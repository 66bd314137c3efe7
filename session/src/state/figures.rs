//! What went between two jobs over which transport: figures for people.

use engine::Traffic;
use std::collections::BTreeMap;
use wire::TransportId;

/// So many sums of groups are kept before those of groups that are not known any more are forgotten.
pub(crate) const MOST_SUMS: usize = 128;

/// What went between a group of ours and one of another job over one transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Pairs that have a lane of this transport now.
    pub pairs: u32,
    /// What all pairs, also those that have ended, have carried over it.
    pub traffic: Traffic,
}

/// What was attributed already, by our incarnation, theirs, and the transport.
pub(crate) type Tally = BTreeMap<(u64, u64, TransportId), Traffic>;
