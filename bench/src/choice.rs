//! Which two MPIs the library joins in the bench: two of today that are not of one make, and those with which 8 bytes take the least time beyond a
//! cache line's. Where several are alike, those whose launchers do not start each rank in a session of its own.

use crate::contestant::{Contestant, Line};
use crate::results::Results;
use crate::settings::{Effort, Settings};
use c_tests::{Mpi, Scene};

/// Joined, but not taken for all the rows: nobody runs it for its speed, and what its requests need makes the rate its own.
const ANCESTOR: &str = "lam";

/// Pairs whose trials differ by less, in µs, count as alike: those of one pair do.
const ALIKE: f64 = 0.04;

/// The row under which the trials are kept.
pub const ROW: &str = "choice";

/// MPICH 4 and 5 are of one make, whichever ABI their programs are built for.
fn make(mpi: &Mpi) -> &'static str {
    mpi.name.trim_end_matches("-abi").trim_end_matches(|c: char| c.is_ascii_digit())
}

/// MPICH starts each rank in a session of its own. Where the kernel shares a processor out among sessions, a rank that yields it to the others often
/// keeps it: one rank exchanges a quarter fewer messages with four on one core so.
fn has_own_sessions(mpi: &Mpi) -> bool {
    make(mpi) == "mpich"
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

/// What 8 bytes take in µs beyond what a cache line took from core to core before or after, whichever was less, if that is known: one pair may be
/// tried while the cores are near each other, and the next one while they are not. A sample in which they moved only looks slower so. Of the few
/// samples it is the least disturbed.
fn beyond_the_line(line: &Line) -> f64 {
    let apart = |i: usize| Some(line.apart.get(i)?.min(*line.apart.get(i + 1)?) / 1000.0);
    let each = line.samples.iter().enumerate().map(|(i, us)| us - apart(i).unwrap_or(0.0));
    each.fold(f64::MAX, f64::min)
}

/// Of the pairs that are alike and the fastest, the one that most of its launchers leave in one session.
fn best(tried: &[(f64, [&'static Mpi; 2])]) -> Option<[&'static Mpi; 2]> {
    let least = tried.iter().map(|t| t.0).fold(f64::MAX, f64::min);
    let alike = tried.iter().filter(|t| t.0 < least + ALIKE);
    let sessions = |pair: &[&Mpi; 2]| pair.iter().filter(|mpi| has_own_sessions(mpi)).count();
    alike.min_by(|a, b| sessions(&a.1).cmp(&sessions(&b.1)).then(a.0.total_cmp(&b.0))).map(|t| t.1)
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
    let mut tried = Vec::new();
    for pair in candidates {
        let contestant = Contestant::ours(&name(pair), pair, "shm");
        match contestant.build().and_then(|()| contestant.run(scene, &["short"], effort)) {
            Ok(mut lines) => {
                let value = beyond_the_line(&lines[0]);
                println!("choosing a pair: {:<24} {value:.3} us beyond a line's", contestant.name);
                lines[0].row = ROW.into();
                results.add(&contestant.name, lines);
                if pair.iter().all(|mpi| mpi.name != ANCESTOR) {
                    tried.push((value, pair));
                }
            }
            Err(e) => {
                eprintln!("choosing a pair: {}: {e}", contestant.name);
                results.fail(&contestant.name, &e);
            }
        }
    }
    best(&tried).ok_or("no two MPIs of different make could be joined: MPIS= leaves too few?".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_pairs_that_are_alike_one_without_own_sessions_is_taken() {
        let all = ["openmpi5", "impi", "mpich5", "openmpi4"].map(|n| Mpi::by_name(n).unwrap());
        let [openmpi5, impi, mpich5, openmpi4] = all;
        let alike = [(0.05, [impi, mpich5]), (0.08, [openmpi4, impi]), (0.06, [openmpi5, impi])];
        assert_eq!(best(&alike).unwrap().map(|m| m.name), ["openmpi5", "impi"]);
        assert_eq!(best(&[(0.05, [impi, mpich5]), (0.1, [openmpi5, impi])]).unwrap()[1].name, "mpich5", "much slower");
        assert!(best(&[]).is_none());
    }

    #[test]
    fn cores_that_are_near_for_a_moment_choose_no_pair() {
        let line = |samples: &[f64], apart: &[f64]| Line {
            row: ROW.into(),
            size: 8,
            unit: "us".into(),
            samples: samples.to_vec(),
            apart: apart.to_vec(),
        };
        let far = beyond_the_line(&line(&[0.21, 0.2], &[145.0, 145.0, 155.0]));
        let near = beyond_the_line(&line(&[0.15, 0.16], &[60.0, 60.0, 70.0]));
        let moved = beyond_the_line(&line(&[0.15], &[60.0, 150.0]));
        assert!((far - 0.055).abs() < 1e-9 && (near - 0.09).abs() < 1e-9 && moved >= near, "{far} {near} {moved}");
        assert_eq!(beyond_the_line(&line(&[0.3, 0.2], &[])), 0.2);
    }
}
