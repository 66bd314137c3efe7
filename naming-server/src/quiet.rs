//! Threads inside a user's program: the client of naming servers renews claims on one, and the library reports long waits.
//!
//! Invariant: all signals are blocked in them from their first instruction on, so they take none that is meant for the program.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::thread::Builder;

/// The stack of a thread, in bytes; the system's resolver needs most of it.
const STACK: usize = 512 << 10;

/// Starts a thread of this name in which all signals are blocked.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread inherits the signal mask of the thread that starts it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let started = Builder::new().name(name.into()).stack_size(STACK).spawn(work);
    before.thread_set_mask()?;
    started.map(drop)
}
