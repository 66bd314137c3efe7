//! Intel's own benchmarks within one job, with the library preloaded and without: what it costs who does not use it.
//! For main, claims and report.

use crate::contestant::{Line, cores_apart, wait};
use crate::results::{Results, median};
use crate::settings::Settings;
use c_tests::{Launch, Library, Mpi, Scene, library};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const OPERATIONS: [&str; 2] = ["PingPong", "Allreduce"];
/// In this order in each round; the third is the control.
const WAYS: [&str; 3] = ["without", "with", "without again"];

pub fn run(scene: &Scene, settings: &Settings, results: &mut Results) {
    let Some(mpi) = settings.mpis.iter().copied().find(|m| m.name == "impi") else {
        return results.fail("IMB-MPI1", "it comes with Intel MPI, which takes no part");
    };
    let rounds = settings.rounds(7, 2);
    let mut order = WAYS;
    for round in 0..rounds {
        for way in order {
            match launch(scene, settings, mpi, way == "with") {
                Ok(lines) => results.add(way, lines),
                Err(e) => {
                    println!("IMB-MPI1 {way}: FAILED: {e}");
                    return results.fail(&format!("IMB-MPI1 {way}"), &e);
                }
            }
        }
        println!("IMB-MPI1 {}/{rounds}", round + 1);
        // Each way stands once in each place.
        order.rotate_left(1);
    }
}

fn launch(scene: &Scene, settings: &Settings, mpi: &'static Mpi, with: bool) -> Result<Vec<Line>, String> {
    let program = mpi.folder().expect("a wheel").join("bin/IMB-MPI1");
    // Up to 64 KiB: beyond, what is added to a call is nothing.
    let fixed = ["-npmin", "2", "-msglog", "3:16", "-iter_policy", "off"];
    let repetitions = ["-iter", if settings.quick { "1000" } else { "5000" }];
    let arguments = [&fixed[..], &repetitions, &OPERATIONS].concat();
    let mut launch = Launch::of(mpi, 2, program, Library::None, &arguments);
    if with {
        launch = launch.preloading(vec![library()]);
    }
    // A core for each rank, as everywhere here; this program does not pin itself.
    let launch = launch.env("I_MPI_PIN", "1").env("I_MPI_PIN_PROCESSOR_LIST", "0,1");
    let before = cores_apart(scene)?;
    let [done] = wait(scene, [scene.start(launch)], LIMIT)?;
    let lines = times(&done.stdout, &[before, cores_apart(scene)?]);
    if lines.is_empty() { Err("it prints no times".into()) } else { Ok(lines) }
}

/// Its tables: bytes, repetitions, then a time, or the least, the largest and the mean of all ranks.
fn times(text: &str, apart: &[f64]) -> Vec<Line> {
    let mut operation = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix("# Benchmarking ") {
            operation = OPERATIONS.into_iter().find(|o| *o == name.trim());
        }
        let words: Vec<f64> = line.split_whitespace().map_while(|w| w.parse().ok()).collect();
        let time = match operation {
            Some("PingPong") => words.get(2),
            _ => words.get(4),
        };
        if let (Some(operation), Some(&time), true) = (operation, time, words.len() >= 4 && words[0] > 0.0) {
            let row = row(operation);
            lines.push(Line {
                row,
                size: words[0] as u64,
                unit: "us".into(),
                samples: vec![time],
                apart: apart.to_vec(),
            });
        }
    }
    lines
}

fn row(operation: &str) -> String {
    format!("IMB {operation}")
}

/// Of one operation: the times of `way` against those without the library, one ratio a round in which the cores were as far apart in both.
/// The mean over all sizes is the geometric one.
fn ratios(results: &Results, operation: &str, way: &str) -> Vec<f64> {
    let row = row(operation);
    let sizes = results.sizes(&row);
    let launches = |way, size: &u64| results.launches(&row, *size, way);
    let ratio = |(a, b): (Option<(f64, _)>, Option<(f64, _)>)| {
        let ((a, there), (b, here)) = a.zip(b)?;
        (there == here).then(|| (a / b).ln())
    };
    let logs: Vec<Vec<Option<f64>>> =
        sizes.iter().map(|s| launches(way, s).into_iter().zip(launches(WAYS[0], s)).map(ratio).collect()).collect();
    let rounds = logs.iter().map(Vec::len).min().unwrap_or(0);
    let of_round = |r: usize| Some(logs.iter().map(|l| l[r]).sum::<Option<f64>>()? / logs.len() as f64);
    (0..rounds).filter_map(of_round).map(f64::exp).collect()
}

/// With the library against without, and how large chance alone makes this ratio.
pub struct Comparison {
    pub operation: &'static str,
    pub with: f64,
    pub again: f64,
    pub chance: f64,
}

pub fn comparisons(results: &Results) -> Vec<Comparison> {
    let compare = |operation| {
        let [with, again] = [WAYS[1], WAYS[2]].map(|way| ratios(results, operation, way));
        let chance = chance(&again);
        (!with.is_empty()).then(|| Comparison { operation, with: median(&with), again: median(&again), chance })
    };
    OPERATIONS.into_iter().filter_map(compare).collect()
}

/// What chance may do to a median of as many rounds, by those of the same against the same: twice its standard error, which is
/// 1.25 times that of a mean.
fn chance(same: &[f64]) -> f64 {
    let n = same.len().max(1) as f64;
    let spread = (same.iter().map(|r| r.ln() * r.ln()).sum::<f64>() / n).sqrt();
    (2.0 * 1.25 * spread / n.sqrt()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_does_less_to_more_rounds() {
        assert_eq!(chance(&[1.0; 5]), 1.0);
        let [few, many] = [4, 16].map(|n| chance(&[1.1, 1.0 / 1.1].repeat(n / 2)));
        assert!((few - 1.1f64.powf(1.25)).abs() < 1e-9 && (many - 1.1f64.powf(0.625)).abs() < 1e-9);
    }

    #[test]
    fn times_are_read() {
        let text = "# Benchmarking PingPong \n#bytes #repetitions t[usec] Mbytes/sec\n 0 1000 0.30 0.00\n 8 1000 0.35 22.9\n\
                    # Benchmarking Allreduce\n 8 1000 0.50 0.60 0.55\n# All processes entering MPI_Finalize\n";
        let found: Vec<_> = times(text, &[]).into_iter().map(|l| (l.row, l.size, l.samples[0])).collect();
        assert_eq!(found, [("IMB PingPong".into(), 8, 0.35), ("IMB Allreduce".into(), 8, 0.55)]);
    }

    #[test]
    fn ratios_are_of_one_round_each() {
        let mut results = Results::default();
        for (way, time) in [("without", 1.0), ("with", 2.0), ("without again", 1.1), ("without", 2.0), ("with", 2.0)] {
            let line =
                Line { row: row("PingPong"), size: 8, unit: "us".into(), samples: vec![time], apart: Vec::new() };
            results.add(way, vec![line]);
        }
        let ratios = ratios(&results, "PingPong", "with");
        assert!((ratios[0] - 2.0).abs() < 1e-9 && (ratios[1] - 1.0).abs() < 1e-9);
        let comparison = &comparisons(&results)[0];
        assert!((comparison.with - 1.5).abs() < 1e-9 && (comparison.chance - 1.1f64.powf(2.5)).abs() < 1e-9);
    }
}
