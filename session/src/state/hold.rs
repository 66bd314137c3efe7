//! The state of a hold.

use base::Time;

/// This process gives up its lanes, or has.
pub(crate) struct Holding {
    /// When the lanes that are left are closed.
    pub until: Time,
    /// When lanes that may lose frames have their last word said again.
    pub again: Time,
    /// No lane is left.
    pub closed: bool,
}
