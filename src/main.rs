//! The command `mpi-connect`: starts jobs with the library in place, keeps and shows names, finds what is wrong.
//!
//! One file per subcommand; what `run` and `doctor` share lies beside them. Only this file decides exit codes of
//! errors: 2 for a wrong command line, 126 and 127 as a shell has them, 3 where only some processes have done what
//! `ctl` was told, 1 for the rest.
#![forbid(unsafe_code)]
// These macros panic where nothing can be written: `output` has what does not.
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

mod arguments;
mod ask;
mod checkpoint;
mod cp;
mod ctl;
mod doctor;
mod elf;
mod elsewhere;
mod examples;
mod key;
mod launch;
mod launcher;
mod library;
mod lines;
mod metrics;
mod mpis;
mod names;
mod notify;
mod output;
mod pages;
mod program;
mod relay;
mod run;
mod select;
mod serve;
mod shown;
mod signals;
mod time;
mod watch;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use std::fmt::Display;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "mpi-connect", version, about = "Joins MPI jobs that were started apart", after_help = examples::ALL)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Start a job with the library in place: mpi-connect run -- mpirun -n 4 ./program
    #[command(after_help = examples::RUN)]
    Run(run::Args),
    /// Start all jobs of a manifest, and watch over them: mpi-connect launch coupled.toml
    #[command(after_help = examples::LAUNCH)]
    Launch(launch::Args),
    /// What stands before a job's command in a launch
    #[command(hide = true)]
    LaunchJob(launch::JobArgs),
    /// What stands before a rank's program in a launch
    #[command(hide = true)]
    LaunchRank(launch::RankArgs),
    /// What stands before the programs of a job that has several
    #[command(hide = true)]
    LaunchChoice(launch::ChoiceArgs),
    /// What starts a job for MPI_Comm_spawn
    #[command(hide = true)]
    LaunchSpawned(launch::SpawnedArgs),
    /// What outlives a launch that is killed
    #[command(hide = true)]
    LaunchKeeper(launch::KeeperArgs),
    /// Show the names that jobs have registered or published
    #[command(after_help = examples::NAMES)]
    Names(names::Args),
    /// Look at a running job's connections to other jobs, and change them
    #[command(after_help = examples::CTL)]
    Ctl(ctl::Args),
    /// Watch a running job's connections: what carries them, how fast, and who waits for whom
    #[command(after_help = examples::TOP)]
    Top(ctl::top::Args),
    /// Copy a file from the folders that a running job has opened to others, or into one: mpi-connect cp air:out.nc .
    #[command(after_help = examples::CP)]
    Cp(cp::Args),
    /// List, verify and remove checkpoints of coupled jobs
    #[command(after_help = examples::CHECKPOINT)]
    Checkpoint(checkpoint::Args),
    /// Keep names for jobs that reach this server: MPI_CONNECT_NAMING=tcp://HOST:PORT
    #[command(after_help = examples::SERVE)]
    Serve(serve::Args),
    /// Join the connections of jobs that cannot reach each other: MPI_CONNECT_RELAY=HOST:PORT
    #[command(after_help = examples::RELAY)]
    Relay(relay::Args),
    /// Make, exchange and show the key, which whoever joins has to have
    #[command(after_help = examples::KEY)]
    Key(key::Args),
    /// Look for what is wrong, and say how to mend it
    #[command(after_help = examples::DOCTOR)]
    Doctor(doctor::Args),
    /// Write the manual pages and the shells' completions below a folder
    #[command(hide = true)]
    Pages(pages::Args),
}

fn main() -> ExitCode {
    let command = Command::try_parse().unwrap_or_else(|mut e| {
        tell_commands(&mut e, std::env::args().skip(1));
        ctl::refuse(std::env::args().skip(1), &e);
        e.exit()
    });
    output::judge(done(command.what))
}

/// Of a command that does not exist, names those that do.
fn tell_commands(e: &mut clap::Error, args: impl Iterator<Item = String>) {
    // Behind other words, it is an argument too many.
    let is_word = match (e.kind(), e.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => !word.starts_with('-'),
        (kind, _) => kind == ErrorKind::InvalidSubcommand,
    };
    let mut command = Command::command();
    for arg in args {
        command = command.find_subcommand(&arg).cloned().unwrap_or(command);
    }
    if !is_word || !command.has_subcommands() {
        return;
    }
    let all: Vec<_> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name()).collect();
    let text = format!("there are {}", all.join(", "));
    e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
}

fn done(what: What) -> ExitCode {
    match what {
        What::Run(args) => match run::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, e.exit_code()),
        },
        What::Launch(args) => match launch::launch(&args) {
            Ok(status) => ExitCode::from(status),
            Err(e) => {
                output::tell(e.text());
                ExitCode::from(e.exit_code())
            }
        },
        What::LaunchJob(args) => not_started(launch::become_job(&args)),
        What::LaunchRank(args) => not_started(launch::rank(&args)),
        What::LaunchChoice(args) => not_started(launch::choose(&args)),
        What::LaunchSpawned(args) => ExitCode::from(launch::spawned(&args)),
        What::LaunchKeeper(args) => {
            launch::keep(&args);
            ExitCode::SUCCESS
        }
        What::Names(args) => match names::names(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, usage(e.is_usage())),
        },
        What::Ctl(args) => match ctl::ctl(&args) {
            Ok(verdict) => ExitCode::from(verdict.exit_code()),
            Err(e) => failed(&e, e.exit_code()),
        },
        What::Top(args) => match ctl::top::top(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, e.exit_code()),
        },
        What::Cp(args) => match cp::cp(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, e.exit_code()),
        },
        What::Checkpoint(args) => match checkpoint::checkpoint(&args) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(e) => failed(&e, 1),
        },
        What::Serve(args) => match serve::serve(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, usage(e.is_usage())),
        },
        What::Relay(args) => match relay::relay(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, usage(e.is_usage())),
        },
        What::Key(args) => match key::key(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&e, usage(e.is_usage())),
        },
        What::Pages(args) => match pages::pages(&args, Command::command()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => failed(&format_args!("{}: {e}", args.dir.display()), 1),
        },
        What::Doctor(args) => {
            if doctor::doctor(&args) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn not_started((code, e): (u8, String)) -> ExitCode {
    failed(&e, code)
}

fn failed(e: &dyn Display, code: u8) -> ExitCode {
    output::say(e);
    ExitCode::from(code)
}

/// The exit code of an error: whether it is one of the command line.
fn usage(is_usage: bool) -> u8 {
    if is_usage { 2 } else { 1 }
}
