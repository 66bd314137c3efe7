//! How a calling thread waits: it spins on the busy lanes, then yields, then sleeps in short slices, so that the MPI
//! below makes progress too. Of several threads that sleep, one sleeps in poll(2) on the descriptors, and wakes the
//! others.
//!
//! Invariant: the lock is never held across a sleep, a yield or a call of `poke`.

use crate::crowd::{Gone, Others, Yields};
use crate::lock::this_thread;
use crate::memory::Layout;
use crate::round::unlocked_work;
use crate::shared::Shared;
use crate::state::Core;
use crate::state::waits::{About, Whom};
use crate::waits::Notices;
use engine::{Envelope, Outcome, Source, Tag};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use session::InterId;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// If nobody else wants the processor, a thread spins for this long without any progress.
const SPIN: Duration = Duration::from_micros(100);
/// Then it yields for this long: a large message takes about as long.
const YIELD: Duration = Duration::from_millis(4);
/// If others do that wait too, it does not spin, and yields for this long.
const YIELD_ONLY: Duration = Duration::from_micros(200);
/// If somebody computes there, it spins for this long, in which a process may answer that runs now, and does not yield.
const SPIN_ONLY: Duration = Duration::from_micros(10);
/// If other threads of this process wait too, it spins for this long, or for this long after another one had the processor.
const GIVE_UP: Duration = Duration::from_micros(20);
const COME_BACK: Duration = Duration::from_micros(60);
/// Turns of reading only the busy lanes between two rounds.
const PATIENCE: u32 = 20;
/// A wait that ends at once makes no round, but after 256 such waits and receives one makes one all the same: only a round connects
/// processes, hears of deaths, and lets the MPI below make progress.
pub(crate) const ROUND_AFTER: u32 = 256;
/// The same for tests and probes, which make rounds more often: the program has nothing better to do.
const ROUND_AFTER_LOOKS: u32 = 8;
/// The length of one sleep, in milliseconds: at first, after [`STAY_SHORT`], and after [`STAY_MIDDLE`].
const SHORT: u16 = 1;
const MIDDLE: u16 = 4;
const LONG: u16 = 10;
const STAY_SHORT: Duration = Duration::from_millis(50);
const STAY_MIDDLE: Duration = Duration::from_millis(500);
/// After this time, the processes that are waited for get connected, so that their death is noticed.
const WATCH_AFTER: Duration = crate::waits::PUBLISH_AFTER;

/// The times of one wait, as of its last round.
struct Clock {
    start: Instant,
    now: Instant,
    /// For whom it waits; asked when it first sleeps, and each time that [`WATCH_AFTER`] has passed.
    whom: Option<Whom>,
    /// Up to when it is counted.
    counted: Instant,
    /// When something last moved in this library.
    idle: Instant,
    /// When this thread last had the processor back from another one.
    back: Option<Instant>,
    /// When something last moved in the MPI below.
    below: Instant,
    /// When the processes that are waited for are looked at next.
    next_watch: Instant,
    notices: Notices,
    yields: Yields,
}

/// How a thread waits between two looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Spin,
    Yield,
    Sleep,
}

impl Clock {
    /// `first`: how it begins to wait.
    fn new(core: &Core, first: Phase) -> Clock {
        let now = Instant::now();
        let past = match first {
            Phase::Spin => Duration::ZERO,
            Phase::Yield => SPIN,
            Phase::Sleep => SPIN + YIELD,
        };
        let idle = now.checked_sub(past).unwrap_or(now);
        let (next_watch, notices) = (now + WATCH_AFTER, Notices::new(now, core.waits.notice));
        Clock {
            start: now,
            now,
            whom: None,
            counted: now,
            idle,
            back: None,
            below: now,
            next_watch,
            notices,
            yields: Yields::default(),
        }
    }

    /// Makes a round, and all that is due at this time. `moved` says that something has moved since the last round; so
    /// does the result.
    fn round(
        &mut self,
        shared: &Shared,
        core: &mut Core,
        moved: bool,
        about: &dyn Fn(&mut Core) -> Option<About>,
    ) -> bool {
        self.now = Instant::now();
        let moved = shared.round(core, self.now) || moved;
        if moved {
            self.idle = self.now;
        }
        if self.now >= self.next_watch {
            core.session.watch_awaited();
            core.act();
            if let Some(text) = self.notices.step(core, self.now, about) {
                base::log!(Notice, "{text}");
            }
            self.count(core, about);
            self.next_watch = self.now + WATCH_AFTER;
        }
        moved
    }

    /// Asks for whom the call waits, if that is not known: a wait that gets long is counted for these.
    fn ask_for_whom(&mut self, core: &mut Core, about: &dyn Fn(&mut Core) -> Option<About>) {
        self.whom.get_or_insert_with(|| whom(core, about));
    }

