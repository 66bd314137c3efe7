//! The MPICH family: MPICH, Intel MPI and their kin. Handles are ints.

use super::{Count, Family, INTEGER_GROUP, INTEGER_MESSAGE, INTEGER_REQUEST, MPICH, MPICH_KINDS, StatusLayout};

pub static FAMILY: Family = Family {
    name: "MPICH",
    handle_bytes: 4,
    status: StatusLayout { size: 20, source: 8, tag: 12, error: 16, count: Count::SplitInts { low: 0, high: 4 } },
    request_token: INTEGER_REQUEST as u64,
    group_token: INTEGER_GROUP as u64,
    message_token: INTEGER_MESSAGE as u64,
    integers: None,
    also_behind: None,
    bsend_overhead: 88,
    buffer_automatic: Some(-2_isize as usize),
    calls_itself: false,
    constants: MPICH,
    kinds: MPICH_KINDS,
};
