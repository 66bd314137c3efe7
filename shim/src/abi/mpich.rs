//! The MPICH family: MPICH, Intel MPI and their kin. Handles are ints.

use super::{Count, Family, MPICH, MPICH_KINDS, StatusLayout};

pub static FAMILY: Family = Family {
    name: "MPICH",
    handle_bytes: 4,
    status: StatusLayout { size: 20, source: 8, tag: 12, error: 16, count: Count::SplitInts { low: 0, high: 4 } },
    request_token: 0x2d00_0000,
    group_token: 0x0900_0000,
    message_token: 0x2e00_0000,
    integers: None,
    also_behind: None,
    bsend_overhead: 88,
    buffer_automatic: Some(-2_isize as usize),
    calls_itself: false,
    constants: MPICH,
    kinds: MPICH_KINDS,
};
