//! What a path may keep.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Above one of these the path is backlogged: it takes more, but should not be given more.
    pub retained_bytes: usize,
    pub retained_frames: usize,
    pub bulk_queue: usize,
    /// Most that is held for want of an earlier frame (lossy lanes, lane swaps).
    pub held_bytes: usize,
    pub held_frames: usize,
    /// Milliseconds after which a lossy lane's unacknowledged frames go again; doubled while that does not help.
    pub resend_after: u64,
    #[cfg(feature = "plant")]
    #[doc(hidden)]
    pub plant: Plant,
}

/// Faults that tests put in, to see that they are found.
#[cfg(feature = "plant")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plant {
    None,
    /// What a lost lane took with it does not go again.
    Loss,
    /// Frames that come again are delivered again.
    Duplicate,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            retained_bytes: 4 << 20,
            retained_frames: 16 << 10,
            bulk_queue: 4,
            held_bytes: 64 << 20,
            held_frames: 256 << 10,
            resend_after: 50,
            #[cfg(feature = "plant")]
            plant: Plant::None,
        }
    }
}
