//! What a server in the foreground tells on stderr, and its keys, which SIGHUP has it read again.
//!
//! Invariant: who does not read what is told stops nobody.

use crate::key::told as told_keys;
use crate::notify::{notify, reloading};
use crate::shown::printable;
use crate::time::utc;
use nix::sys::signal::SigSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;
use trust::Trust;

/// Lines that wait until somebody reads them.
const MAX_LINES: usize = 1024;

/// From now on, SIGHUP has the keys read again. What is wrong with them is told, and those before stay.
pub fn read_keys_again_on(hangup: SigSet, trust: Arc<Trust>) -> io::Result<()> {
    let wait = move || {
        while hangup.wait().is_ok() {
            reloading();
            let said = match trust.reload() {
                Ok(()) => format!("the keys were read again: serves who has the key {}", told_keys(&trust.ring())),
                Err(e) => format!("the keys stay as they are: {e}"),
            };
            // Whoever started it may not care to read.
            let _ = writeln!(io::stderr(), "{} {}", utc(naming::now()), printable(&said));
            notify("READY=1");
        }
    };
    thread::Builder::new().name("keys".into()).spawn(wait).map(drop)
}

/// The way to the thread that writes to stderr. Dropping it ends the thread, once all is written.
pub struct Lines {
    lines: SyncSender<Line>,
    /// Those that did not fit and were not told of yet.
    left_out: Arc<AtomicU64>,
}

/// How many were left out before it, and what it says.
type Line = (u64, String);

impl Lines {
    pub fn start() -> io::Result<(Lines, Receiver<()>)> {
        let (lines, read) = sync_channel(MAX_LINES);
        let (ending, ended) = channel();
        let left_out = Arc::new(AtomicU64::new(0));
        let count = left_out.clone();
        thread::Builder::new().name("told".into()).spawn(move || {
            write(&read, &count);
            drop(ending);
        })?;
        Ok((Lines { lines, left_out }, ended))
    }

    /// Never waits.
    pub fn tell(&self, text: String) {
        let before = self.left_out.swap(0, Ordering::Relaxed);
        if self.lines.try_send((before, text)).is_err() {
            self.left_out.fetch_add(before + 1, Ordering::Relaxed);
        }
    }
}

fn write(lines: &Receiver<Line>, left_out: &AtomicU64) {
    // Whoever started it may not care to read.
    let say = |text: &str| drop(writeln!(io::stderr(), "{text}"));
    let leave_out = |count| {
        if count > 0 {
            say(&format!("{} {count} lines left out", utc(naming::now())));
        }
    };
    loop {
        let next = lines.try_recv();
        if next.is_err() {
            leave_out(left_out.swap(0, Ordering::Relaxed));
        }
        let line = match next {
            Err(TryRecvError::Empty) => lines.recv().ok(),
            other => other.ok(),
        };
        let Some((before, text)) = line else { return };
        leave_out(before);
        say(&text);
    }
}