    /// Counts the wait up to now, and asks again for whom it is: some of those may have done their part.
    fn count(&mut self, core: &mut Core, about: &dyn Fn(&mut Core) -> Option<About>) {
        let left = whom(core, about);
        core.count_wait(self.whom.as_ref().unwrap_or(&left), self.now - self.counted);
        self.counted = self.now;
        self.notices.counted(core, self.now, left.clone());
        self.whom = Some(left);
    }

    /// Yields the processor; see [`Yields::give_way`].
    fn give_way(&mut self, asks: bool) -> Gone {
        let gone = self.yields.give_way(asks);
        if gone != Gone::No {
            self.now = Instant::now();
            self.back = Some(self.now);
        }
        gone
    }

    fn phase(&self, shared: &Shared, core: &Core) -> Phase {
        let is_back = self.back.is_some_and(|back| self.now < back + COME_BACK);
        let (spin, give_way) = match core.pace.crowd.others() {
            Others::None => (SPIN, YIELD),
            Others::Yield if shared.others_wait(core) => (if is_back { YIELD_ONLY } else { GIVE_UP }, YIELD_ONLY),
            Others::Yield => (Duration::ZERO, YIELD_ONLY),
            Others::Compute => (SPIN_ONLY, Duration::ZERO),
        };
        match self.now - self.idle {
            rest if rest < spin => Phase::Spin,
            rest if rest < spin + give_way => Phase::Yield,
            _ => Phase::Sleep,
        }
    }
}

fn whom(core: &mut Core, about: &dyn Fn(&mut Core) -> Option<About>) -> Whom {
    about(core).map_or(Whom::default(), |about| core.whom(&about))
}

/// See [`crate::Node::wait_until`], [`crate::Node::wait_about`] and [`crate::Node::sleep_until`].
pub(crate) fn wait_until<T>(
    shared: &Shared,
    first: Phase,
    poke: &mut dyn FnMut() -> bool,
    about: &dyn Fn(&mut Core) -> Option<About>,
    mut done: impl FnMut(&mut Core) -> Option<T>,
    deadline: Option<Instant>,
) -> Option<T> {
    let mut core = shared.lock();
    // The poke comes before the first look: what it finds would not be looked at afterwards.
    if core.is_round_due(ROUND_AFTER) {
        if shared.round(&mut core, Instant::now()) {
            shared.tell(&core);
        }
        drop(core);
        poke();
        core = shared.lock();
    }
    let out = done(&mut core);
    if out.is_some() {
        shared.wake_if_needed(&core);
        return out;
    }
    shared.enter(&core);
    let mut clock = Clock::new(&core, first);
    if shared.others_wait(&core) && core.pace.crowd.is_turn_over(this_thread(), clock.now) {
        drop(core);
        let since = clock.now;
        clock.give_way(false);
        core = shared.lock();
        core.pace.crowd.gave_turn(since, clock.now);
    }
    let mut phase = clock.phase(shared, &core);
    // Whether something has moved since the last round.
    let mut moved = false;
    let mut turn = 0u32;
    loop {
        let mut out = None;
        let (is_first, all) = (turn == 0 && phase == Phase::Yield, core.looks());
        let may = if phase == Phase::Yield { core.pace.crowd.looks(all, is_first) } else { all };
        let (mut looks, mut looked) = (may, 0);
        while looked < looks {
            looked += 1;
            let mut found = core.read_busy();
            if core.has_unlocked_work() {
                (core, _) = unlocked_work(shared, core);
                found = true;
            }
            if found {
                moved = true;
                // More may be on its way.
                looks = all;
                out = done(&mut core);
                if out.is_some() {
                    break;
                }
            } else {
                core.pause_between_looks();
            }
        }
        if is_first && all > 0 {
            core.pace.crowd.has_looked(moved, may < all);
        }
        turn = turn.wrapping_add(1);
        let whole = out.is_none() && (all == 0 || phase == Phase::Sleep || turn.is_multiple_of(PATIENCE));
        if whole {
            moved = clock.round(shared, &mut core, moved, about);
            if core.has_unlocked_work() {
                (core, _) = unlocked_work(shared, core);
                moved = true;
            }
        }
        // Another thread may have received what this one waits for.
        let out = out.or_else(|| done(&mut core));
        let over = out.is_some() || whole && deadline.is_some_and(|d| clock.now >= d);
        if moved || over {
            shared.tell(&core);
        }
        if over {
            clock.notices.end(&mut core);
            match clock.whom {
                // It did not sleep and was over soon: it is not asked for whom.
                None => core.waits.waited.all += clock.now - clock.start,
                // The last round may have been before the last sleep.
                Some(whom) => core.count_wait(&whom, clock.counted.elapsed()),
            }
            core.pace.crowd.note(&clock.yields);
            shared.leave(&core);
            shared.wake_if_needed(&core);
            return out;
        }
        if whole {
            moved = false;
            phase = clock.phase(shared, &core);
        }
        if phase == Phase::Sleep {
            clock.ask_for_whom(&mut core, about);
            core.forget_busy();
        }
        let seen = shared.found(&core);
        let sleeps = phase == Phase::Sleep && core.begin_sleep();
        // Only one thread polls the descriptors. It may read what another one waits for, and nothing would wake that
        // one if it polled too; so the others wait for `Shared::tell`.
        let polls = sleeps && !shared.polling.swap(true, Ordering::Relaxed);
        let asks = core.pace.crowd.asks();
        let pokes = whole && core.pace.poke_is_due(clock.start, clock.now);
        drop(core);
        let (mut poked, mut gone) = (None, Gone::No);
        match phase {
            Phase::Sleep => {
                let quiet = clock.now.saturating_duration_since(clock.below);
                if sleeps {
                    sleep(shared, polls, seen, quiet, deadline.map(|d| d.duration_since(clock.now)));
                }
                if poke() {
                    clock.below = Instant::now();
                }
            }
            Phase::Yield | Phase::Spin if pokes => {
                let (from, moved) = (Instant::now(), poke());
                poked = Some((from, Instant::now(), moved));
            }
            Phase::Yield => gone = clock.give_way(asks),
            Phase::Spin => {}
        }
        core = shared.lock();
        if let Some((from, to, moved)) = poked {
            core.pace.note_poke(from, to, moved);
        }
        if gone == Gone::Slice {
            core.pace.crowd.lost_slice(clock.now);
        }
        if gone == Gone::Slice || gone == Gone::Awhile && shared.others_wait(&core) {
            if moved {
                clock.idle = clock.now;
            }
            phase = clock.phase(shared, &core);
        }
        if sleeps {
            core.end_sleep();
            core.pace.crowd.slept(clock.now);
        }
    }
}

