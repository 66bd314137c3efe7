//! What `fuzz/` needs of what is private: the text of a key file, and records without a handshake before them.

use crate::file::{Wrong, parse};
use crate::records::{Direction, Protection};
use crate::{Inbox, Outbox, Ring};

/// The keys in the text of a key file; or the line that is no key, 0 if their number is wrong.
pub fn keys(text: &str) -> Result<Ring, usize> {
    parse(text).map_err(|wrong| match wrong {
        Wrong::Line(line) => line,
        Wrong::Number => 0,
    })
}

/// Both ends of one direction, with a fixed secret.
pub fn records(aes: bool) -> (Outbox, Inbox) {
    let protection = if aes { Protection::Aes } else { Protection::ChaCha };
    let direction = || Direction::new(protection, &[7; 32]);
    (Outbox::new(direction()), Inbox::new(direction()))
}
