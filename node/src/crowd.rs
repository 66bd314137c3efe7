//! Oversubscription: a waiting thread may spin only if nobody else wants its processor. Its yields find that out, whoever the others
//! are and wherever they may run. Those that wait too yield in turn; one that computes takes a whole slice of some milliseconds each time
//! (Linux 6.18 takes it from who yields), so beside such a one a waiting thread sleeps until its doorbell rings.
//!
//! Threads of this process that wait at the same time may share a processor, and so may those at the other end. They take turns: who has
//! the processor keeps it while messages flow, up to [`TURN`]. Then it makes way for another one, which stays for a while although
//! nothing has come: its partner has to get a processor first. Without turns, a thread that never lacks a message would yield
//! never, and the other one get a message's time in each slice of the kernel's.
//!
//! Used by `wait`, and by the receives without an operation in `operations`. Invariant: nothing here changes what is received, only when.

use nix::sys::resource::{UsageWho, getrusage};
use std::time::{Duration, Instant};

/// While others take the processor, the kernel is asked in one of so many waits whether they still do.
const ASK_AFTER: u32 = 16;
/// Before a yield to those who wait too a thread looks so often and no more, before a wait and in its first turn, and in the later ones, if the looks of the
/// first turn were in vain in so many waits in a row: its message is sent when the others have had the processor. In one of
/// [`ASK_AFTER`] such waits it looks as often as else.
const FIRST_LOOKS: u32 = 2;
const LATER_LOOKS: u32 = 8;
const IN_VAIN: u32 = 8;
/// Who keeps the processor for this long after a yield does not wait.
const SLICE: Duration = Duration::from_millis(1);
/// Nor does it share the processor if so few waits end from one slice of it to the next.
const FEW: u32 = 32;
/// A yield that takes this long has switched to another thread.
const SWITCH: Duration = Duration::from_micros(3);
/// How long a thread keeps the processor while another one of this process waits.
const TURN: Duration = Duration::from_millis(1);
/// Who gets the processor back after this time, twice in a row, has given it to others than threads of this process. Then it gives no turn
/// for this many times as long. Once may have been a host that took the processor of a virtual machine away.
const LONG_TURN: Duration = Duration::from_micros(2500);
const SELDOM: u32 = 32;
/// How long a thread sleeps instead of yielding before it tries again: at first, and at most. Each time that this was in vain it doubles.
const SLEEPS: Duration = Duration::from_millis(20);
const SLEEPS_AT_MOST: Duration = Duration::from_millis(640);

/// What yields have told of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Others {
    /// Nobody else wants the processor.
    None,
    /// Others take it, and give it back soon.
    Yield,
    /// Others take it for a whole slice.
    Compute,
}

/// Whether a yield has given the processor to another thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    No,
    Awhile,
    /// For a whole slice.
    Slice,
}

struct Turn {
    thread: usize,
    since: Instant,
}

/// Who else wants the processors of this process.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Another thread had the processor in the yields of the last wait that asked.
    taken: bool,
    /// Waits with yields since then.
    unasked: u32,
    /// Waits in a row in whose first turn all looks were in vain.
    in_vain: u32,
    /// Waits that have ended since another thread last had the processor for a slice.
    ended: u32,
    /// The thread whose turn it is, and since when.
    turn: Option<Turn>,
    /// No turns are given before.
    turns_from: Option<Instant>,
    /// The last turn that was given took long.
    was_long: bool,
    /// Since when this process sleeps instead.
    computes: Option<Instant>,
    /// How long it does; zero: it was not so lately.
    sleeps: Duration,
}

impl Crowd {
    pub(crate) fn others(&self) -> Others {
        match (self.computes.is_some(), self.taken) {
            (true, _) => Others::Compute,
            (false, true) => Others::Yield,
            (false, false) => Others::None,
        }
    }

    /// A wait has ended.
    pub(crate) fn note(&mut self, yields: &Yields) {
        self.ended = self.ended.saturating_add(1);
        if let Some(before) = yields.before {
            self.taken = switches() != before;
            self.unasked = 0;
        } else if yields.gave_way {
            self.unasked += 1;
        }
    }

    /// Whether a wait is to ask who has the processor in its yields.
    pub(crate) fn asks(&self) -> bool {
        !self.taken || self.unasked >= ASK_AFTER
    }

