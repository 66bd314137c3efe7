//! Threads inside a user's program.
//!
//! Invariant: all signals are blocked in them from their first instruction on, so they take none that is meant for the program.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Begins a thread that blocks every signal.
pub fn begin<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A new thread inherits the mask, so that there is no moment at which a signal could be delivered to it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = builder.spawn(run);
    before.thread_set_mask()?;
    thread
}
