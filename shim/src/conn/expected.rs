//! Notices about a collective call of ours that only some processes of the job have made.
//!
//! While a communicator is made, the processes that wait are inside the MPI below, so a thread writes the notices. Invariants: the thread
//! calls no MPI, and ends by itself when the call goes on.

use crate::conn::collective::rank_and_size;
use crate::forward::Handle;
use base::log::{Level, Patience, level};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A guard that lives while the other processes of a communicator are waited for.
pub struct Expected(Option<Arc<State>>);

#[derive(Default)]
struct State {
    is_over: Mutex<bool>,
    over: Condvar,
}

/// Only ranks below this number write notices. If one of them is the rank that is late, the other one writes them.
const SPEAKERS: u32 = 2;

impl Expected {
    pub fn begin(call: &'static str, comm: Handle) -> Expected {
        match rank_and_size(comm) {
            Ok((rank, size)) if size > 1 && rank < SPEAKERS && level() >= Level::Notice => {}
            _ => return Expected(None),
        }
        let state = Arc::new(State::default());
        let of_thread = state.clone();
        // Without the thread there are no notices, and that is no failure.
        let started = naming::quiet::spawn("mpi_connect tell", move || of_thread.tell(call));
        Expected(started.is_ok().then_some(state))
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            *state.lock() = true;
            state.over.notify_one();
        }
    }
}

/// The notice.
pub fn say(call: &str, seconds: u64) {
    base::log!(
        Notice,
        "{call} waits for {seconds} s for other ranks of this job: all ranks of its communicator have to call it"
    );
}

impl State {
    fn tell(&self, call: &str) {
        let mut patience = Patience::new(Instant::now());
        let mut is_over = self.lock();
        while !*is_over {
            if let Some(seconds) = patience.is_over(Instant::now()) {
                // The lock is released first: a write to stderr may block, and the call has to go on all the same.
                drop(is_over);
                say(call, seconds);
                is_over = self.lock();
                continue;
            }
            let waited = self.over.wait_timeout(is_over, Duration::from_secs(1));
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