    /// How often of `all` times a thread looks in the next turn before it yields.
    pub(crate) fn looks(&self, all: u32, is_first: bool) -> u32 {
        match self.others() {
            Others::Yield if self.in_vain >= IN_VAIN && !self.asks() => {
                all.min(if is_first { FIRST_LOOKS } else { LATER_LOOKS })
            }
            _ => all,
        }
    }

    /// The first turn of a wait that yields is over, or the looks before a wait. `found`: its looks have found something; `few`: it has looked less
    /// often than it could.
    pub(crate) fn has_looked(&mut self, found: bool, few: bool) {
        match (found, few) {
            (true, false) => self.in_vain = 0,
            (false, false) => self.in_vain = self.in_vain.saturating_add(1),
            (_, true) => {}
        }
    }

    /// This thread begins to wait, as others of this process do. Whether it has to yield first, since its turn is over.
    pub(crate) fn is_turn_over(&mut self, thread: usize, now: Instant) -> bool {
        let turn = self.turn.take().filter(|turn| turn.thread == thread).unwrap_or(Turn { thread, since: now });
        let is_over =
            now.saturating_duration_since(turn.since) >= TURN && self.turns_from.is_none_or(|from| now >= from);
        self.turn = (!is_over).then_some(turn);
        is_over
    }

    /// A thread whose turn was over has yielded.
    pub(crate) fn gave_turn(&mut self, since: Instant, now: Instant) {
        let took = now.saturating_duration_since(since);
        let is_long = took >= LONG_TURN;
        self.turns_from = (is_long && self.was_long).then(|| now + SELDOM * took);
        self.was_long = is_long;
    }

    /// Another thread has had the processor for a whole slice.
    pub(crate) fn lost_slice(&mut self, now: Instant) {
        match std::mem::take(&mut self.ended) {
            ..FEW => {
                self.computes = Some(now);
                self.sleeps = (2 * self.sleeps).clamp(SLEEPS, SLEEPS_AT_MOST);
            }
            // After a sleep it begins with `FEW`.
            ended if ended >= 2 * FEW => self.sleeps = Duration::ZERO,
            _ => {}
        }
    }

    /// A thread has slept instead of yielding: that may be over.
    pub(crate) fn slept(&mut self, now: Instant) {
        if self.computes.is_some_and(|since| now.saturating_duration_since(since) >= self.sleeps) {
            self.computes = None;
            // The next slice may be that of one who waits too.
            self.ended = FEW;
        }
    }
}

/// The yields of one wait.
#[derive(Default)]
pub(crate) struct Yields {
    /// How often this thread had made way for another one when the first yield began, if it asks.
    before: Option<i64>,
    /// And after the last long one.
    last: i64,
    gave_way: bool,
}

impl Yields {
    /// Yields the processor. Whether another thread has had it. `asks`: see [`Crowd::asks`].
    pub(crate) fn give_way(&mut self, asks: bool) -> Gone {
        if asks && self.before.is_none() {
            self.last = switches();
            self.before = Some(self.last);
        }
        self.gave_way = true;
        let began = Instant::now();
        std::thread::yield_now();
        let took = began.elapsed();
        self.gone(took, switches)
    }

    /// What a yield that took this long has done. A host may take the processor of a virtual machine away: that is nobody who computes here,
    /// and to sleep would only have it do so again.
    fn gone(&mut self, took: Duration, switches: impl FnOnce() -> i64) -> Gone {
        if took < SWITCH {
            return Gone::No;
        }
        let is_switched = self.before.is_none() || {
            let last = switches();
            last != std::mem::replace(&mut self.last, last)
        };
        if took < SLICE || !is_switched { Gone::Awhile } else { Gone::Slice }
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

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_shares_a_processor_learns_it_by_its_yields() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.others(), Others::None);
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
            let (mut yields, began) = (Yields::default(), Instant::now());
            while crowd.others() == Others::None && began.elapsed() < LONG {
                if yields.give_way(crowd.asks()) == Gone::Slice {
                    crowd.lost_slice(Instant::now());
                }
                crowd.note(&yields);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_ne!(crowd.others(), Others::None);
    }

