//! LAM: handles are addresses. The predefined ones are addresses of variables, and the null ones are 0.

use super::data::{
    ADDRESS_GROUP_TOKEN, ADDRESS_REQUEST_TOKEN, BARE_MESSAGE_TOKEN, Count, Integers, KINDS, StatusLayout, Traits,
    VALUES,
};
use base::Family;

pub static TRAITS: Traits = Traits {
    which: Family::Lam,
    handle_bytes: 8,
    status: StatusLayout { size: 16, source: 0, tag: 4, error: 8, count: Count::Int { count: 12, cancelled: -3 } },
    // Addresses far from all that Linux maps by itself.
    request_token: ADDRESS_REQUEST_TOKEN,
    group_token: ADDRESS_GROUP_TOKEN,
    message_token: BARE_MESSAGE_TOKEN,
    integers: Some(Integers { request: 0x54, group: 0xc }),
    also_backing: None,
    calls_itself: true,
    constants: VALUES[Family::Lam as usize],
    kinds: KINDS[Family::Lam as usize],
};
