//! LAM: handles are addresses, the predefined ones those of variables, the null ones 0.

use super::{
    ADDRESS_GROUP_TOKEN, ADDRESS_REQUEST_TOKEN, BARE_MESSAGE_TOKEN, Count, Family, Integers, LAM, LAM_KINDS,
    StatusLayout,
};

pub static FAMILY: Family = Family {
    name: "LAM",
    handle_bytes: 8,
    status: StatusLayout { size: 16, source: 0, tag: 4, error: 8, count: Count::Int { count: 12, cancelled: -3 } },
    // Addresses far from where Linux puts anything.
    request_token: ADDRESS_REQUEST_TOKEN,
    group_token: ADDRESS_GROUP_TOKEN,
    message_token: BARE_MESSAGE_TOKEN,
    integers: Some(Integers { request: 0x54, group: 0xc }),
    also_behind: None,
    bsend_overhead: 40,
    buffer_automatic: None,
    calls_itself: true,
    constants: LAM,
    kinds: LAM_KINDS,
};
