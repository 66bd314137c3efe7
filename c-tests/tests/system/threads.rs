//! Programs with threads: those that call MPI at once where the MPI allows it, those that call it in turns, and those in
//! which one thread makes all calls.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// What `MPI_Init_thread` is asked for, and what is run then.
const LEVELS: [(&str, &[&str]); 3] = [
    ("funneled", &["helped"]),
    ("serialized", &["helped", "turns"]),
    ("multiple", &["ping-pong", "persistent", "any", "wildcards", "matched", "beside", "create", "release", "turns"]),
];

#[test]
fn threads_on_inter_communicators() {
    let mut figure = Figure::new("19-threads", "6 threads a rank, 2 ranks a side: values checked, all right");
    for (a, b) in Mpi::couples() {
        for (level, sections) in LEVELS {
            // LAM's highest level is MPI_THREAD_SERIALIZED.
            if level == "multiple" && [a.name, b.name].contains(&"lam") {
                continue;
            }
            let scene = Scene::new(format!("threads, {level}: {}, with {}", a.name, b.name));
            let start = |mpi, names: [&str; 3]| {
                scene.start(Launch::new(mpi, 2, "threads", &[&[level], &names[..], sections].concat()))
            };
            let jobs = [start(a, ["air", "ocean", "0"]), start(b, ["ocean", "air", "1"])];
            for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
                scene.require(done.lines("SECTION").count() == sections.len(), "every section reports");
                figure.line(format!("{}, {level}: {} sections, {}", mpi.name, sections.len(), done.checks()));
            }
        }
    }
}
