//! How alive lanes look.

use base::Time;
use std::time::Duration;

/// Who waits asks for a sign of life after so long a silence. What the other side's kernel has not acknowledged for so long
/// is under way on a link that is dark.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// How alive a lane looks.
pub(crate) struct Life {
    /// The look at which it was looked at last.
    pub(crate) look: u64,
    /// How often something had come, and since when nothing more has.
    pub(crate) brought: u32,
    pub(crate) heard: Time,
    /// How much the other side's kernel had, and since when it has taken nothing of what is under way.
    pub(crate) acked: u64,
    pub(crate) moved: Time,
    /// When it was asked the question that is open.
    pub asked: Option<Time>,
    pub(crate) dark: bool,
}

impl Life {
    pub fn new(now: Time) -> Life {
        Life { look: 0, brought: 0, heard: now, acked: 0, moved: now, asked: None, dark: false }
    }
}

impl Life {
    /// Whether nothing has come for long, of a lane that has brought something so often.
    pub fn is_still(&mut self, brought: u32, now: Time) -> bool {
        if self.brought != brought || self.look != u64::MAX {
            (self.brought, self.heard, self.look) = (brought, now, u64::MAX);
        }
        now.since(self.heard) >= SILENCE
    }
}

/// What is known from one look to the next.
#[derive(Default)]
pub(crate) struct Vigil {
    pub(crate) look: u64,
    pub(crate) next: Option<Time>,
}
