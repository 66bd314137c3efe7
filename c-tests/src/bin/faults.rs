//! Faults at random, and what became of the traffic: `make faults`. `RECORD=1` writes `docs/reliability.md`.

use c_tests::faults::{Settings, page, possible, run, sums, table, versions};
use c_tests::{Figure, root};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A setting of the command line of `make`: not there, empty, or a number.
fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// What it ran on, and how busy that was, with this and with whatever else ran there.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("{cores} cores with a load of {} in the last 15 minutes", load.split(' ').nth(2).unwrap_or("?"))
}

fn main() -> ExitCode {
    if let Err(why) = possible() {
        eprintln!("faults: not here: {why}");
        return ExitCode::FAILURE;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    let settings = Settings {
        faults: number("FAULTS").unwrap_or(1_000) as usize,
        seed: number("SEED").unwrap_or(now),
        longest: Duration::from_secs(number("LONGEST").unwrap_or(20)),
        at_once: number("AT_ONCE").unwrap_or(8) as usize,
        only: number("ACT").map(|act| act as usize),
    };
    println!("{} faults, SEED={}", settings.faults, settings.seed);
    // Asked first: what cannot be asked should not cost the run.
    let record = number("RECORD").is_some_and(|record| record != 0).then(versions);
    let run = run(&settings);
    let mut figure = Figure::new("46-faults", format!("{} faults at random, SEED={}", settings.faults, settings.seed));
    figure.table(&table(&run));
    sums(&run).iter().for_each(|line| figure.line(line));
    drop(figure);
    if let Some(versions) = record {
        let path = root().join("docs/reliability.md");
        std::fs::write(&path, page(&run, &settings, &machine(), &versions)).expect("docs/reliability.md");
        println!("{} is written", path.display());
    }
    for why in &run.failures {
        println!("FAILED: {}", why.lines().next().unwrap_or_default());
    }
    if run.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
