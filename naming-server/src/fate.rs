//! What becomes of names. Messages say it by the number of the case.

use serde::{Deserialize, Serialize};

/// What has happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// Its holder has given it back.
    Released,
    /// A process has it now.
    Claimed,
    /// Its lease is over: its holder has died, or cannot be heard.
    Over,
}
