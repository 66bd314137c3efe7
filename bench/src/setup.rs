//! What joining costs, by ranks a side. For main.

use crate::contestant::{Contestant, lines};
use crate::results::Results;
use crate::settings::{OTHERS, Settings};
use c_tests::Scene;
use std::time::Duration;

/// Many more ranks than cores that all poll are slow beyond measure; then it is said.
const LIMIT: Duration = Duration::from_secs(60);

pub fn run(scene: &Scene, settings: &Settings, results: &mut Results, all: &[&Contestant]) {
    let ranks: &[usize] = if settings.quick { &[1, 2, 8] } else { &[1, 2, 8, 32] };
    for round in 0..settings.rounds(OTHERS, 1) {
        for &ranks in ranks {
            for contestant in all {
                let done = contestant.join(scene, ("setup", [ranks; 2]), &["3"], LIMIT);
                let what = format!("setup {} {:<18} {ranks:>2} ranks a side", round + 1, contestant.name);
                match done.and_then(|done| lines(&done)) {
                    Ok(lines) => {
                        let times = lines.iter().take(2).map(|l| crate::results::median(&l.samples));
                        println!("{what}: {:.1} ms", times.sum::<f64>());
                        results.add(&contestant.name, lines);
                    }
                    Err(e) => {
                        println!("{what}: FAILED: {}", e.lines().next().unwrap_or(&e));
                        results.fail(&format!("{} (setup, {ranks} ranks a side)", contestant.name), &e);
                    }
                }
            }
        }
    }
}
