//! How two jobs on one host come to talk.

use c_tests::{Launch, MPIS, Mpi, Scene, width};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Whoever finds a name is answered from then on, so nobody has a reason to go another way than by shared memory.
#[test]
fn they_meet_in_shared_memory() {
    let meetings = width::otherwise(3, 8, "8 meetings of each couple, not 3");
    for (a, b) in Mpi::some_couples() {
        for _ in 0..meetings {
            let scene = Scene::new(format!("{} and {} share memory", a.name, b.name));
            let start = |mpi, ranks, names: [&str; 2], side| {
                let launch = Launch::new(mpi, ranks, "pair", &[names[0], names[1], side, "queries"]);
                scene.start(launch.env("MPI_CONNECT_LOG", "info"))
            };
            let jobs = [start(a, 1, ["air", "ocean"], "0"), start(b, 3, ["ocean", "air"], "1")];
            for done in scene.pass(jobs, LIMIT) {
                let ways: Vec<_> = done.stderr.lines().filter(|line| line.contains(" is connected to ")).collect();
                scene.require(!ways.is_empty(), "the log says how they are connected");
                scene.require(ways.iter().all(|way| way.contains("over shared memory")), "by shared memory");
            }
        }
    }
}

/// Later the kernel would take milliseconds for it, in MPI_Conn_register or in the first handshake.
#[test]
fn fences_are_asked_for_while_there_is_one_thread() {
    for mpi in MPIS.iter() {
        let scene = Scene::new(format!("fences, {}", mpi.name));
        scene.pass([scene.start(Launch::new(mpi, 1, "fences", &[]))], LIMIT);
    }
}
