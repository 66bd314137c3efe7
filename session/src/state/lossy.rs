//! What was seen of pairs on lanes that may lose frames.

use base::Time;

/// What was seen of one pair.
#[derive(Default)]
pub(crate) struct Lossy {
    pub(crate) looked: Time,
    /// Bytes of bulk that were missing then.
    pub(crate) missing: u64,
}
