//! The collective calls that an inter-communicator between jobs has.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

const SECTIONS: [&str; 5] = ["bcast", "types", "barrier", "faults", "left"];

#[test]
fn broadcast_and_barrier() {
    let mut figure = Figure::new("18-collective", "broadcast and barrier, 2 and 3 ranks: values checked, all right");
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("collective: {}, with {}", a.name, b.name));
        let start = |mpi, ranks, names: [&str; 3]| {
            scene.start(Launch::new(mpi, ranks, "collective", &[&names[..], &SECTIONS].concat()))
        };
        let jobs = [start(a, 2, ["air", "ocean", "0"]), start(b, 3, ["ocean", "air", "1"])];
        for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
            figure.line(format!("{}: {}", mpi.name, done.checks()));
        }
    }
}
