//! `make scale`: two jobs of ever more ranks, each with the session that the library runs, in one process: what joining,
//! exchanging, deaths and leaving cost, and by which law they grow. Each number of ranks is a process of its own.

mod measure;
#[path = "../../picture.rs"]
mod picture;
mod page;
#[path = "../../table.rs"]
mod table;
mod wire;
mod world;

use measure::Measured;
use std::process::{Command, ExitCode};

/// The address space that one number of ranks may take, in KiB, and the seconds.
const MOST_MEMORY: u64 = 16 << 20;
const MOST_TIME: u64 = 600;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("scale: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    if let Some(ranks) = std::env::args().nth(1) {
        let ranks = ranks.parse().map_err(|_| "the argument is the number of ranks of both jobs together")?;
        return measure::measure(ranks);
    }
    let number = |name: &str, usual: u32| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let mut all: Vec<Measured> = Vec::new();
    let mut stopped = None;
    for exponent in number("FROM", 10)..=number("TO", 20) {
        match one(1 << exponent) {
            Ok(measured) => all.extend(measured),
            Err(why) => {
                stopped = Some(format!("2^{exponent} ranks: {why}"));
                break;
            }
        }
    }
    page::show(&all, stopped.as_deref())
}

/// One number of ranks, in a process of its own.
fn one(ranks: u32) -> Result<Vec<Measured>, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let limited = format!("ulimit -v {MOST_MEMORY}; exec timeout {MOST_TIME} \"$0\" {ranks}");
    let done = Command::new("sh").args(["-c", &limited]).arg(program).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&done.stdout);
    eprint!("{}", String::from_utf8_lossy(&done.stderr));
    match done.status.code() {
        Some(0) => text.lines().map(|line| Measured::read(line).ok_or_else(|| format!("'{line}'"))).collect(),
        Some(124) => Err(format!("more than {MOST_TIME} s")),
        Some(1) => Err("it failed".into()),
        _ => Err(format!("more than {} GiB of memory", MOST_MEMORY >> 20)),
    }
}
