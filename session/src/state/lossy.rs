//! What was seen of pairs whose lanes may lose frames.

use base::Time;

/// What was seen of one pair at the last look.
#[derive(Default)]
pub(crate) struct Lossy {
    /// When that was.
    pub(crate) looked: Time,
    /// How many bytes of bulk were missing.
    pub(crate) missing: u64,
}
