//! The background thread: it makes progress while the program computes, and sleeps in epoll_wait(2).
//!
//! Invariants: it blocks every signal, never calls MPI, and makes no rounds while calling threads make them. They may be kept from that by
//! others that have the processor, or by the MPI below: then it makes one after each rest.

use crate::lock::barrier;
use crate::round::unlocked_work;
use crate::shared::Shared;
use crate::signal;
use crate::state::Core;
use session::TICK;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transports::registry::Held;

/// How long the thread rests at first while calling threads make progress. If one of them waits for long, each rest is
/// twice as long as the one before.
const NAP: Duration = Duration::from_millis(2);
/// In how many calls of a rest callers make progress for the thread to leave it all to them. To take the lock from one that calls
/// that often costs it more than the thread's rounds are worth.
const OFTEN: u64 = 32;
/// The longest such rest.
const LONG_NAP: Duration = Duration::from_millis(200);
/// After this time the lock may be biased, where MPI_Init has not prepared that. The kernel takes some 15 ms for it, and all fences wait
/// meanwhile: before, the first job that is joined would wait too.
const SETTLED: Duration = Duration::from_millis(50);
/// How long it sleeps, in milliseconds, while no time limit runs.
const LONG: u16 = 1000;

/// The running thread; dropping it stops it.
pub(crate) struct Background {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Background> {
        let for_thread = shared.clone();
        let (says, hears) = mpsc::channel();
        let thread = begin("mpi_connect", move || run(&for_thread, says))?;
        // Lanes that are made before others could see that this process lives are never as fast as later ones.
        let _ = hears.recv();
        Ok(Background { shared, thread: Some(thread) })
    }
}

/// Begins a thread that blocks every signal.
pub(crate) fn begin(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    base::thread::begin(std::thread::Builder::new().name(name.into()), run)
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

/// `begun` is dropped when others can see that this process lives, if they can at all.
fn run(shared: &Shared, begun: mpsc::Sender<()>) {
    let mut seen = 0;
    let mut busy = false;
    let mut nap = NAP;
    let _ = shared.thread.set(std::thread::current());
    shared.core.never_for_this_thread();
    let mut held = None;
    hold(&shared.lock(), &mut held);
    drop(begun);
    // Where MPI_Init could not ask the kernel, that takes milliseconds, which the first lanes need not wait for under the lock.
    base::fence::OF_PROCESSES.register();
    let (begun, mut is_prepared) = (Instant::now(), barrier::is_ready());
    let mut chores_done = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        if signal::has_come() {
            shared.with(signal::obey);
        }
        if let Some((every, chore)) = shared.chore.get()
            && chores_done.elapsed() >= *every
        {
            chore();
            chores_done = Instant::now();
        }
        let (calls, rounds) = (shared.calls.load(Ordering::Relaxed), shared.rounds.load(Ordering::Relaxed));
        if calls != seen || shared.waiting.load(Ordering::Relaxed) > 0 {
            if !is_prepared && begun.elapsed() >= SETTLED {
                barrier::prepare();
                is_prepared = true;
            }
            nap = if calls == seen { (2 * nap).min(LONG_NAP) } else { NAP };
            seen = calls;
            // A longer rest is ended by the thread that ends its wait.
            if nap == NAP || shared.nap_while_waiting() {
                std::thread::park_timeout(nap);
            }
            shared.naps_long.store(false, Ordering::Relaxed);
            if shared.calls.load(Ordering::Relaxed).wrapping_sub(seen) >= OFTEN {
                continue;
            }
            // One is due where callers made none. A caller that only tests now and then leaves most of the work to this thread.
            let mut is_due = shared.rounds.load(Ordering::Relaxed) == rounds;
            while (std::mem::take(&mut is_due) || may_go_on(shared)) && round(shared, &mut held) {}
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
                if sleep > 0 && !core.begin_sleep() {
                    sleep = 0;
                }
                shared.sleeps_long.store(sleep > TICK.as_millis() as u16, Ordering::Relaxed);
                sleep
            };
            shared.watch.sleep(sleep);
            shared.sleeps_long.store(false, Ordering::Relaxed);
            if sleep > 0 {
                shared.lock().end_sleep();
            }
            // A caller began to wait meanwhile, and was woken too: it makes the round.
            if shared.waiting.load(Ordering::Relaxed) > 0 || shared.calls.load(Ordering::Relaxed) != seen {
                continue;
            }
        }
        busy = round(shared, &mut held);
    }
}

/// Says in the doorbells that this process lives, until this thread ends. They may have been closed, and others opened.
fn hold(core: &Core, held: &mut Option<Held>) {
    match &core.polled.polling {
        None => *held = None,
        Some(polling) => {
            if let Some(new) = polling.doorbells.hold() {
                *held = Some(new);
            }
        }
    }
}

/// Whether no calling thread waits, and the thread is not to end.
fn may_go_on(shared: &Shared) -> bool {
    shared.waiting.load(Ordering::Relaxed) == 0 && !shared.stop.load(Ordering::Relaxed)
}

/// Makes a round. False: it has found nothing.
fn round(shared: &Shared, held: &mut Option<Held>) -> bool {
    let mut core = shared.lock();
    hold(&core, held);
    let found = core.round(Instant::now());
    let (core, worked) = unlocked_work(shared, core);
    let found = found || worked;
    if found {
        shared.tell(&core);
    }
    found
}
