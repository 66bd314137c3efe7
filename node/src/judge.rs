//! The end of a receive: compares the types of its message with those of the receive, and converts data of a job with
//! another representation into the program's buffer.
//!
//! Part of the core. Invariant: while a message is converted without the lock, its receive is not reported as complete,
//! so that the buffer stays valid.

use crate::lock::Guard;
use crate::memory::Layout;
use crate::shared::Shared;
use crate::state::Core;
use engine::{Envelope, OpId, Outcome};
use std::sync::Once;

/// A message of this size in bytes, or larger, is converted without the lock.
const LARGE: u64 = 64 << 10;

/// A message that is converted without the lock, and all that this needs.
struct Conversion {
    op: OpId,
    note: Option<Vec<u8>>,
    layout: Layout,
    outcome: Outcome,
}

/// Converts one large message whose receive a caller has asked about, and releases the lock meanwhile. False: there is
/// none.
pub(crate) fn convert_some<'a>(shared: &'a Shared, mut core: Guard<'a, Core>) -> (Guard<'a, Core>, bool) {
    let Some(conversion) = core.begin_conversion() else { return (core, false) };
    drop(core);
    let Conversion { op, note, layout, outcome } = conversion;
    let judged = judge(note.as_deref(), &layout, outcome);
    core = shared.lock();
    core.pulls.done(op);
    if let Some(judging) = core.operations.judging.get_mut(&op.0) {
        judging.outcome = Some(judged);
    }
    (core, true)
}

impl Core {
    /// Whether the library still copies or converts into the buffer of an operation. Until it has ended, the operation
    /// is not reported as complete.
    #[inline]
    pub(crate) fn is_worked_on(&self, op: OpId) -> bool {
        self.pulls.is_running(op) || !self.operations.judging.is_empty() && self.is_to_be_converted(op)
    }

    /// Whether a receive has its whole message, and this has yet to be converted without the lock. Then it is queued
    /// for [`convert_some`].
    pub(crate) fn is_to_be_converted(&self, op: OpId) -> bool {
        if self.operations.judging.get(&op.0).is_none_or(|judging| judging.outcome.is_some()) {
            return false;
        }
        let size = match self.session.engine.outcome(op) {
            Some(Outcome::Received(e)) => e.size,
            Some(Outcome::Truncated { size, .. }) => size,
            _ => return false,
        };
        let large = size >= LARGE && self.session.mem.get(op.0).is_some_and(Layout::converts);
        if large {
            let mut queue = self.operations.conversions.borrow_mut();
            if !queue.contains(&op) {
                queue.push(op);
            }
        }
        large
    }

    /// Takes the next conversion that is due from the queue.
    fn begin_conversion(&mut self) -> Option<Conversion> {
        while let Some(op) = self.operations.conversions.get_mut().pop() {
            // Another thread may convert it just now, or may have done so.
            if self.pulls.is_running(op) || !self.is_to_be_converted(op) {
                continue;
            }
            self.operations.conversions.get_mut().retain(|one| *one != op);
            let judging = self.operations.judging.get_mut(&op.0)?;
            let (note, layout) = (judging.note.clone(), self.session.mem.get(op.0)?.clone());
            let outcome = self.session.engine.outcome(op)?;
            self.pulls.begin(op);
            return Some(Conversion { op, note, layout, outcome });
        }
        None
    }

    /// The outcome of a receive whose types are compared or whose data is converted. The first call compares and
    /// converts, and later calls give the same outcome again.
    pub(crate) fn judge_outcome(&mut self, op: OpId, outcome: Outcome) -> Outcome {
        let Some(judging) = self.operations.judging.get_mut(&op.0) else { return outcome };
        if let Some(judged) = judging.outcome {
            return judged;
        }
        let Some(layout) = self.session.mem.get(op.0) else { return outcome };
        let judged = judge(judging.note.as_deref(), layout, outcome);
        judging.outcome = Some(judged);
        judged
    }
}

/// Compares the types of a message with those of its receive, and converts data of a job with another representation.
/// The sizes in the outcome are in bytes of this process's representation.
fn judge(note: Option<&[u8]>, layout: &Layout, outcome: Outcome) -> Outcome {
    let (e, whole) = match outcome {
        Outcome::Received(e) => (e, None),
        Outcome::Truncated { source, tag, size, whole } => (Envelope { source, tag, size }, Some(whole)),
        _ => return outcome,
    };
    let is_unsigned = note.is_none() && e.size > 0 && layout.types().is_some();
    let wrong = note.zip(layout.types()).and_then(|(note, types)| types.judge(note, whole));
    // Data of other types would be converted wrongly, so it is left out.
    let differ = wrong.as_ref().is_some_and(|wrong| wrong.differ);
    let converted = if differ { None } else { layout.convert(e.size) };
    let size = converted.map_or(e.size, |done| done.bytes);
    let fits = converted.is_none_or(|done| done.fits);
    let (source, tag) = (e.source, e.tag);
    if is_unsigned {
        tell_of_one_side("without", "the other one");
    }
    match (wrong, whole) {
        (Some(wrong), _) => Outcome::Wrong { source, tag, size, why: wrong.keep() },
        (None, Some(whole)) => Outcome::Truncated { source, tag, size, whole },
        (None, None) if fits => Outcome::Received(Envelope { size, ..e }),
        (None, None) => Outcome::OutOfRange(Envelope { size, ..e }),
    }
}

/// Reports, once in a process, that only one of two jobs has the check of types switched on.
pub(crate) fn tell_of_one_side(came: &str, which: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        base::log!(
            Notice,
            "a message came {came} its types: they are compared where both jobs have MPI_CONNECT_CHECK=types, and {which} has not"
        );
    });
}
