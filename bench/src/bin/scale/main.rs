//! `make scale`: two jobs of ever more ranks, each with the session that the library runs, in one process: what joining,
//! exchanging, deaths and leaving cost, and by which law they grow. Each number of ranks is a process of its own.

mod jobs;
mod measure;
#[path = "../../picture.rs"]
mod picture;
mod page;
#[path = "../../table.rs"]
mod table;
mod wire;
mod world;

use c_tests::root;
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
    let text = |name: &str, usual: &str| std::env::var(name).ok().filter(|t| !t.is_empty()).unwrap_or(usual.to_owned());
    let number = |name: &str, usual: u32| text(name, "").parse().unwrap_or(usual);
    let mut all: Vec<Measured> = Vec::new();
    let mut stopped = None;
    for exponent in number("FROM", 10)..=number("TO", 20) {
        let (measured, why) = one(1 << exponent)?;
        let last = measured.last().map_or("nothing", |m| m.part.as_str()).to_owned();
        all.extend(measured);
        if let Some(why) = why {
            stopped = Some(format!("2^{exponent} ranks need {why} after the part '{last}'"));
            break;
        }
    }
    if !all.is_empty() {
        page::show(&all, stopped.as_deref())?;
    }
    let python = root().join("target/scale-venv/bin/python");
    let (first, second) = (text("FIRST", "openmpi4"), text("SECOND", "mpich4"));
    let has_sst = python.exists().then_some(python.as_path());
    match number("PROCESSES", 256) {
        0 => Ok(()),
        ranks => jobs::measure([&first, &second], ranks as usize, has_sst),
    }
}

/// One number of ranks, in a process of its own: what was measured, and why there is no more.
fn one(ranks: u32) -> Result<(Vec<Measured>, Option<String>), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let limited = format!("ulimit -v {MOST_MEMORY}; exec timeout {MOST_TIME} \"$0\" {ranks}");
    let done = Command::new("sh").args(["-c", &limited]).arg(program).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&done.stdout);
    eprint!("{}", String::from_utf8_lossy(&done.stderr));
    let measured = text.lines().map(|line| Measured::read(line).ok_or_else(|| format!("'{line}'")));
    let why = match done.status.code() {
        Some(0) => None,
        Some(124) => Some(format!("more than {MOST_TIME} s")),
        Some(1) => return Err(format!("{ranks} ranks: it failed")),
        _ => Some(format!("more than {} GiB of memory", MOST_MEMORY >> 20)),
    };
    Ok((measured.collect::<Result<_, String>>()?, why))
}
