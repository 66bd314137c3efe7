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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn who_shares_a_processor_learns_it_by_its_yields() {
        let mut yields = Yields::default();
        assert_eq!(yields.were_taken(), None);
        // Of this thread, and of the one that it begins.
        let may = sched_getaffinity(Pid::from_raw(0)).expect("the kernel says it");
        let mut one = CpuSet::new();
        let first = (0..CpuSet::count()).find(|cpu| may.is_set(*cpu) == Ok(true)).expect("it runs somewhere");
        one.set(first).expect("a processor");
        sched_setaffinity(Pid::from_raw(0), &one).expect("a processor that it may use");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let began = Instant::now();
            while yields.were_taken() != Some(true) && began.elapsed() < Duration::from_secs(20) {
                yields.give_way();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(yields.were_taken(), Some(true));
    }
}
