//! The host, its boot and the time, for the records that this process writes.

use base::hash::fnv128;
use std::fs::read_to_string;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The boot id of the running kernel. All containers of one host share it, as they share file locks, so it tells whether a lock
/// can be trusted; the host's name does not.
pub fn boot_id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    *ID.get_or_init(|| {
        read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|s| parse_uuid(s.trim()))
            // Without a boot id, the host's name is used, which also differs between hosts.
            .unwrap_or_else(|| fnv128(host().as_bytes()).to_le_bytes())
    })
}

/// The host's name, for people.
pub fn host() -> String {
    base::ident::host().to_owned()
}

/// The time in seconds since 1970, as in [`crate::Record::since`].
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn parse_uuid(s: &str) -> Option<[u8; 16]> {
    let digits: String = s.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_is_read_and_stable() {
        assert_eq!(boot_id(), boot_id());
        assert_ne!(boot_id(), [0; 16]);
        assert_eq!(parse_uuid("00000000-0000-0000-0000-0000000000ff").unwrap()[15], 255);
        assert_eq!(parse_uuid("short"), None);
        assert_eq!(parse_uuid("zz000000-0000-0000-0000-0000000000ff"), None);
    }
}
