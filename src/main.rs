//! The command `mpi-connect`: starts jobs with the library in place, keeps and shows names, finds what is wrong.
//!
//! One file per subcommand; what `run` and `doctor` share lies beside them. Only this file decides exit codes of
//! errors: 2 for a wrong command line, 126 and 127 as a shell has them, 1 for the rest.
#![forbid(unsafe_code)]

mod arguments;
mod ask;
mod doctor;
mod elf;
mod launcher;
mod library;
mod mpis;
mod names;
mod program;
mod run;
mod select;
mod serve;
mod watch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "mpi-connect", version, about = "Joins MPI jobs that were started apart")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Start a job with the library in place: mpi-connect run -- mpirun -n 4 ./program
    Run(run::Args),
    /// Show the names that jobs have registered or published
    Names(names::Args),
    /// Keep names for jobs that reach this server: MPI_CONNECT_NAMING=tcp://HOST:PORT
    Serve(serve::Args),
    /// Look for what is wrong, and say how to mend it
    Doctor(doctor::Args),
}

fn main() -> ExitCode {
    match Command::parse().what {
        What::Run(args) => match run::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("mpi-connect: {e}");
                ExitCode::from(e.exit_code())
            }
        },
        What::Names(args) => match names::names(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("mpi-connect: {e}");
                ExitCode::FAILURE
            }
        },
        What::Serve(args) => match serve::serve(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("mpi-connect: {e}");
                ExitCode::from(if e.is_usage() { 2 } else { 1 })
            }
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
