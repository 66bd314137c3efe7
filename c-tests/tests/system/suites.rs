//! Suites that others wrote, with and without the library: exactly the same outcome.

use c_tests::{Done, Figure, Launch, Library, Scene, library, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// Every benchmark of IMB-MPI1, those that it leaves out by itself too.
const BENCHMARKS: &str = "PingPong,PingPongSpecificSource,PingPongAnySource,PingPing,PingPingSpecificSource,\
    PingPingAnySource,Uniband,Biband,Sendrecv,Exchange,Allreduce,Reduce,Reduce_local,Reduce_scatter,\
    Reduce_scatter_block,Allgather,Allgatherv,Gather,Gatherv,Scatter,Scatterv,Alltoall,Alltoallv,Bcast,Barrier";

/// What a run of IMB-MPI1 says, without its times: benchmarks, numbers of processes, sizes, repetitions, errors.
fn outcome(done: &Done) -> Vec<String> {
    let lines = done.stdout.lines().filter(|l| !l.starts_with("# Date") && !l.starts_with("# Calling"));
    let untimed = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        // Times have a point.
        let counts = words.iter().take_while(|w| w.parse::<u64>().is_ok()).count();
        if counts > 0 { words[..counts].join(" ") } else { words.join(" ") }
    };
    lines.map(untimed).collect()
}

#[test]
fn intel_mpi_benchmarks() {
    let mut figure = Figure::new("63-imb", "IMB-MPI1, every operation, with and without the library: same outcome");
    for mpi in c_tests::MPIS.iter().filter(|m| m.name == "impi") {
        for ranks in width::otherwise(3..=3, 2..=4, "IMB-MPI1 on 2 and 4 ranks, not only 3") {
            let scene = Scene::new(format!("IMB-MPI1 on {ranks}"));
            let program = mpi.folder().expect("a wheel").join("bin/IMB-MPI1");
            // However slow the machine is at the moment, it repeats as often.
            let arguments =
                ["-iter", "4", "-iter_policy", "off", "-msgsize", "0,8,4096,262144", "-npmin", "2", BENCHMARKS];
            let launch = |library| Launch::of(mpi, ranks, program.clone(), library, &arguments);
            let [without] = scene.pass([scene.start(launch(Library::None))], LIMIT);
            let [with] = scene.pass([scene.start(launch(Library::None).preloading(vec![library()]))], LIMIT);
            let (without, with) = (outcome(&without), outcome(&with));
            let differs = without.iter().zip(&with).find(|(a, b)| a != b);
            scene.require(
                differs.is_none() && without.len() == with.len(),
                &format!("the outcome differs: {differs:?}"),
            );
            let count = |start: &str| with.iter().filter(|l| l.starts_with(start)).count();
            scene.require(count("# Benchmarking") >= BENCHMARKS.split(',').count(), "every benchmark runs");
            figure.line(format!("{ranks} ranks: {} benchmarks, {} lines", count("# Benchmarking"), with.len()));
        }
    }
}
