//! `mpi-connect launch-rank`: stands before a rank's program, and becomes it.
//!
//! The rank's output goes to `mpi-connect launch` by pipes of its own, past the launcher, and so does its number as a process: each
//! launcher forwards output and signals in ways of its own. Where the pipes are not, on another host, all stays as the launcher made it.
//!
//! Invariant: no process is between the launcher and the program, which LAM and debuggers would not take.

use super::{cores, marked};
use crate::launcher::{self, FindError};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Args {
    /// Where the pipes are
    folder: PathBuf,
    /// A list, or anything else for all of them. No option: LAM's launcher would take it for its own
    cores: String,
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

#[derive(clap::Args)]
pub struct JobArgs {
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

/// Stands before the command of a job, and becomes it without the signals that the launch has blocked for itself. Returns only with an
/// error, as [`rank`] does.
pub fn job(args: &JobArgs) -> (u8, String) {
    let _ = SigSet::all().thread_unblock();
    become_command(&args.command)
}

/// The pipe that tells which process a rank is.
pub const RANKS: &str = "ranks";

/// Returns only with an error, and the exit status for it.
pub fn rank(args: &Args) -> (u8, String) {
    // Under Slurm without a plug-in of the MPI's, the step knows.
    let told = base::log::launched_rank().or_else(|| std::env::var("SLURM_PROCID").ok()?.parse().ok());
    // Alone it needs no number; of several each would take itself for the first.
    if let Some(number) = told.or_else(|| (!args.folder.join("1.out").exists()).then_some(0)) {
        redirect(&args.folder, number);
    }
    if let Ok(null) = File::open("/dev/null") {
        // Hydra gives all ranks but the first a pipe that never ends.
        let _ = dup2_stdin(null);
    }
    if let Some(cores) = cores::list(&args.cores) {
        // Without them the rank runs anywhere, as it would by itself.
        let _ = cores::stay_on(&cores);
    }
    become_command(&args.command)
}

/// Returns only with an error, and the exit status for it.
pub fn become_command(command: &[OsString]) -> (u8, String) {
    let Some((word, words)) = command.split_first() else { return (2, "no program".into()) };
    match launcher::find(word) {
        Ok(program) => {
            let e = Command::new(program).arg0(word).args(words).exec();
            (126, format!("starting {}: {e}", word.display()))
        }
        Err(e @ FindError::NotExecutable(_)) => (126, e.to_string()),
        Err(e) => (127, e.to_string()),
    }
}

fn redirect(folder: &Path, number: u32) {
    let [Ok(out), Ok(err), Ok(mut ranks)] =
        [format!("{number}.out"), format!("{number}.err"), RANKS.into()].map(|name| pipe(&folder.join(name)))
    else {
        return;
    };
    let pid = Pid::this();
    // A single write of less than a page is not mixed with others.
    let line = format!("{number} {pid} {}\n", marked::began(pid).unwrap_or(0));
    if ranks.write_all(line.as_bytes()).is_ok() {
        let _ = io::stdout().flush();
        let _ = dup2_stdout(out).and_then(|()| dup2_stderr(err));
    }
}

/// Opened at once, or not at all: nobody may read it any more.
fn pipe(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_WRONLY))?;
    Ok(file)
}
