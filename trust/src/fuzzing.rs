//! What `fuzz/` needs of what is private: the text of a key file, records without a handshake before them, and handshakes that
//! cost little.

use crate::file::{Wrong, parse};
use crate::records::{Direction, Protection};
use crate::{Inbox, Outbox, Ring, Trust};

/// The keys in the text of a key file; or the line that is no key, 0 if their number is wrong.
pub fn keys(text: &str) -> Result<Ring, usize> {
    parse(text).map_err(|wrong| match wrong {
        Wrong::Line(line) => line,
        Wrong::Number => 0,
    })
}

/// Both ends of one direction with this secret.
pub fn records(aes: bool, secret: &[u8; 32]) -> (Outbox, Inbox) {
    let protection = if aes { Protection::Aes } else { Protection::ChaCha };
    let direction = || Direction::new(protection, secret);
    (Outbox::new(direction()), Inbox::new(direction()))
}

/// Handshakes of this thread during a call use primitives that protect nothing and cost little. Identities that are made meanwhile
/// fit these.
pub fn cheaply<R>(call: impl FnOnce() -> R) -> R {
    crate::toy::during(call)
}

/// Whether this is within [`cheaply`].
pub fn is_cheap() -> bool {
    crate::toy::is_on()
}

/// This process has answered nobody yet: one input does not depend on those before it.
pub fn forget_proofs(trust: &Trust) {
    trust.forget_proofs();
}
