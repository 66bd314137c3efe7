//! What checkpoints cost jobs that exchange messages without a pause: rounds a second with one each second or each 100 ms, beside none in
//! the same launch, and beside jobs that never called `MPI_Conn_restart`. `make checkpoint-costs` runs it; LAUNCHES= of each (5).

use c_tests::{Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// Slices of a launch, each kind in turn, and how long each lasts.
const SLICES: &str = "9";
const SLICE_MS: &str = "2500";

/// One slice: how often there were checkpoints, by the program's number; rounds a second; the longest round in ms; checkpoints.
struct Slice {
    kind: usize,
    rate: f64,
    longest: f64,
    made: u32,
}

fn slices(pair: [&'static Mpi; 2], tracked: bool) -> Vec<Slice> {
    let scene = Scene::new("the cost of checkpoints");
    let folder = scene.path("checkpoints").display().to_string();
    let start = |mpi, mine: &str, theirs: &str| {
        let words = [mine, theirs, &folder, SLICES, SLICE_MS, "tracked"];
        let words = if tracked { &words[..] } else { &words[..5] };
        scene.start(Launch::new(mpi, 1, "checkpoint_cost", words).env("MPI_CONNECT_LOG", "error"))
    };
    let done = scene.pass([start(pair[0], "air", "ocean"), start(pair[1], "ocean", "air")], LIMIT);
    let read = |line: &str| {
        let words: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let &[kind, rounds, seconds, longest, made] = &words[..] else { panic!("a slice: {line}") };
        Slice { kind: kind as usize, rate: rounds / seconds, longest: longest * 1e3, made: made as u32 }
    };
    done[0].lines("SLICE").map(read).collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let launches = std::env::var("LAUNCHES").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let pair = Mpi::couples().next().map(|(a, b)| [a, b]).expect("there are two MPIs");
    for _ in 0..launches {
        without.extend(slices(pair, false));
        with.extend(slices(pair, true));
    }
    let rates = |kind| median(with.iter().filter(|slice| slice.kind == kind).map(|slice| slice.rate).collect());
    let never = rates(0);
    println!(
        "{} with {}, one rank each, shared memory; {launches} launches of each, taking turns",
        pair[0].name, pair[1].name
    );
    println!("{:>28} {:>12} {:>8} {:>16} {:>12}", "checkpoints", "rounds/s", "ratio", "longest round ms", "in a slice");
    let untracked = median(without.iter().map(|slice| slice.rate).collect());
    println!("{:>28} {untracked:>12.0} {:>8.3}", "MPI_Conn_restart not called", untracked / never);
    for (kind, name) in ["none", "each second", "each 100 ms"].into_iter().enumerate() {
        let its = || with.iter().filter(|slice| slice.kind == kind);
        let longest = its().map(|slice| slice.longest).fold(0.0, f64::max);
        let made = its().map(|slice| slice.made).sum::<u32>() as f64 / its().count() as f64;
        println!("{name:>28} {:>12.0} {:>8.3} {longest:>16.1} {made:>12.1}", rates(kind), rates(kind) / never);
    }
}
