//! What the driver keeps of operations beside the engine.

use crate::memory::Counted;
use engine::{OpId, Outcome};
use std::cell::RefCell;

/// A receive whose message is converted, or whose types are compared, before its outcome is given to a caller.
#[derive(Default)]
pub(crate) struct Judging {
    /// The note that came with the message: the types of its data.
    pub(crate) note: Option<Vec<u8>>,
    /// The outcome for the caller, once the message was converted and its types were compared.
    pub(crate) outcome: Option<Outcome>,
}

/// The operations that need more than the engine does for them.
#[derive(Default)]
pub(crate) struct Operations {
    /// The receives whose messages are converted, or whose types are compared.
    pub(crate) judging: Counted<Judging>,
    /// A queue of such receives that have to be converted without the lock: their messages are large and complete, and
    /// a caller has asked for the outcome.
    pub(crate) conversions: RefCell<Vec<OpId>>,
    /// Pending operations whose outcome will not be asked for.
    pub(crate) forgotten: Vec<OpId>,
}
