//! What `fuzz/` needs of decoders that are private: names of ports, and the message of MPI_Comm_join.

use crate::conn::joined;
use crate::port::join;
use crate::port::name::{Address, MAX};
use node::Contact;
use node::leaders::Agreement;

/// What the name of a port says.
#[derive(Debug, PartialEq, Eq)]
pub struct Port {
    /// The record of its process, as far as the name tells.
    pub contact: Contact,
    /// The incarnation and the cookie of its group.
    pub group: (u64, [u8; 16]),
    /// The name again, in at most as many characters as a name may have. `None`: none of its addresses fits.
    pub name: Option<String>,
}

/// The port with this name.
pub fn port(name: &str) -> Option<Port> {
    let address = Address::parse(name).ok()?;
    let (contact, group) = (address.contact(), (address.incarnation(), address.cookie()));
    Some(Port { contact, group, name: address.name(MAX) })
}

/// The name of a port of the process with this record.
pub fn name_of(contact: &Contact) -> Option<String> {
    Address::new(contact, node::ip_addresses(contact)).name(MAX)
}

/// The bytes of a whole message of MPI_Comm_join, as far as those that have come tell. `None`: they are no message.
pub fn whole(got: &[u8]) -> Option<usize> {
    join::whole(got).ok()
}

/// The agreement in a message of MPI_Comm_join, and whether its party can be joined.
pub fn joined(bytes: &[u8]) -> Option<(Agreement, bool)> {
    let agreement = joined::read(bytes).ok()?;
    let fits = joined::check(&agreement.remote, &Default::default()).is_ok();
    Some((agreement, fits))
}

/// An agreement as bytes.
pub fn told(agreement: &Agreement) -> Vec<u8> {
    joined::write(agreement)
}