    #[test]
    fn a_host_that_takes_the_processor_away_is_nobody_who_computes() {
        let mut yields = Yields { before: Some(5), last: 5, ..Yields::default() };
        assert_eq!(yields.gone(SLICE, || 5), Gone::Awhile);
        assert_eq!(yields.gone(SWITCH, || 6), Gone::Awhile, "another thread, for a moment");
        assert_eq!(yields.gone(SLICE, || 6), Gone::Awhile, "the host again");
        assert_eq!(yields.gone(SLICE, || 7), Gone::Slice);
        assert_eq!(yields.gone(SWITCH / 2, || unreachable!("it is not asked")), Gone::No);
        assert_eq!(Yields::default().gone(SLICE, || unreachable!("it is not asked")), Gone::Slice);
    }

    #[test]
    fn who_looks_in_vain_before_each_yield_looks_less() {
        let mut crowd = Crowd::default();
        let turns = |crowd: &Crowd| [true, false].map(|is_first| crowd.looks(32, is_first));
        (0..2 * IN_VAIN).for_each(|_| crowd.has_looked(false, false));
        assert_eq!(turns(&crowd), [32, 32], "nobody wants the processor");
        crowd.taken = true;
        assert_eq!(turns(&crowd), [FIRST_LOOKS, LATER_LOOKS]);
        assert_eq!(crowd.looks(1, true), 1);
        // Few looks tell nothing, and many do.
        crowd.has_looked(true, true);
        assert_eq!(turns(&crowd), [FIRST_LOOKS, LATER_LOOKS]);
        let many = (0..4 * ASK_AFTER).filter(|_| {
            let is_many = turns(&crowd) == [32, 32];
            crowd.note(&Yields { before: crowd.asks().then_some(-1), gave_way: true, ..Yields::default() });
            is_many
        });
        assert_eq!(many.count(), 3);
        crowd.has_looked(true, false);
        assert_eq!(turns(&crowd), [32, 32]);
        (1..IN_VAIN).for_each(|_| crowd.has_looked(false, false));
        assert_eq!(turns(&crowd), [32, 32]);
        crowd.has_looked(false, false);
        assert_eq!(turns(&crowd), [FIRST_LOOKS, LATER_LOOKS]);
    }

    #[test]
    fn threads_take_turns() {
        let (mut crowd, start) = (Crowd::default(), Instant::now());
        let mut is_over = |thread, part| crowd.is_turn_over(thread, start + TURN * part / 4);
        assert!((0..4).all(|part| !is_over(1, part)));
        assert!(is_over(1, 4));
        assert!((4..6).all(|part| !is_over(2, part)));
        assert!((6..10).all(|part| !is_over(1, part)), "it has begun anew");
        assert!(is_over(1, 10));
        // Somebody else may have had it.
        let once = start + 2 * LONG_TURN;
        crowd.gave_turn(start, once);
        assert!(!crowd.is_turn_over(1, once) && crowd.is_turn_over(1, once + TURN));
        crowd.gave_turn(once, once + TURN);
        crowd.gave_turn(once, once + LONG_TURN);
        assert!(!crowd.is_turn_over(1, once) && crowd.is_turn_over(1, once + TURN), "not twice in a row");
        // And again.
        let back = once + 3 * LONG_TURN;
        crowd.gave_turn(once + LONG_TURN, back);
        let mut is_over = |after| crowd.is_turn_over(1, back + after);
        assert!(!is_over(Duration::ZERO) && !is_over(SELDOM * LONG_TURN));
        assert!(is_over(2 * SELDOM * LONG_TURN));
    }

    #[test]
    fn beside_who_computes_a_thread_sleeps_and_tries_again_ever_later() {
        let (mut crowd, start) = (Crowd::default(), Instant::now());
        // Somebody who waits too: in each slice of its own this process gets much done.
        crowd.taken = true;
        for _ in 0..5 {
            (0..FEW).for_each(|_| crowd.note(&Yields::default()));
            crowd.lost_slice(start);
            assert_eq!(crowd.others(), Others::Yield);
        }
        let mut now = start;
        for sleeps in [SLEEPS, 2 * SLEEPS, 4 * SLEEPS] {
            crowd.lost_slice(now);
            assert_eq!(crowd.others(), Others::Compute);
            crowd.slept(now + sleeps - Duration::from_millis(1));
            assert_eq!(crowd.others(), Others::Compute);
            now += sleeps;
            crowd.slept(now);
            assert_eq!(crowd.others(), Others::Yield);
            // One slice is nothing yet.
            crowd.lost_slice(now);
            assert_eq!(crowd.others(), Others::Yield);
        }
    }
}
