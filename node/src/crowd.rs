//! Oversubscription: a waiting thread may spin only if nobody else wants its processor. Its yields find that out, whoever the others
//! are and wherever they may run.

use nix::sys::resource::{UsageWho, getrusage};

/// What a wait has learned by its yields.
#[derive(Default)]
pub(crate) struct Yields {
    /// How often this thread had made way for another one when the first yield began.
    before: Option<i64>,
}

impl Yields {
    /// Yields the processor.
    pub(crate) fn give_way(&mut self) {
        self.before.get_or_insert_with(switches);
        std::thread::yield_now();
    }

    /// Whether another thread took the processor meanwhile. `None`: it was never given away.
    pub(crate) fn were_taken(&self) -> Option<bool> {
        self.before.map(|before| switches() != before)
    }
}

/// How often another thread has had the processor, while this one wanted it too.
fn switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}
