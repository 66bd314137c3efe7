//! Runs a program for what it says about itself. For `launcher`, `program`, `mpis` and `doctor`.
//!
//! Invariant: a program that hangs is ended after a while, what it says is bounded, and nothing is preloaded into it
//! unless asked for.

use std::io::{Read, copy, sink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);
/// How many bytes of each pipe are kept: `ldconfig -p` has some 80 for each library of the machine.
const KEPT: u64 = 4 << 20;

/// What the dynamic linker is told by the environment.
#[derive(Clone, Copy)]
pub enum Linking<'a> {
    /// All but what to preload.
    Bare,
    Preload(&'a Path),
    /// Nothing, as in a program that gains rights.
    Guarded,
}

/// What the program writes to stdout and stderr together; `None` if it cannot be run or does not end.
pub fn ask(program: &Path, args: &[&str], linking: Linking) -> Option<String> {
    ask_within(PATIENCE, program, args, linking)
}

fn ask_within(patience: Duration, program: &Path, args: &[&str], linking: Linking) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("LD_PRELOAD");
    match linking {
        Linking::Bare => {}
        Linking::Preload(library) => drop(command.env("LD_PRELOAD", library)),
        Linking::Guarded => drop(command.env_remove("LD_LIBRARY_PATH")),
    }
    let until = Instant::now() + patience;
    let mut child = command.spawn().ok()?;
    let pipes = [child.stdout.take().map(keep), child.stderr.take().map(keep)];
    if !ends(&mut child, until) {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    let mut bytes = Vec::new();
    for pipe in pipes.into_iter().flatten() {
        // What the program has started may hold the pipe open for ever.
        bytes.extend(pipe.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a pipe to its end, so that its writer is never held up.
fn keep(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    spawn(move || {
        let mut bytes = Vec::new();
        let whole = pipe.by_ref().take(KEPT).read_to_end(&mut bytes).and_then(|_| copy(&mut pipe, &mut sink()));
        if whole.is_ok() {
            // Nobody may wait any more.
            let _ = give.send(bytes);
        }
    });
    take
}

fn ends(child: &mut Child, until: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() < until => sleep(Duration::from_millis(5)),
            _ => return false,
        }
    }
}

/// The line that names the version, or the first that has words.
pub fn version_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|l| l.contains(char::is_alphanumeric));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(patience: Duration, script: &str) -> Option<String> {
        ask_within(patience, Path::new("/bin/sh"), &["-c", script], Linking::Bare)
    }

    /// More than a pipe holds, on both.
    #[test]
    fn long_texts_are_read() {
        let said = shell(PATIENCE, "seq 100000; seq 100000 >&2").unwrap();
        assert_eq!(said.lines().count(), 200_000);
        let said = shell(PATIENCE, "head -c 5000000 /dev/zero").unwrap();
        assert_eq!(said.len() as u64, KEPT, "it ends, and no more is kept");
    }

    #[test]
    fn patience_ends() {
        let short = Duration::from_millis(200);
        let begun = Instant::now();
        assert_eq!(shell(short, "exec sleep 20"), None);
        assert_eq!(shell(short, "exec yes"), None);
        assert_eq!(shell(short, "sleep 6 & echo ended"), None, "another holds the pipe");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }

    #[test]
    fn versions_are_found() {
        assert_eq!(version_line("HYDRA build details:\n    Version:       4.0\n"), "HYDRA build details Version: 4.0");
        assert_eq!(version_line("-----\n\nNot as root.\n"), "Not as root.");
    }
}
