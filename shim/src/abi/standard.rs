//! The ABI of the MPI-5 standard: handles are as wide as a pointer, and the predefined ones are small numbers.
//!
//! It has dialects: MPICH 5 and Intel MPI differ in MPI_ERRORS_RETURN, MPI_SEEK_SET and some more constants, for which
//! the table has no value. The standard does not say where a status holds its count; all known MPIs hold it at the same
//! place.

use super::data::{
    BARE_GROUP_TOKEN, BARE_MESSAGE_TOKEN, BARE_REQUEST_TOKEN, Count, KINDS, StatusLayout, Traits, VALUES,
};
use base::Family;

pub static TRAITS: Traits = Traits {
    which: Family::Standard,
    handle_bytes: 8,
    status: StatusLayout { size: 32, source: 0, tag: 4, error: 8, count: Count::SplitInts { low: 12, high: 16 } },
    request_token: BARE_REQUEST_TOKEN,
    group_token: BARE_GROUP_TOKEN,
    message_token: BARE_MESSAGE_TOKEN,
    integers: None,
    also_backing: None,
    calls_itself: false,
    constants: VALUES[Family::Standard as usize],
    kinds: KINDS[Family::Standard as usize],
};
