//! How a caller blocks: it looks at the busy lanes while that is cheap, yields, then sleeps in slices, so that the MPI
//! below gets its turns too. Of several who sleep, one does so on the lanes, and what it finds wakes the others.
//!
//! Invariant: the lock is never held across a sleep, a yield or a call of `poke`.

use crate::pull::pull_some;
use crate::shared::Shared;
use crate::state::Core;
use crate::state::waits::About;
use crate::waits::Notices;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Who has a processor spins for so long, and then yields for so long: as long as a large message takes.
const SPIN: Duration = Duration::from_micros(100);
const YIELD: Duration = Duration::from_millis(4);
/// Where processors are short.
const YIELD_ONLY: Duration = Duration::from_micros(200);
/// Turns of looking at busy lanes alone between two rounds.
const PATIENCE: u32 = 20;
/// Between two pokes of one who does not sleep.
const POKE_AFTER: Duration = Duration::from_micros(10);
/// Calls that end without a round, since what they waited for was seen at a glance, make one all the same this often: only
/// a round connects, hears of deaths, and gives the MPI below its turn.
const ROUND_AFTER: u32 = 256;
/// Calls that only look, more often: the program has nothing better to do.
const ROUND_AFTER_LOOKS: u32 = 8;
/// Sleep slices, and for how long they stay short.
const SHORT: u16 = 1;
const MIDDLE: u16 = 4;
const LONG: u16 = 10;
const STAY_SHORT: Duration = Duration::from_millis(50);
const STAY_MIDDLE: Duration = Duration::from_millis(500);
/// After this long, those who are waited for are connected, so that their death is noticed.
const WATCH_AFTER: Duration = crate::waits::PUBLISH_AFTER;

/// What one who waits knows of the time, as of its last round.
struct Clock {
    now: Instant,
    /// Since when nothing has moved: here, and in the MPI below.
    idle: Instant,
    below: Instant,
    poked: Instant,
    next_watch: Instant,
    notices: Notices,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Spin,
    Yield,
    Sleep,
}

impl Clock {
    fn new(core: &Core) -> Clock {
        let now = Instant::now();
        let (next_watch, notices) = (now + WATCH_AFTER, Notices::new(now, core.waits.notice));
        Clock { now, idle: now, below: now, poked: now, next_watch, notices }
    }

    /// A round, and what is due as time passes. `moved`: something has, since the last one.
    fn round(&mut self, core: &mut Core, moved: bool, about: &dyn Fn(&mut Core) -> Option<About>) -> bool {
        self.now = Instant::now();
        let moved = core.round(self.now) || moved;
        if moved {
            self.idle = self.now;
        }
        if self.now >= self.next_watch {
            core.session.watch_awaited();
            core.act();
            if let Some(text) = self.notices.step(core, self.now, about) {
                base::log!(Notice, "{text}");
            }
            self.next_watch = self.now + WATCH_AFTER;
        }
        moved
    }

    fn phase(&self, may_spin: bool) -> Phase {
        let (spin, give_way) = if may_spin { (SPIN, YIELD) } else { (Duration::ZERO, YIELD_ONLY) };
        match self.now - self.idle {
            rest if rest < spin => Phase::Spin,
            rest if rest < spin + give_way => Phase::Yield,
            _ => Phase::Sleep,
        }
    }

    /// Whether the MPI below has not had its turn for a while; then it is to get it.
    fn poke_is_due(&mut self) -> bool {
        let due = self.now - self.poked >= POKE_AFTER;
        if due {
            self.poked = self.now;
        }
        due
    }
}

