//! Partitioned communication, under the MPIs that have it.

use c_tests::{Figure, Launch, MPIS, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// They are older than MPI 4.
const LACKING: [&str; 2] = ["openmpi4", "lam"];

const SECTIONS: [&str; 6] = ["whole", "step", "matching", "wrong", "nothing", "threads"];

#[test]
fn partitions() {
    let mut figure =
        Figure::new("18-partitioned", "partitioned communication, 2 ranks a side: values checked, all right");
    let having: Vec<&Mpi> = MPIS.iter().copied().filter(|m| !LACKING.contains(&m.name)).collect();
    for (a, b) in having.iter().zip(having.iter().cycle().skip(1)).step_by(2) {
        let scene = Scene::new(format!("partitioned: {}, with {}", a.name, b.name));
        let start =
            |mpi, names: [&str; 3]| scene.start(Launch::new(mpi, 2, "partitioned", &[&names[..], &SECTIONS].concat()));
        let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
        for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
            let alone = if done.stdout.contains("ONE-THREAD") { ", no second thread allowed" } else { "" };
            figure.line(format!("{}: {}{alone}", mpi.name, done.checks()));
        }
    }
}
