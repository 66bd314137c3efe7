//! Signs of life of lanes.

use base::Time;
use std::time::Duration;

/// After this long without input from a lane, it is asked for a sign of life. A lane is dark if the other side's kernel has
/// acknowledged nothing for this long of what is under way.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// A question that is open for this long is one that the other side may never answer on this lane, though its kernel
/// acknowledges: it waits for the rest of a frame of which something between the two has lost a part, or it is stopped.
pub(crate) const MUTE: Duration = Duration::from_secs(8);

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
    /// Nothing gets through to the other side's kernel, or its process does not answer: a lane beside it is tried.
    pub(crate) dark: bool,
}

impl Life {
    pub fn new(now: Time) -> Life {
        Life { look: 0, brought: 0, heard: now, acked: 0, moved: now, asked: None, dark: false }
    }
}

impl Life {
    /// Whether a lane beside this one is to be tried since a question is open for long: for some seconds after [`MUTE`], and
    /// each time that the silence has doubled. So a process that is stopped finds few connections when it goes on.
    pub fn is_mute(&self, now: Time) -> bool {
        let silent = self.asked.map_or(Duration::ZERO, |asked| now.since(asked));
        let times = (silent.as_secs() / MUTE.as_secs()) as u32;
        let Some(doubled) = times.checked_ilog2() else { return false };
        silent < MUTE * (1 << doubled.min(16)) + MUTE / 2
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mute_lane_is_dialled_beside_now_and_then() {
        let start = Time::default();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut life = Life::new(start);
        assert!((0..1_000).all(|s| !life.is_mute(at(s))), "nothing was asked");
        life.asked = Some(start);
        let mute: Vec<u64> = (0..140).filter(|s| life.is_mute(at(*s))).collect();
        assert_eq!(mute, [8, 9, 10, 11, 16, 17, 18, 19, 32, 33, 34, 35, 64, 65, 66, 67, 128, 129, 130, 131]);
    }
}