pub fn wait_until<T>(
    shared: &Shared,
    poke: &mut dyn FnMut() -> bool,
    about: &dyn Fn(&mut Core) -> Option<About>,
    mut done: impl FnMut(&mut Core) -> Option<T>,
    deadline: Option<Instant>,
) -> Option<T> {
    let mut core = shared.lock();
    // Before anything is looked for: afterwards nobody would look at what a poke has found.
    if core.is_round_due(ROUND_AFTER) {
        if core.round(Instant::now()) {
            shared.tell(&core);
        }
        drop(core);
        poke();
        core = shared.lock();
    }
    let out = done(&mut core);
    if out.is_some() {
        shared.rouse(&core);
        return out;
    }
    shared.enter(&core);
    let mut clock = Clock::new(&core);
    let mut phase = clock.phase(core.pace.may_spin);
    // Something has, since the last round.
    let mut moved = false;
    let mut turn = 0u32;
    loop {
        let mut out = None;
        let looks = core.looks();
        for _ in 0..looks {
            let mut found = core.glance();
            if !core.pulls.is_empty() {
                (core, _) = pull_some(shared, core);
                found = true;
            }
            if found {
                moved = true;
                out = done(&mut core);
                if out.is_some() {
                    break;
                }
            }
        }
        turn = turn.wrapping_add(1);
        let whole = out.is_none() && (looks == 0 || phase == Phase::Sleep || turn.is_multiple_of(PATIENCE));
        if whole {
            moved = clock.round(&mut core, moved, about);
            if !core.pulls.is_empty() {
                (core, _) = pull_some(shared, core);
                moved = true;
            }
        }
        // Another thread may have found it.
        let out = out.or_else(|| done(&mut core));
        let over = out.is_some() || whole && deadline.is_some_and(|d| clock.now >= d);
        if moved || over {
            shared.tell(&core);
        }
        if over {
            clock.notices.end(&mut core);
            shared.leave(&core);
            shared.rouse(&core);
            return out;
        }
        if whole {
            moved = false;
            phase = clock.phase(core.pace.may_spin);
        }
        if phase == Phase::Sleep {
            core.cool();
        }
        let seen = shared.found(&core);
        let lies = phase == Phase::Sleep && core.lie_down();
        // What one of several takes from the lanes, another may wait for, and sleep on: the lanes have nothing more to say.
        let polls = lies && !shared.polling.swap(true, Ordering::Relaxed);
        drop(core);
        match phase {
            Phase::Sleep => {
                let quiet = clock.now.saturating_duration_since(clock.below);
                if lies {
                    sleep(shared, polls, seen, quiet, deadline.map(|d| d.duration_since(clock.now)));
                }
                if poke() {
                    clock.below = Instant::now();
                }
            }
            Phase::Yield | Phase::Spin if whole && clock.poke_is_due() => {
                poke();
            }
            Phase::Yield => std::thread::yield_now(),
            Phase::Spin => {}
        }
        core = shared.lock();
        if lies {
            core.get_up();
        }
    }
}

/// Looks once. Calls of this follow each other while the program waits in its own way, so not each makes a round; the
/// MPI below gets its turn along with it.
pub fn look<T>(
    shared: &Shared,
    poke: &mut dyn FnMut() -> bool,
    done: impl FnOnce(&mut Core) -> Option<T>,
) -> Option<T> {
    let mut core = shared.lock();
    shared.count_round(&core);
    let whole = core.looks() == 0 || core.is_round_due(ROUND_AFTER_LOOKS);
    let moved = if whole { core.round(Instant::now()) } else { core.glance() };
    let (mut core, pulled) = pull_some(shared, core);
    if moved || pulled {
        shared.tell(&core);
    }
    let out = done(&mut core);
    shared.rouse(&core);
    drop(core);
    if whole {
        poke();
    }
    out
}

fn sleep(shared: &Shared, polls: bool, seen: u64, quiet: Duration, left: Option<Duration>) {
    let slice = match quiet {
        w if w < STAY_SHORT => SHORT,
        w if w < STAY_MIDDLE => MIDDLE,
        _ => LONG,
    };
    let slice = left.map_or(slice, |l| slice.min(l.as_millis().min(100) as u16 + 1));
    if !polls {
        shared.follow(seen, Duration::from_millis(slice.into()));
        return;
    }
    let mut fds = [PollFd::new(shared.watch.fd(), PollFlags::POLLIN)];
    // A signal is as good a reason to look again as any.
    let _ = poll(&mut fds, PollTimeout::from(slice));
    shared.polling.store(false, Ordering::Relaxed);
}
