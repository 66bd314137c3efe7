//! Progress while the program computes: one thread, asleep in epoll.
//!
//! Invariants: it blocks every signal, never calls MPI, and keeps out of the way of callers who make progress
//! themselves.

use crate::pull::pull_some;
use crate::shared::Shared;
use nix::sys::signal::{SigSet, SigmaskHow};
use session::TICK;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// While callers are at it; while one of them waits for long, so long in the end.
const NAP: Duration = Duration::from_millis(2);
const LONG_NAP: Duration = Duration::from_millis(200);
/// While nothing depends on time.
const LONG: u16 = 1000;

/// The running thread; dropping it stops it.
pub struct Background {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub fn start(shared: Arc<Shared>) -> io::Result<Background> {
        let for_thread = shared.clone();
        // A new thread inherits the mask, so that there is no moment at which a signal could be delivered to it.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let thread = std::thread::Builder::new().name("mpi_connect".into()).spawn(move || run(&for_thread));
        before.thread_set_mask()?;
        Ok(Background { shared, thread: Some(thread?) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.watch.wake();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends by itself; a panic in it has been reported.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut seen = 0;
    let mut busy = false;
    let mut nap = NAP;
    let _ = shared.thread.set(std::thread::current());
    let mut chores_done = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        if let Some((every, chore)) = shared.chore.get()
            && chores_done.elapsed() >= *every
        {
            chore();
            chores_done = Instant::now();
        }
        let rounds = shared.rounds.load(Ordering::Relaxed);
        if rounds != seen || shared.waiting.load(Ordering::Relaxed) > 0 {
            nap = if rounds == seen { (2 * nap).min(LONG_NAP) } else { NAP };
            seen = rounds;
            // Whoever leaves ends a longer nap.
            if nap == NAP || shared.nap_while_waiting() {
                std::thread::park_timeout(nap);
            }
            shared.naps_long.store(false, Ordering::Relaxed);
            // One who only looks now and then leaves most of the work.
            while may_go_on(shared) && round(shared) {}
            continue;
        }
        if !busy {
            let sleep = {
                let mut core = shared.lock();
                let mut sleep = match (core.is_dirty(), core.is_timed()) {
                    (true, _) => 0,
                    (_, true) => TICK.as_millis() as u16,
                    _ => core.session.lingers().map_or(LONG, |t| t.as_millis() as u16),
                };
                if sleep > 0 && !core.lie_down() {
                    sleep = 0;
                }
                shared.sleeps_long.store(sleep > TICK.as_millis() as u16, Ordering::Relaxed);
                sleep
            };
            shared.watch.sleep(sleep);
            shared.sleeps_long.store(false, Ordering::Relaxed);
            if sleep > 0 {
                shared.lock().get_up();
            }
            // Somebody came while we slept, and was woken too.
            if shared.waiting.load(Ordering::Relaxed) > 0 || shared.rounds.load(Ordering::Relaxed) != seen {
                continue;
            }
        }
        busy = round(shared);
    }
}

fn may_go_on(shared: &Shared) -> bool {
    shared.waiting.load(Ordering::Relaxed) == 0 && !shared.stop.load(Ordering::Relaxed)
}

/// A round; whether it has found something.
fn round(shared: &Shared) -> bool {
    let mut core = shared.lock();
    let found = core.round(Instant::now());
    let (core, pulled) = pull_some(shared, core);
    let found = found || pulled;
    if found {
        shared.tell(&core);
    }
    found
}
