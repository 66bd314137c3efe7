//! Open MPI: handles are addresses, the predefined ones those of variables. An executable may hold its own copy of
//! such a variable, so the address is asked for as the program sees it.

use super::{Count, Family, OPENMPI, StatusLayout, WIDE_GROUP_TOKEN, WIDE_MESSAGE_TOKEN, WIDE_REQUEST_TOKEN};

pub static FAMILY: Family = Family {
    name: "Open MPI",
    handle_bytes: 8,
    status: StatusLayout { size: 24, source: 0, tag: 4, error: 8, count: Count::Long { cancelled: 12, count: 16 } },
    request_token: WIDE_REQUEST_TOKEN,
    group_token: WIDE_GROUP_TOKEN,
    message_token: WIDE_MESSAGE_TOKEN,
    integers: None,
    constants: OPENMPI,
};
