//! The contact records of a group.

use super::negotiation::MAX_RANKS;
use base::bytes::{Malformed, Take};
use wire::Contact;

/// Reads the contact records of a group of `size` ranks, in the order of ranks. `Err`: there are more or fewer, none,
/// or too many ranks for [`MAX_RANKS`].
pub fn contacts(records: &[u8], size: u32) -> Result<Vec<Contact>, Malformed> {
    if size > MAX_RANKS {
        return Err(Malformed);
    }
    let mut rest = Take(records);
    let contacts = (0..size).map(|_| Contact::decode(&mut rest)).collect::<Result<Vec<_>, _>>()?;
    rest.end()?;
    if contacts.is_empty() { Err(Malformed) } else { Ok(contacts) }
}
