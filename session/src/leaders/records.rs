//! The contact records of a group.

use super::negotiation::MAX_RANKS;
use base::bytes::{Malformed, Take};
use wire::Contact;

/// The contact records of a group of so many ranks, in order of rank.
pub fn contacts(records: &[u8], size: u32) -> Result<Vec<Contact>, Malformed> {
    if size > MAX_RANKS {
        return Err(Malformed);
    }
    let mut rest = Take(records);
    let contacts = (0..size).map(|_| Contact::decode(&mut rest)).collect::<Result<Vec<_>, _>>()?;
    rest.end()?;
    if contacts.is_empty() { Err(Malformed) } else { Ok(contacts) }
}
