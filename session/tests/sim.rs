//! Session, paths and engine together, as the library runs them, over a simulated network: random programs judged by an
//! oracle, and leaders that join jobs by name and at ports meanwhile.
//!
//! `MPI_CONNECT_SIM_SEED=n` runs one seed, `MPI_CONNECT_SIM_SEEDS=n` another number of them,
//! `MPI_CONNECT_SIM_FIRST=n` from another one on. With a seed, `MPI_CONNECT_SIM_STEP=n` freezes leaders after that step.

#[path = "sim/damage.rs"]
mod damage;
#[path = "sim/elsewhere.rs"]
mod elsewhere;
#[path = "sim/lanes.rs"]
mod lanes;
#[path = "sim/leaders.rs"]
mod leaders;
#[path = "sim/network.rs"]
mod network;
#[path = "sim/proc.rs"]
mod proc;
#[path = "sim/program.rs"]
mod program;
#[path = "sim/world.rs"]
mod world;

use session::Forgotten;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Fault, Figures, World};

fn run(seed: u64, fault: Fault) -> Result<Figures, String> {
    let result = catch_unwind(AssertUnwindSafe(|| World::new(seed, fault).run()));
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
fn random_programs() {
    if let Some(seed) = number("MPI_CONNECT_SIM_SEED") {
        let figures = World::new(seed, Fault::None).run();
        println!("seed {seed}: {figures:?}");
        return figures.map(|_| ()).unwrap();
    }
    let seeds = number("MPI_CONNECT_SIM_SEEDS").unwrap_or(10_000);
    let first = number("MPI_CONNECT_SIM_FIRST").unwrap_or(0);
    let threads = 2;
    let parts: Vec<_> = (0..threads)
        .map(|t| {
            std::thread::spawn(move || {
                let mut sum = Figures::default();
                let mut failed = Vec::new();
                for seed in (first + t..first + seeds).step_by(threads as usize) {
                    match run(seed, Fault::None) {
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
    figure("00-simulator", &format!("session, paths and engine over a simulated network, {seeds} seeds\n  {sum:?}\n"));
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    // That one side agrees and the other has just given up is rare.
    let orphans = std::mem::replace(&mut sum.orphans, seeds);
    assert!(seeds < 1000 || orphans > 0 && sum.all().iter().all(|n| *n > seeds / 100));
}

/// A negotiation goes on from a snapshot, wherever it was.
#[test]
fn leaders_are_frozen_at_every_step() {
    if let (Some(seed), Some(step)) = (number("MPI_CONNECT_SIM_SEED"), number("MPI_CONNECT_SIM_STEP")) {
        return World::frozen_after(seed, step).run().map(|_| ()).unwrap();
    }
    let mut runs = 0;
    for seed in 0..80 {
        let steps = World::new(seed, Fault::None).run().unwrap().led;
        // In the others they mostly wait.
        for step in (1..=steps).filter(|_| steps < 400) {
            if let Err(what) = World::frozen_after(seed, step).run() {
                panic!("seed {seed}, frozen after step {step}: {what}");
            }
            runs += 1;
        }
    }
    assert!(runs > 500, "{runs} runs");
}

/// A fault that is put in must be found, for what it is.
fn found(fault: Fault, names: &[&str]) {
    for seed in 0..10_000 {
        if let Err(what) = run(seed, fault) {
            figure(
                &format!("01-planted-{fault:?}").to_lowercase().replace(['(', ')'], "-"),
                &format!("planted fault of {fault:?}: found with seed {seed}: {what}\n"),
            );
            assert!(names.iter().any(|n| what.contains(n)), "{fault:?}: found as something else: {what}");
            return;
        }
    }
    panic!("{fault:?} was not found");
}

#[test]
fn a_fault_of_order_is_found() {
    found(Fault::Order, &["order"]);
}

#[test]
fn a_fault_of_match_is_found() {
    found(Fault::Match, &["match"]);
}

#[test]
fn a_loss_is_found() {
    // Whoever speaks nonsense again and again is given up.
    found(Fault::Loss, &["does not end", "death", "leaders"]);
}

#[test]
fn a_duplicate_is_found() {
    found(Fault::Duplicate, &["duplication", "malformed", "match", "death"]);
}

/// A restored session writes again what it has read, so no value is forgotten.
#[test]
fn a_forgotten_value_is_found() {
    for what in Forgotten::ALL {
        found(Fault::Forgotten(what), &["snapshot"]);
    }
}

/// Without that comparison, the values that are left do not fit together, or what the processes do shows it.
#[test]
fn what_a_forgotten_value_does_is_found() {
    let forgotten: [(Forgotten, &[&str]); 11] = [
        (Forgotten::LastSerial, &["damaged"]),
        (Forgotten::Strangers, &["leaders"]),
        (Forgotten::Inters, &["damaged"]),
        (Forgotten::Gone, &["damaged"]),
        (Forgotten::Contact, &["waits for the dead", "does not end"]),
        (Forgotten::IsStranger, &["damaged"]),
        (Forgotten::Caller, &["leaders"]),
        (Forgotten::Inbox, &["leaders"]),
        (Forgotten::Talk, &["leaders"]),
        (Forgotten::TalkLimit, &["leaders"]),
        (Forgotten::Lost, &["leaders"]),
    ];
    for (what, names) in forgotten {
        found(Fault::Missed(what), names);
    }
}

/// One for each invariant of the session.
#[test]
fn faults_of_the_session_are_found() {
    use session::Plant;
    let planted: [(Plant, &[&str]); 13] = [
        (Plant::AnyCookie, &["cookie"]),
        (Plant::Unasked, &["impostor"]),
        (Plant::AnyRefusal, &["death", "leaders"]),
        (Plant::NoDeath, &["waits for the dead", "the end does not come"]),
        (Plant::NothingBack, &["does not end", "malformed", "order", "match"]),
        (Plant::OldAddresses, &["snapshot", "bytes"]),
        (Plant::NoEnd, &["pairs are left"]),
        // As above, nonsense again and again ends in a death.
        (Plant::LeftNothingBack, &["does not end", "malformed", "order", "match", "death"]),
        (Plant::ClosedUnread, &["death", "does not end"]),
        (Plant::ManyIncoming, &["crowd"]),
        (Plant::ManyStrangers, &["crowd"]),
        (Plant::NeverAway, &["death"]),
        (Plant::AnySerial, &["slot"]),
    ];
    for (plant, names) in planted {
        found(Fault::Session(plant), names);
    }
}
