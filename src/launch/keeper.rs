//! `mpi-connect launch-keeper`: outlives `mpi-connect launch` by a moment. If that was killed, no job is left behind.
//!
//! Invariant: it does something only when the other side's end of its standard input is closed without a word.

use super::marked;
use nix::sys::signal::Signal;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long jobs may take to end by themselves.
const PATIENCE: Duration = Duration::from_secs(3);
const DONE: &[u8] = b"done";

#[derive(clap::Args)]
pub struct Args {
    /// The launch
    id: String,
    /// Its folder
    folder: PathBuf,
}

/// Waits for the end of the launch that has started it.
pub fn keep(args: &Args) {
    let mut said = Vec::new();
    let _ = io::stdin().read_to_end(&mut said);
    if said == DONE {
        return;
    }
    // Launchers have things of their own to remove.
    marked::signal(&args.id, "", Signal::SIGTERM);
    let until = Instant::now() + PATIENCE;
    while !marked::processes(&args.id, "").is_empty() && Instant::now() < until {
        sleep(Duration::from_millis(20));
    }
    marked::kill_all(&args.id, "");
    let _ = std::fs::remove_dir_all(&args.folder);
}

/// The side of the launch.
pub struct Keeper(Child);

impl Keeper {
    pub fn start(command: &str, id: &str, folder: &Path) -> io::Result<Keeper> {
        let mut keeper = Command::new(command);
        keeper.arg("launch-keeper").arg(id).arg(folder).current_dir("/");
        // Out of reach of the terminal, and of whoever reads the output to its end.
        keeper.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Keeper(keeper.spawn()?))
    }

    /// All jobs are over.
    pub fn done(mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(DONE);
        }
        let _ = self.0.wait();
    }
}