/// See [`crate::Node::recv_now`].
#[inline(always)]
pub(crate) fn recv_now(
    shared: &Shared,
    is_there: impl FnOnce(&Core) -> bool,
    (inter, source, tag): (InterId, Source, Tag),
    data: impl Fn() -> Layout,
    got: impl FnOnce(Envelope),
) -> Result<(), Option<Outcome>> {
    let mut core = shared.lock();
    // What is due is done by a wait.
    if !is_there(&core) || core.is_round_due(ROUND_AFTER) || core.has_unlocked_work() {
        return Err(None);
    }
    if let Some(envelope) = core.take_waiting(inter, source, tag, &data) {
        got(envelope);
        shared.count_call(&core);
        if !core.session.is_settled() {
            settle(shared, &mut core);
        }
        core.unlock();
        return Ok(());
    }
    let outcome = look_for(shared, &mut core, (inter, source, tag), data());
    core.unlock();
    match outcome {
        Some(Outcome::Received(envelope)) => {
            got(envelope);
            Ok(())
        }
        outcome => Err(outcome),
    }
}

#[cold]
fn settle(shared: &Shared, core: &mut Core) {
    core.settle();
    shared.wake_if_needed(core);
}

/// A receive whose message may come soon. Apart, so that one whose message waits needs few registers.
#[inline(never)]
fn look_for(
    shared: &Shared,
    core: &mut Core,
    (inter, source, tag): (InterId, Source, Tag),
    data: Layout,
) -> Option<Outcome> {
    let (outcome, found) = core.recv_now(inter, source, tag, data);
    shared.count_call(core);
    if found {
        shared.tell(core);
    }
    // Where a plain message is all that came, no time limit has begun.
    if outcome.is_none() || std::mem::take(&mut core.pace.stirred) || core.is_dirty() {
        shared.wake_if_needed(core);
    }
    outcome
}

/// See [`crate::Node::look`]. A program that polls by itself calls this again and again, so only some of the calls make
/// a round. These poke the MPI below, too.
pub(crate) fn look<T>(
    shared: &Shared,
    poke: &mut dyn FnMut() -> bool,
    done: impl FnOnce(&mut Core) -> Option<T>,
) -> Option<T> {
    let mut core = shared.lock();
    shared.count_call(&core);
    let whole = core.looks() == 0 || core.is_round_due(ROUND_AFTER_LOOKS);
    let moved = if whole { shared.round(&mut core, Instant::now()) } else { core.read_busy() };
    let (mut core, worked) = unlocked_work(shared, core);
    if moved || worked {
        shared.tell(&core);
    }
    let out = done(&mut core);
    shared.wake_if_needed(&core);
    drop(core);
    if whole {
        poke();
    }
    out
}

/// Sleeps for one slice, which depends on how long the MPI below has been quiet. `polls`: in poll(2) on the
/// descriptors. Otherwise until [`Shared::tell`] is called.
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
    // An error, such as a signal, only ends the sleep.
    let _ = poll(&mut fds, PollTimeout::from(slice));
    shared.polling.store(false, Ordering::Relaxed);
}
