//! Inter-communicators as objects: duplicates, parts, attributes, comparison, error handlers, their end.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

const SECTIONS: [&str; 9] = ["dup", "ahead", "split", "create", "handlers", "refused", "taken-back", "ends", "names"];
/// Where the first of the couple has a bound of some thousands.
const OF_MPICH: &str = "exhausted";
/// LAM has none of these calls, so its partner makes none.
const OF_MPI_3: &str = "with-info";

#[test]
fn objects() {
    let mut figure = Figure::new("18-objects", "inter-communicators as objects: values checked, all right");
    for ((a, b), (m, n)) in Mpi::ring().zip([(3, 2), (1, 3), (2, 2), (1, 1)].into_iter().cycle()) {
        let scene = Scene::new(format!("objects: {} on {m}, with {} on {n}", a.name, b.name));
        let newer = [a, b].iter().all(|mpi| mpi.name != "lam").then_some(OF_MPI_3);
        let bounded = a.name.starts_with("mpich").then_some(OF_MPICH);
        let sections: Vec<_> = SECTIONS.into_iter().chain(newer).chain(bounded).collect();
        let start = |mpi, ranks, names: [&str; 3]| {
            scene.start(Launch::new(mpi, ranks, "objects", &[&names[..], &sections[..]].concat()))
        };
        let jobs = [start(a, m, ["air", "ocean", "0"]), start(b, n, ["ocean", "air", "1"])];
        for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
            figure.line(format!("{}: {}", mpi.name, done.checks()));
        }
    }
}
