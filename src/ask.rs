//! Runs a program for what it says about itself. For `launcher` and `doctor`.
//!
//! Invariant: a program that hangs is ended after a while, and nothing is preloaded into it unless asked for.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);

/// What the program writes to stdout and stderr together; `None` if it cannot be run or does not end.
pub fn ask(program: &Path, args: &[&str], preload: Option<&OsStr>) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match preload {
        Some(lib) => command.env("LD_PRELOAD", lib),
        None => command.env_remove("LD_PRELOAD"),
    };
    let mut child = command.spawn().ok()?;
    let begun = Instant::now();
    // What a version text needs fits into a pipe, so reading can wait for the end.
    while child.try_wait().ok()?.is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        sleep(Duration::from_millis(5));
    }
    let mut bytes = Vec::new();
    child.stdout.take()?.take(65536).read_to_end(&mut bytes).ok()?;
    child.stderr.take()?.take(65536).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The line that names the version, or the first.
pub fn version_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let first = lines.next().unwrap_or("says nothing of its version");
    // Hydra has a heading above.
    match lines.next() {
        Some(second) if first.ends_with(':') => {
            let words: Vec<&str> = second.split_whitespace().collect();
            format!("{} {}", first.trim_end_matches(':'), words.join(" "))
        }
        _ => first.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}
