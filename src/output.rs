//! What a command writes on standard output, and tells on standard error.
//!
//! Invariant: nobody need read what is told. That the output cannot be written is told once, at the end unless somebody does it
//! before, and fails the command; that nobody reads any more does not.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static TROUBLE: OnceLock<io::Error> = OnceLock::new();
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Writes this text. Returns whether it is worth while to write more.
pub fn write(text: &str) -> bool {
    let mut out = io::stdout().lock();
    wrote(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The same of what was written in another way.
pub fn wrote(done: io::Result<()>) -> bool {
    match done {
        Ok(()) => true,
        // Whoever reads no more has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => false,
        Err(e) => {
            TROUBLE.get_or_init(|| e);
            false
        }
    }
}

/// Tells this on standard error, in a line of its own.
pub fn tell(text: impl Display) {
    // It may be full, or nobody may read it: neither is a reason to stop, and there is no other place to tell it.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The same, as what the command itself says.
pub fn say(text: impl Display) {
    tell(format_args!("mpi-connect: {text}"));
}

/// Whether some of the output could not be written.
pub fn is_lost() -> bool {
    TROUBLE.get().is_some()
}

/// What is to be told of it, to the first who asks.
pub fn untold() -> Option<String> {
    let e = TROUBLE.get()?;
    let is_told = IS_TOLD.swap(true, Ordering::Relaxed);
    (!is_told).then(|| format!("the output cannot be written: {e}"))
}

/// The exit code of a command that ends with this one otherwise: one that has failed keeps its own.
pub fn judge(code: ExitCode) -> ExitCode {
    if let Some(text) = untold() {
        say(text);
    }
    if is_lost() && code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}
