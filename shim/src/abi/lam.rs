//! LAM: handles are addresses, the predefined ones those of variables, the null ones 0.

use super::{Count, Family, LAM, StatusLayout, WIDE_GROUP_TOKEN, WIDE_REQUEST_TOKEN};

pub static FAMILY: Family = Family {
    name: "LAM",
    handle_bytes: 8,
    status: StatusLayout { size: 16, source: 0, tag: 4, error: 8, count: Count::Int { count: 12 } },
    request_token: WIDE_REQUEST_TOKEN,
    group_token: WIDE_GROUP_TOKEN,
    constants: LAM,
};
