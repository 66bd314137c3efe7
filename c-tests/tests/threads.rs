//! Programs whose threads call MPI: at once where the MPI allows it, in turns elsewhere.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

const SECTIONS: [&str; 9] =
    ["ping-pong", "persistent", "any", "wildcards", "matched", "beside", "create", "release", "turns"];
/// LAM gives MPI_THREAD_SERIALIZED.
const WITH_LAM: [&str; 1] = ["turns"];

#[test]
fn threads_on_inter_communicators() {
    let mut figure = Figure::new("19-threads", "6 threads a rank, 2 ranks a side: values checked, all right");
    for (a, b) in Mpi::couples() {
        let sections = if [a.name, b.name].contains(&"lam") { &WITH_LAM[..] } else { &SECTIONS };
        let scene = Scene::new(format!("threads: {}, with {}", a.name, b.name));
        let start =
            |mpi, names: [&str; 3]| scene.start(Launch::new(mpi, 2, "threads", &[&names[..], sections].concat()));
        let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
        let done = scene.pass(jobs, LIMIT);
        for (mpi, done) in [a, b].iter().zip(done) {
            scene.require(done.lines("SECTION").count() == sections.len(), "every section reports");
            figure.line(format!("{}: {} sections, {}", mpi.name, sections.len(), done.checks()));
        }
    }
}
