//! Signs of life of lanes.

use base::Time;
use std::time::Duration;

/// After this long without input from a lane, it is asked for a sign of life. A lane is dark if the other side's kernel has
/// acknowledged nothing for this long of what is under way.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// What was seen of one lane at the last look.
pub(crate) struct Life {
    /// The number of that look.
    pub(crate) look: u64,
    /// How often the lane had brought something.
    pub(crate) brought: u32,
    /// Since when it has brought nothing more.
    pub(crate) heard: Time,
    /// How many bytes the other side's kernel had acknowledged.
    pub(crate) acked: u64,
    /// Since when it has acknowledged nothing of what is under way.
    pub(crate) moved: Time,
    /// When the open question was asked.
    pub asked: Option<Time>,
    /// Nothing gets through to the other side's kernel.
    pub(crate) dark: bool,
}

impl Life {
    pub fn new(now: Time) -> Life {
        Life { look: 0, brought: 0, heard: now, acked: 0, moved: now, asked: None, dark: false }
    }
}

impl Life {
    /// For a lane that is being left: whether it has brought nothing for [`SILENCE`]. `brought`: how often it has until
    /// now.
    pub fn is_still(&mut self, brought: u32, now: Time) -> bool {
        if self.brought != brought || self.look != u64::MAX {
            (self.brought, self.heard, self.look) = (brought, now, u64::MAX);
        }
        now.since(self.heard) >= SILENCE
    }
}

/// When lanes are looked at.
#[derive(Default)]
pub(crate) struct DeathWatch {
    /// The number of the last look.
    pub(crate) look: u64,
    /// When the next one is due.
    pub(crate) next: Option<Time>,
}
