//! The signals that end a program, for commands that have something to put back before: a file, a terminal.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sets `over` when such a signal comes, which ends nothing by itself from now on: here, and in threads that are begun later.
pub fn tell(over: Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| signals.add(signal));
    signals.thread_block()?;
    std::thread::Builder::new().spawn(move || {
        let _ = signals.wait();
        over.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}
