//! Checkpoints as the library makes them, over engines, channels and disks that a seed drives: jobs that make cuts, are killed, and
//! go on from their lines, again and again. Programs are judged by what they find in the messages that come.
//!
//! `MPI_CONNECT_SIM_SEED=n` runs one seed, `MPI_CONNECT_SIM_SEEDS=n` another number of them,
//! `MPI_CONNECT_SIM_FIRST=n` from another one on.

mod disk;
mod net;
mod plan;
mod plant;
mod proc;
mod program;
mod restart;
mod rng;
mod side;
mod world;

use plant::Plant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Figures, World};

fn run(seed: u64, plant: Plant) -> Result<Figures, String> {
    let result = catch_unwind(AssertUnwindSafe(|| World::new(seed, plant).run()));
    result.unwrap_or_else(|_| Err("panic".into()))
}

/// Printed, and kept for the end of `make test`.
fn figure(name: &str, text: &str) {
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/figures");
    std::fs::create_dir_all(folder).expect("target/figures");
    std::fs::write(format!("{folder}/{name}.txt"), text).expect("target/figures");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn jobs_that_are_killed_go_on() {
    if let Some(seed) = number("MPI_CONNECT_SIM_SEED") {
        let figures = World::new(seed, Plant::None).run();
        println!("seed {seed}: {figures:?}");
        return figures.map(|_| ()).unwrap();
    }
    let seeds = number("MPI_CONNECT_SIM_SEEDS").unwrap_or(500);
    let first = number("MPI_CONNECT_SIM_FIRST").unwrap_or(0);
    let threads = 2;
    let parts: Vec<_> = (0..threads)
        .map(|t| {
            std::thread::spawn(move || {
                let mut sum = Figures::default();
                let mut failed = Vec::new();
                for seed in (first + t..first + seeds).step_by(threads as usize) {
                    match run(seed, Plant::None) {
                        Ok(figures) => sum.add(figures),
                        Err(fault) => {
                            println!("seed {seed}: {fault}; again with MPI_CONNECT_SIM_SEED={seed}");
                            failed.push(seed);
                        }
                    }
                    if failed.len() > 4 {
                        break;
                    }
                }
                (sum, failed)
            })
        })
        .collect();
    let mut sum = Figures::default();
    let mut failed = Vec::new();
    for part in parts {
        let (figures, bad) = part.join().expect("runs catch their panics");
        sum.add(figures);
        failed.extend(bad);
    }
    figure("02-checkpoints", &format!("checkpoints over engines, channels and disks, {seeds} seeds\n  {sum:?}\n"));
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
}

/// A fault that is put in must be found, for what it is.
fn found(plant: Plant, names: &[&str]) {
    for seed in 0..2_000 {
        if let Err(what) = run(seed, plant) {
            let first = what.lines().next().unwrap_or_default();
            figure(
                &format!("03-planted-{plant:?}").to_lowercase(),
                &format!("planted fault {plant:?} of checkpoints: found with seed {seed}: {first}\n"),
            );
            assert!(names.iter().any(|n| what.contains(n)), "{plant:?}: found as something else: {what}");
            return;
        }
    }
    panic!("{plant:?} was not found");
}

/// What a program sees of messages that are lost, doubled or exchanged, and of a sender that has found something else.
const WRONG: [&str; 7] =
    ["does not end", "overtaken", "another message", "come twice", "something else", "told otherwise", "astray"];

#[test]
fn a_lost_late_message_is_found() {
    found(Plant::LateLost, &WRONG);
    found(Plant::ImageLost, &["does not end"]);
}

#[test]
fn a_doubled_early_message_is_found() {
    found(Plant::EarlyDoubled, &WRONG);
}

#[test]
fn outcomes_that_are_not_found_again_are_found() {
    found(Plant::NotReplayed, &WRONG);
    found(Plant::NotLimited, &WRONG);
}

#[test]
fn a_record_that_ends_too_early_is_found() {
    found(Plant::RecordEndsEarly, &WRONG);
    found(Plant::ReplayEndsEarly, &WRONG);
}

#[test]
fn a_send_that_waits_where_it_had_not_is_found() {
    found(Plant::SendsWait, &["does not end"]);
}

#[test]
fn an_image_that_was_told_before_it_was_on_the_disk_is_found() {
    // A line that is complete has its name before its image is written, or has no image after a power failure.
    found(Plant::ToldBeforeSync, &["lost", "the line's folder is gone"]);
    found(Plant::NoSync, &["lost"]);
}
