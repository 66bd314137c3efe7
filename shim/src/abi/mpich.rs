//! The MPICH family: MPICH, Intel MPI and their kin. Handles are ints.

use super::data::{Count, INTEGER_GROUP, INTEGER_MESSAGE, INTEGER_REQUEST, KINDS, StatusLayout, Traits, VALUES};
use base::Family;

pub static TRAITS: Traits = Traits {
    which: Family::Mpich,
    handle_bytes: 4,
    status: StatusLayout { size: 20, source: 8, tag: 12, error: 16, count: Count::SplitInts { low: 0, high: 4 } },
    request_token: INTEGER_REQUEST as u64,
    group_token: INTEGER_GROUP as u64,
    message_token: INTEGER_MESSAGE as u64,
    integers: None,
    also_backing: None,
    calls_itself: false,
    constants: VALUES[Family::Mpich as usize],
    kinds: KINDS[Family::Mpich as usize],
};
