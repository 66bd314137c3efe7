//! How much a path may keep.

use serde::{Deserialize, Serialize};

/// No count that is read from a snapshot reaches this, so there is always a next number.
pub(super) const MOST: u64 = 1 << 62;

/// Bodies that are kept for a side that goes on talking and acknowledges none of them. What is sent of this side's own accord is
/// held back long before, so these are answers.
pub(super) const MOST_RETAINED: usize = 1 << 20;

/// How much a path may keep.
///
/// Above `retained_bytes`, `retained_frames` or `bulk_queue` the path is backlogged: it takes more, but the engine
/// holds back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of bodies that are not acknowledged; 4 MiB by default.
    pub retained_bytes: usize,
    /// Number of bodies that are not acknowledged; 16,384 by default.
    pub retained_frames: usize,
    /// Pieces of bulk that wait for room on a lane; 4 by default.
    pub bulk_queue: usize,
    /// The most bytes that are held because an earlier frame is missing (lossy lanes, swaps); 64 MiB by default. Beyond,
    /// a frame of a lossy lane is dropped, and any other is a violation of the protocol.
    pub held_bytes: usize,
    /// The same in frames; 262,144 by default.
    pub held_frames: usize,
    /// Milliseconds after which the unacknowledged frames of a lossy lane go again, doubled while that does not help; 50 by
    /// default.
    pub resend_after: u64,
    #[cfg(feature = "plant")]
    #[doc(hidden)]
    #[serde(skip)]
    pub plant: Plant,
}

/// Planted faults: a test puts one in and sees that the simulator finds it.
#[cfg(feature = "plant")]
#[doc(hidden)]
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plant {
    /// No fault.
    #[default]
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
