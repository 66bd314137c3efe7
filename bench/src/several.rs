//! Several at once: pairs of ranks side by side, one rank with several partners, two threads a rank. For main.

use crate::contestant::Contestant;
use crate::results::Results;
use crate::settings::Settings;
use c_tests::Scene;
use std::collections::BTreeSet;
use std::time::Instant;

/// Launches of each contestant.
pub const ROUNDS: usize = 7;

/// The kinds of bench/c/several.c, and the ranks of each side.
pub const ALL: [(&str, [usize; 2]); 6] = [
    ("rate", [2, 2]),
    ("rate", [4, 4]),
    ("rate", [1, 4]),
    ("bandwidth", [2, 2]),
    ("bandwidth", [4, 4]),
    ("threads", [1, 1]),
];

/// What several.c calls the row of all together.
pub fn row((kind, [left, right]): (&str, [usize; 2])) -> String {
    format!("several: {kind}, {left} and {right}")
}

/// What it calls that of the slowest one's part of a fair share.
pub fn slowest(what: (&str, [usize; 2])) -> String {
    row(what) + ", slowest"
}

/// Each round begins with another contestant; who fails in a row is not asked again.
pub fn run(scene: &Scene, settings: &Settings, results: &mut Results, all: &[&Contestant]) {
    let (rounds, mut failed) = (settings.rounds(ROUNDS, 1), BTreeSet::new());
    for round in 0..rounds {
        for what in ALL {
            for k in 0..all.len() {
                let contestant = all[(k + round * all.len() / rounds) % all.len()];
                if failed.contains(&(what, &contestant.name)) {
                    continue;
                }
                let began = Instant::now();
                let said = match contestant.several(scene, what, settings.effort()) {
                    Ok(lines) => {
                        let said = format!("{:.2} {}", crate::results::median(&lines[0].samples), lines[0].unit);
                        results.add(&contestant.name, lines);
                        said
                    }
                    Err(e) => {
                        failed.insert((what, &contestant.name));
                        results.fail(&format!("{} ({})", contestant.name, row(what)), &e);
                        format!("FAILED: {}", e.lines().next().unwrap_or(&e))
                    }
                };
                let took = began.elapsed().as_secs_f64();
                println!("{} {} {:<18} {took:5.1} s  {said}", row(what), round + 1, contestant.name);
            }
        }
    }
}
