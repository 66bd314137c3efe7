//! Threads inside a program that is not ours: the naming server's client renews names on one, the library tells of waits.
//!
//! Invariant: they take no signal that is meant for the program, from their first instruction on.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::thread::Builder;

/// Name look-ups by the system's resolver run on it too.
const STACK: usize = 512 << 10;

pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread begins with the mask of the one that starts it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let started = Builder::new().name(name.into()).stack_size(STACK).spawn(work);
    before.thread_set_mask()?;
    started.map(drop)
}
