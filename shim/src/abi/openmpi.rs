//! Open MPI: handles are addresses, and the predefined ones are addresses of variables. An executable may have its own
//! copy of such a variable, so its address is looked up as the program sees it.

use super::data::{
    ADDRESS_GROUP_TOKEN, ADDRESS_REQUEST_TOKEN, BARE_MESSAGE_TOKEN, Count, Integers, KINDS, StatusLayout, Traits,
    VALUES,
};
use base::Family;

pub static TRAITS: Traits = Traits {
    which: Family::OpenMpi,
    handle_bytes: 8,
    status: StatusLayout { size: 24, source: 0, tag: 4, error: 8, count: Count::Long { cancelled: 12, count: 16 } },
    // Addresses far from where Linux puts anything, and from each other: its Fortran layer looks behind a request that
    // stays, and a group that a call on groups gives.
    request_token: ADDRESS_REQUEST_TOKEN,
    group_token: ADDRESS_GROUP_TOKEN,
    message_token: BARE_MESSAGE_TOKEN,
    integers: None,
    also_backing: Some(Integers { request: 0x68, group: 0x18 }),
    calls_itself: false,
    constants: VALUES[Family::OpenMpi as usize],
    kinds: KINDS[Family::OpenMpi as usize],
};
