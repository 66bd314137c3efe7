//! What a command writes on standard output.
//!
//! Invariant: that it cannot be written is told once, at the end, and fails the command; that nobody reads any more does not.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

static TROUBLE: OnceLock<io::Error> = OnceLock::new();

/// Writes this text. Returns whether it is worth while to write more.
pub fn write(text: &str) -> bool {
    let mut out = io::stdout().lock();
    wrote(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The same of what was written to standard output in another way.
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

/// The exit code of a command that ends with this one otherwise.
pub fn judge(code: ExitCode) -> ExitCode {
    let Some(e) = TROUBLE.get() else { return code };
    eprintln!("mpi-connect: the output cannot be written: {e}");
    ExitCode::FAILURE
}
