//! The contact records of a group.

use super::negotiation::MAX_RANKS;
use base::bytes::Malformed;
use wire::Contacts;

/// Reads the contact records of a group of `size` ranks, as its leader has sent them. `Err`: there are more or fewer, none,
/// or too many ranks for [`MAX_RANKS`].
pub fn contacts(records: &[u8], size: u32) -> Result<Contacts, Malformed> {
    if size > MAX_RANKS { Err(Malformed) } else { Contacts::decode(records, size) }
}
