//! How a caller blocks: it spins while that is cheap, yields, then sleeps in slices, so that the MPI below gets its
//! turns too. Of several who sleep, one does so on the lanes, and what it finds wakes the others.
//!
//! Invariant: the lock is never held across a sleep, a yield or a call of `poke`.

use crate::core::Core;
use crate::node::Shared;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SPIN: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_micros(200);
/// Spins between two pokes.
const POKE_EVERY: u32 = 32;
/// Sleep slices, and for how long they stay short.
const SHORT: u16 = 1;
const MIDDLE: u16 = 4;
const LONG: u16 = 10;
const STAY_SHORT: Duration = Duration::from_millis(50);
const STAY_MIDDLE: Duration = Duration::from_millis(500);
/// After this long, those who are waited for are connected, so that their death is noticed.
const WATCH_AFTER: Duration = Duration::from_millis(50);
/// When the log says what is awaited.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// Processors that this process may use.
pub fn processors() -> usize {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return 1 };
    (0..CpuSet::count()).filter(|&i| set.is_set(i).unwrap_or(false)).count()
}

/// Counts one who waits.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Waiting<'a> {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

pub fn wait_until<T>(
    shared: &Shared,
    poke: &mut dyn FnMut() -> bool,
    mut done: impl FnMut(&mut Core) -> Option<T>,
    deadline: Option<Instant>,
) -> Option<T> {
    {
        let mut core = shared.lock();
        let out = done(&mut core);
        if out.is_some() {
            shared.rouse(&core);
            return out;
        }
    }
    let _waiting = Waiting::new(shared);
    let spin = if shared.may_spin.load(Ordering::Relaxed) { SPIN } else { Duration::ZERO };
    let start = Instant::now();
    // Since when nothing has moved: here, and in the MPI below.
    let (mut idle, mut below) = (start, start);
    let mut next_watch = start + WATCH_AFTER;
    let mut report = start + REPORT_AFTER;
    let mut turns: u32 = 0;
    loop {
        let now = Instant::now();
        let (busy, seen) = {
            let mut core = shared.lock();
            let busy = core.round();
            let out = done(&mut core);
            let over = out.is_some() || deadline.is_some_and(|d| now >= d);
            if busy || over {
                shared.tell();
            }
            if over {
                shared.rouse(&core);
                return out;
            }
            if now >= next_watch {
                core.watch_awaited();
                next_watch = now + WATCH_AFTER;
            }
            if now >= report {
                base::log!(Info, "waiting for {} s for{}", (now - start).as_secs(), core.describe_awaited());
                report = now + REPORT_AFTER * 6;
            }
            (busy, shared.found())
        };
        if busy {
            idle = now;
        }
        let rest = now.duration_since(idle);
        turns = turns.wrapping_add(1);
        if rest < spin {
            if turns.is_multiple_of(POKE_EVERY) {
                poke();
            }
            std::hint::spin_loop();
        } else if rest < spin + YIELD {
            if turns.is_multiple_of(POKE_EVERY) {
                poke();
            }
            std::thread::yield_now();
        } else {
            sleep(shared, seen, now.saturating_duration_since(below), deadline.map(|d| d.duration_since(now)));
            if poke() {
                below = Instant::now();
            }
        }
    }
}

fn sleep(shared: &Shared, seen: u64, quiet: Duration, left: Option<Duration>) {
    let slice = match quiet {
        w if w < STAY_SHORT => SHORT,
        w if w < STAY_MIDDLE => MIDDLE,
        _ => LONG,
    };
    let slice = left.map_or(slice, |l| slice.min(l.as_millis().min(100) as u16 + 1));
    // What one of several takes from the lanes, another may wait for, and sleep on: the lanes have nothing more to say.
    if shared.polling.swap(true, Ordering::Relaxed) {
        shared.follow(seen, Duration::from_millis(slice.into()));
        return;
    }
    let mut fds = [PollFd::new(shared.watch.fd(), PollFlags::POLLIN)];
    // A signal is as good a reason to look again as any.
    let _ = poll(&mut fds, PollTimeout::from(slice));
    shared.polling.store(false, Ordering::Relaxed);
}
