//! Which two MPIs the library joins in the bench: two of today that are not of one make, and the fastest at 8 bytes.

use crate::contestant::Contestant;
use crate::results::Results;
use crate::settings::{Effort, Settings};
use c_tests::{Mpi, Scene};

/// Joined, but not taken for all the rows: nobody runs it for its speed, and what its requests need makes the rate its own.
const ANCESTOR: &str = "lam";

/// The row under which the trials are kept.
pub const ROW: &str = "choice";

/// MPICH 4 and 5 are of one make, whichever ABI their programs are built for.
fn make(mpi: &Mpi) -> &'static str {
    mpi.name.trim_end_matches("-abi").trim_end_matches(|c: char| c.is_ascii_digit())
}

fn name(pair: [&Mpi; 2]) -> String {
    format!("{} with {}", pair[0].name, pair[1].name)
}

/// All pairs; a quick run tries each MPI once.
fn candidates(settings: &Settings) -> Vec<[&'static Mpi; 2]> {
    let mpis = &settings.mpis;
    let mut all = Vec::new();
    for (i, a) in mpis.iter().enumerate() {
        for b in &mpis[i + 1..] {
            let used = |mpi: &Mpi| all.iter().flatten().any(|m: &&Mpi| m.name == mpi.name);
            if make(a) != make(b) && !(settings.quick && (used(a) || used(b))) {
                all.push([*a, *b]);
            }
        }
    }
    all
}

pub fn pair(scene: &Scene, settings: &Settings, results: &mut Results) -> Result<[&'static Mpi; 2], String> {
    if let Some((a, b)) = settings.pair {
        return Ok([a, b]);
    }
    let candidates = candidates(settings);
    if candidates.len() == 1 {
        return Ok(candidates[0]);
    }
    let effort = Effort { samples: 5, slice_ms: 5, most: 8 };
    let mut best = None;
    for pair in candidates {
        let contestant = Contestant::ours(&name(pair), pair, "shm");
        match contestant.build().and_then(|()| contestant.run(scene, &["short"], effort)) {
            Ok(mut lines) => {
                // Of a pair's few samples the least disturbed.
                let value = lines[0].samples.iter().copied().fold(f64::MAX, f64::min);
                println!("choosing a pair: {:<24} {value:.3} us", contestant.name);
                lines[0].row = ROW.into();
                results.add(&contestant.name, lines);
                if pair.iter().all(|mpi| mpi.name != ANCESTOR) && best.is_none_or(|(b, _)| value < b) {
                    best = Some((value, pair));
                }
            }
            Err(e) => {
                eprintln!("choosing a pair: {}: {e}", contestant.name);
                results.fail(&contestant.name, &e);
            }
        }
    }
    best.map(|(_, pair)| pair).ok_or("no two MPIs of different make could be joined: MPIS= leaves too few?".into())
}
