//! `make scale`: two jobs of ever more ranks, each with the session that the library runs, in one process: what joining,
//! exchanging, deaths and leaving cost, and by which law they grow. Each number of ranks is a process of its own.

#[path = "../scale/jobs.rs"]
mod jobs;
#[path = "../scale/measure.rs"]
mod measure;
#[path = "../scale/page.rs"]
mod page;
#[path = "../picture.rs"]
mod picture;
#[path = "../table.rs"]
mod table;
#[path = "../scale/wire.rs"]
mod wire;
#[path = "../scale/world.rs"]
mod world;

use c_tests::root;
use measure::Measured;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};

/// The seconds of processor that one number of ranks may take.
const MOST_TIME: u64 = 600;

/// How a program ends that gets no memory, or no more time.
const SIGABRT: i32 = 6;
const SIGXCPU: i32 = 24;

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
    let mut words = std::env::args().skip(1);
    if let Some(ranks) = words.next() {
        let ranks = ranks.parse().map_err(|_| "the argument is the number of ranks of both jobs together")?;
        return measure::measure(ranks, words.next().is_some());
    }
    let text = |name: &str, usual: &str| std::env::var(name).ok().filter(|t| !t.is_empty()).unwrap_or(usual.to_owned());
    let number = |name: &str, usual: u32| text(name, "").parse().unwrap_or(usual);
    let mut all: Vec<Measured> = Vec::new();
    let mut stopped: Option<String> = None;
    let gibibytes = number("GIB", 16);
    let exchange = number("EXCHANGE", 20);
    for exponent in number("FROM", 10)..=number("TO", 20) {
        if exponent > exchange {
            stopped.get_or_insert_with(|| format!("no more than 2^{exchange} were to exchange"));
        }
        let (measured, why) = one(1 << exponent, gibibytes, stopped.is_some())?;
        all.extend(measured);
        // More ranks are only joined then.
        stopped = stopped.or(why.map(|why| format!("to exchange, 2^{exponent} ranks take {why}")));
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

/// One number of ranks, in a process of its own: what was measured, and why there is no more. `is_short`: they only join.
fn one(ranks: u32, gibibytes: u32, is_short: bool) -> Result<(Vec<Measured>, Option<String>), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let limited = format!("ulimit -v {} && ulimit -t {MOST_TIME} && exec \"$0\" \"$@\"", u64::from(gibibytes) << 20);
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(program).arg(ranks.to_string()).args(is_short.then_some("join"));
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&done.stdout);
    let measured = text.lines().map(|line| Measured::read(line).ok_or_else(|| format!("'{line}'")));
    let why = match (done.status.code(), done.status.signal()) {
        (Some(0), _) => None,
        (Some(_), _) => return Err(format!("{ranks} ranks: it failed")),
        (_, Some(SIGABRT)) => Some(format!("more than {gibibytes} GiB of memory")),
        (_, Some(SIGXCPU)) => Some(format!("more than {MOST_TIME} s of processor")),
        (_, signal) => return Err(format!("{ranks} ranks: ended by signal {signal:?}")),
    };
    Ok((measured.collect::<Result<_, String>>()?, why))
}
