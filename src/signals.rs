//! The signals that end a program, for commands that have something to put back before: a file, a terminal, jobs.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::sync::{Arc, OnceLock};

pub const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// The first such signal that has come.
pub type Over = Arc<OnceLock<Signal>>;

/// Tells when such a signal comes, which ends nothing by itself from now on: here, and in threads that are begun later.
pub fn tell() -> io::Result<Over> {
    let signals: SigSet = ENDING.into_iter().filter(|signal| !ignores(*signal)).collect();
    signals.thread_block()?;
    let over = Over::default();
    let told = over.clone();
    std::thread::Builder::new().spawn(move || {
        if let Ok(signal) = signals.wait() {
            let _ = told.set(signal);
        }
    })?;
    Ok(over)
}

/// What nohup has had ignored stays so; a signal that is blocked would come all the same.
pub fn ignores(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signal == Signal::SIGHUP && mask >> (signal as i32 - 1) & 1 == 1
}

/// The exit status of what this signal has ended, as a shell has it.
pub fn status(signal: Signal) -> u8 {
    128 + signal as i32 as u8
}
